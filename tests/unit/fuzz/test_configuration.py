"""Configuration of any content: what is wrong is said in one typed error, and soon; what is taken can be used."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.llm.prompts import Prompts
from agents.rules.processor import RuleProcessor
from agents.signals import SignalDetector
from schemas.pipeline import PipelineConfig, SignalWords
from streams.pipeline_file import PipelineFileError, load_pipeline
from streams.settings import Settings, SettingsError, describe, load_settings
from tests.unit.fuzz.mutations import Mutator, long_texts, within

VARIATIONS = 250
SECONDS = 5.0
PIPELINE = Path(__file__).parents[3] / "examples" / "pipeline.yaml"
SMALL = b"""\
language: zh
profile_strict_mode: false
event_tags: [{name: mood, description: "how\\tthey feel"}]
max_profile_subtopics: 12
facts: {enabled: true, similarity: 0.8, signals: [{signal: work, words: [my pupils], ignore: [I have to]}]}
tag_catalogue: [{name: Travel}]
"""
SETTINGS = b"""\
kafka: {bootstrap_servers: "127.0.0.1:9092", partitions: 8, group_id: mine}
window:
  idle: 90.5
  by_session: true
lanes.attempts: 3
model:
  processor: rules
  base_url: https://user:secret@example.org/v1
clickhouse: {url: "http://127.0.0.1:8123", database: profiles}
embedding:
  kind: hash
"""
TAGS = (
    *("!!int ''", "!!float ''", "!!int '-'", "!!int 0x", "!!int 0b", "!!int 1:x", "!!float .", "!!bool maybe"),
    *("!!bool ''", "!!timestamp x", "!!timestamp 2026-99-99", "2026-02-30", "!!binary x", "!!binary é", "!!null x"),
    *("!!omap [a]", "!!omap [{a: 1, b: 2}]", "!!pairs [a]", "!!map [a]", "!!set [a]", "!!seq {a: b}", "!!str [a]"),
    *("!!str {a: b}", "!x y", "!!python/name:os.system", "!!merge x", "=", "<<", "{<<: 1}", "{<<: [1]}"),
    *("{<<: {a: b}}", "{[a]: b}", "{{a: b}: c}", "&a [*a]", "*a", "&a b", ".inf", "-.inf", ".nan", "1e999", "0o8"),
    *("1_000", "0b2", "9" * 5_000, "0x" + "f" * 5_000, "190:20:30", "1:" * 900 + "1", "~nobody/x", "\ud83e"),
    *("[" * 1_000, "[" * 1_000 + "]" * 1_000, "{a: " * 1_000, "? " * 1_000, "- " * 1_000),
    *('"\\U00110000"', '"\\ud83e"', '"\\x00"', "'\x00'", "|9\n x", ">-\n\t"),
)
"""Values that YAML has and no configuration should."""


@pytest.fixture(autouse=True)
def _nothing_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variables, no file and no running `up` of whoever runs the tests."""
    for key in os.environ:
        if key.startswith(("PROFILESTREAM_", "OPENAI_")):
            monkeypatch.delenv(key)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


def read_pipeline(content: bytes) -> PipelineConfig | None:
    """Load a pipeline file with this content; None when it is refused."""
    path = Path("pipeline.yaml")
    path.write_bytes(content)
    with within(SECONDS, content):
        try:
            config = load_pipeline(path)
        except PipelineFileError:
            return None
    assert msgspec.convert(msgspec.to_builtins(config), PipelineConfig) == config
    return config


def read_settings(content: bytes) -> Settings | None:
    """Load a settings file with this content; None when it is refused."""
    path = Path("settings.yaml")
    path.write_bytes(content)
    with within(SECONDS, content):
        try:
            loaded = load_settings(settings_file=path)
        except SettingsError:
            return None
    assert describe(loaded)
    return loaded


def test_a_pipeline_file_with_something_wrong_is_refused_or_can_be_used() -> None:
    taken: set[PipelineConfig] = set()
    for data in Mutator([SMALL, SMALL, SMALL, PIPELINE.read_bytes()], seed=8).draw(VARIATIONS):
        config = read_pipeline(data)
        if config is not None:
            taken.add(config)
    assert len(taken) > 5
    for config in taken:
        config.content_hash()
        Prompts(config)
        RuleProcessor(config)
        SignalDetector(config.facts.signals).detect("I have to tell my pupils that I live in Oslo")


def test_a_settings_file_with_something_wrong_is_refused_or_can_be_used() -> None:
    assert read_settings(SETTINGS) is not None
    taken = [read_settings(data) is not None for data in Mutator([SETTINGS], seed=9).draw(VARIATIONS)]
    assert 5 < sum(taken) < VARIATIONS


@pytest.mark.parametrize("value", TAGS, ids=lambda value: ascii(value)[1:20])
def test_odd_values_anywhere_are_refused_or_can_be_used(value: str) -> None:
    odd = value.encode("utf-8", "surrogatepass")
    for line in (
        b"%s",
        b"language: %s",
        b"max_profile_subtopics: %s",
        b"event_tags: [{name: %s}]",
        b"%s: 1",
        b"facts: %s",
    ):
        read_pipeline(line % odd)
    for line in (
        b"%s",
        b"kafka: %s",
        b"kafka: {partitions: %s}",
        b"kafka: {%s: 1}",
        b"window.idle: %s",
        b"pipeline_file: %s",
    ):
        read_settings(line % odd)


@pytest.mark.parametrize("read", [read_pipeline, read_settings])
def test_long_files_take_no_long_time(read) -> None:
    for text in long_texts(4_000):
        read(text.encode())
        read(b"language: " + text.encode())


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.builds(
            SignalWords,
            signal=st.sampled_from(["work", "time", "dislike"]),
            words=st.lists(st.text(max_size=8) | st.sampled_from(["I", "我", "I have", "’", "a  b"]), max_size=4).map(
                tuple
            ),
            ignore=st.lists(st.text(max_size=8) | st.sampled_from(["I have to", "我不"]), max_size=2).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    st.text(max_size=60) | st.sampled_from(["I have to work, 我不喜欢 “early” mornings?", "i" * 40, "I’ve a  b"]),
)
def test_signal_words_of_any_kind_are_looked_for_in_any_text(words: tuple[SignalWords, ...], text: str) -> None:
    SignalDetector(words).detect(text)


def test_no_text_takes_long_to_look_through() -> None:
    detector = SignalDetector((SignalWords(signal="work", words=("x" * 50, "aa", "a", "我", "我我"), ignore=("aaa",)),))
    for text in long_texts(1_000_000):
        with within(0.5, text):
            detector.detect(text)
