"""The pipeline file: what it may say, and how it is told what is wrong with it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import hypothesis
import hypothesis.strategies as st
import msgspec
import pytest
import yaml

from agents.slots import slot_definitions, written_out
from schemas.flushes import FactSignal, PreferenceSignal
from schemas.pipeline import (
    CatalogueTag,
    DomainConfig,
    EventTagDefinition,
    FactsConfig,
    PipelineConfig,
    SignalWords,
    SubTopic,
    Topic,
)
from streams.pipeline_file import MAX_BYTES, PipelineFileError, load_pipeline

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline.yaml"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pipeline.yaml"


def load(file: Path, content: str | bytes) -> PipelineConfig:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return load_pipeline(file)


def problems(file: Path, content: str | bytes) -> list[str]:
    """Return the problems of a content, each without the file's name."""
    with pytest.raises(PipelineFileError) as caught:
        load(file, content)
    lines = str(caught.value).splitlines()
    assert [str(problem) for problem in caught.value.problems] == lines
    assert all(line.startswith(f"{file}:") for line in lines)
    return [line.removeprefix(f"{file}:") for line in lines]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\n\n",
        "# nothing yet\n",
        "---\n...\n",
        "~",
        "additional_user_profiles:\nevent_theme_requirement:\n",
        "facts:\ndomain: {}\ntag_catalogue: []\n",
        "facts: {signals: }",
    ],
)
def test_what_is_not_given_has_its_default(file: Path, content: str) -> None:
    assert load(file, content) == PipelineConfig() == load_pipeline(None)


def test_every_key_is_read(file: Path) -> None:
    config = load(
        file,
        """
        language: zh
        profile_strict_mode: true
        profile_validate_mode: yes
        additional_user_profiles:
          - topic: " Fav  Things "
            description: >
              what they
              like
            sub_topics:
              - {name: Red Wine, description: which, update_description: newest, validate_value: on}
              - name: 美食
        overwrite_user_profiles: []
        event_theme_requirement: "moods\\n"
        event_tags: [{name: My Goal, description: what for}]
        max_chat_blob_buffer_process_token_size: 64
        max_profile_subtopics: 2
        max_pre_profile_token_size: 16
        facts:
          enabled: off
          signals:
            - signal: work
              words: [" my shift ", 我的班]
              ignore: [shift key]
            - signal: time
            - signal: work
              words: [roster]
          similarity: 1
          preference_similarity: 0.05
          nearest: 1
          shown: 0
          max_facts: 1000
          max_preferences: 1
        domain: {enabled: yes}
        tag_catalogue: [{name: "Board  Games", description: " on a table "}, {name: 咖啡}]
        best_llm_model: big
        summary_llm_model: small
        """,
    )
    wine = SubTopic(name="red_wine", description="which", update_description="newest", validate_value=True)
    assert config == PipelineConfig(
        language="zh",
        profile_strict_mode=True,
        profile_validate_mode=True,
        additional_user_profiles=(
            Topic(topic="fav_things", description="what they like", sub_topics=(wine, SubTopic(name="美食"))),
        ),
        overwrite_user_profiles=(),
        event_theme_requirement="moods",
        event_tags=(EventTagDefinition(name="my_goal", description="what for"),),
        max_chat_blob_buffer_process_token_size=64,
        max_profile_subtopics=2,
        max_pre_profile_token_size=16,
        facts=FactsConfig(
            enabled=False,
            signals=(
                SignalWords(signal="work", words=("my shift", "我的班"), ignore=("shift key",)),
                SignalWords(signal="time"),
                SignalWords(signal="work", words=("roster",)),
            ),
            similarity=1.0,
            preference_similarity=0.05,
            nearest=1,
            shown=0,
            max_facts=1000,
            max_preferences=1,
        ),
        domain=DomainConfig(enabled=True),
        tag_catalogue=(
            CatalogueTag(name="Board Games", description="on a table"),
            CatalogueTag(name="咖啡"),
        ),
        best_llm_model="big",
        summary_llm_model="small",
    )
    default = PipelineConfig()
    assert all(getattr(config, name) != getattr(default, name) for name in config.__struct_fields__)
    assert all(getattr(config.facts, name) != getattr(default.facts, name) for name in config.facts.__struct_fields__)


def test_everything_wrong_is_named_at_once_with_its_place(file: Path) -> None:
    content = """\
langage: en
language: fr
profile_strict_mode: "yes"
additional_user_profiles:
  - topic: Basic Info
    sub_topics:
      - name: Fav Team
      - {name: fav_team, validate_value: 1}
      - description: x
      - name: 2024-01-01
      - foo
  - description: no name
  - topic: " basic  info"
event_tags: {name: a}
max_profile_subtopics: 1
max_pre_profile_token_size:
profile_strict_mode: no
? [a, b]
: 3
"""
    assert problems(file, content) == [
        "1:1: langage: there is no such key, did you mean 'language'?",
        "2:11: language: must be en or zh, not 'fr'",
        "3:22: profile_strict_mode: must be true or false, not text",
        "8:16: additional_user_profiles[0].sub_topics[1].name: 'fav_team' is defined twice, first in line 7",
        "8:42: additional_user_profiles[0].sub_topics[1].validate_value: must be true or false, not a number",
        "9:9: additional_user_profiles[0].sub_topics[2]: 'name' is missing",
        "10:15: additional_user_profiles[0].sub_topics[3].name: must be text, not a date: put it in quotes",
        "11:9: additional_user_profiles[0].sub_topics[4]: must be keys with values, such as `name: ...`, not text",
        "12:5: additional_user_profiles[1]: 'topic' is missing",
        "13:12: additional_user_profiles[2].topic: 'basic_info' is defined twice, first in line 5",
        "14:13: event_tags: must be a list, its items beginning with `- `, not keys with values",
        "15:24: max_profile_subtopics: must be at least 2, not 1",
        "16:28: max_pre_profile_token_size: has no value: give it one or leave the key out",
        "17:1: profile_strict_mode: is set twice, first in line 3",
        "18:3: there is no such key",
    ]


WHOLE_NUMBER = "must be a whole number, in decimal digits and without quotes"
SIGNALS = "identity, location, possession, relationship, state, work, dislike, explicit, frequency, style_request, time"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("- a", "1:1: must be keys with values, such as `language: ...`, not a list"),
        ("just text", "1:1: must be keys with values, such as `language: ...`, not text"),
        ("language: yes", "1:11: language: must be en or zh, not 'yes'"),
        ("language: [en]", "1:11: language: must be en or zh, not a list"),
        ("language:", "1:10: language: has no value: give it one or leave the key out"),
        ("best_llm_model: 4", "1:17: best_llm_model: must be text, not a number: put it in quotes"),
        ("best_llm_model: {a: b}", "1:17: best_llm_model: must be text, not keys with values"),
        ("profile_strict_mode: maybe", "1:22: profile_strict_mode: must be true or false, not text"),
        ("event_tags: [{name: ' '}]", "1:21: event_tags[0].name: must not be empty"),
        ("event_tags: [{name: }]", "1:20: event_tags[0].name: must not be empty"),
        ("event_tags: [{name: a}, {name: A }]", "1:32: event_tags[1].name: 'a' is defined twice, first in line 1"),
        ("event_tags: [{name: a, description: b, name: c}]", "1:40: event_tags[0].name: is set twice, first in line 1"),
        ("event_tags: [{name: a, validate_value: on}]", "1:24: event_tags[0].validate_value: there is no such key"),
        ("<<: {language: en}", "1:1: <<: there is no such key"),
        (r'best_llm_model: "a\0"', "1:17: best_llm_model: the character U+0000 cannot stand in a text"),
        (r'best_llm_model: "\uD800"', "1:17: best_llm_model: the character U+D800 cannot stand in a text"),
        ("language: !!python/object/apply:os.getcwd []", "1:11: language: must be en or zh, not a list"),
        ("language: EN", "1:11: language: must be en or zh, not 'EN', did you mean 'en'?"),
        ("facts: off", "1:8: facts: must be keys with values, such as `enabled: ...`, not true or false"),
        ("facts: [a]", "1:8: facts: must be keys with values, such as `enabled: ...`, not a list"),
        ("facts: {similarty: 1}", "1:9: facts.similarty: there is no such key, did you mean 'similarity'?"),
        ("facts: {similarity: }", "1:20: facts.similarity: has no value: give it one or leave the key out"),
        ("facts: {nearest: 0}", "1:18: facts.nearest: must be at least 1, not 0"),
        ("facts: {nearest: 1.0}", "1:18: facts.nearest: " + WHOLE_NUMBER),
        ("facts: {enabled: 1}", "1:18: facts.enabled: must be true or false, not a number"),
        ("facts: {enabled: no, enabled: no}", "1:22: facts.enabled: is set twice, first in line 1"),
        ("domain: {on: true}", "1:10: domain.on: there is no such key"),
        ("tag_catalogue: [coffee]", "1:17: tag_catalogue[0]: must be keys with values, such as `name: ...`, not text"),
        ("tag_catalogue: [{description: a}]", "1:17: tag_catalogue[0]: 'name' is missing"),
        (
            "tag_catalogue:\n- name: Board Games\n- name: 'board  games'",
            "3:9: tag_catalogue[1].name: 'board games' is defined twice, first in line 2",
        ),
        ("tag_catalogue: [{name: ' '}]", "1:24: tag_catalogue[0].name: must not be empty"),
    ],
)
def test_one_wrong_value(file: Path, content: str, problem: str) -> None:
    assert problems(file, content) == [problem]


@pytest.mark.parametrize(
    ("item", "place", "problem"),
    [
        ("{words: [a]}", "5: facts.signals[0]", "'signal' is missing"),
        ("work", "5: facts.signals[0]", "must be keys with values, such as `signal: ...`, not text"),
        ("{signal: }", "13: facts.signals[0].signal", "must not be empty"),
        ("{signal: [work]}", "14: facts.signals[0].signal", f"must be one of {SIGNALS}, not a list"),
        (
            "{signal: likes}",
            "14: facts.signals[0].signal",
            f"must be one of {SIGNALS}, not 'likes', did you mean 'dislike'?",
        ),
        ("{signal: work, word: [a]}", "20: facts.signals[0].word", "there is no such key, did you mean 'words'?"),
        (
            "{signal: work, words: a}",
            "27: facts.signals[0].words",
            "must be a list, its items beginning with `- `, not text",
        ),
        (
            "{signal: work, words: [a, 3]}",
            "31: facts.signals[0].words[1]",
            "must be text, not a number: put it in quotes",
        ),
        ("{signal: work, words: [[a]]}", "28: facts.signals[0].words[0]", "must be text, not a list"),
        ("{signal: work, words: [' ']}", "28: facts.signals[0].words[0]", "must not be empty"),
        ("{signal: work, ignore: [~]}", "29: facts.signals[0].ignore[0]", "must not be empty"),
    ],
)
def test_one_wrong_signal(file: Path, item: str, place: str, problem: str) -> None:
    assert problems(file, f"facts:\n  signals:\n  - {item}") == [f"3:{place}: {problem}"]


@pytest.mark.parametrize(
    "number", ["'64'", "64.0", "1e3", "0x40", "010", "1:30", "true", "[64]", "9" * 5000, "!!int x"]
)
def test_a_number_is_decimal_digits(file: Path, number: str) -> None:
    assert problems(file, f"max_profile_subtopics: {number}") == [f"1:24: max_profile_subtopics: {WHOLE_NUMBER}"]


@pytest.mark.parametrize(("key", "lowest"), [("max_profile_subtopics", 2), ("max_pre_profile_token_size", 16)])
def test_a_number_has_a_range(file: Path, key: str, lowest: int) -> None:
    assert getattr(load(file, f"{key}: {lowest}"), key) == lowest
    assert problems(file, f"{key}: -{lowest}") == [f"1:{len(key) + 3}: {key}: must be at least {lowest}, not -{lowest}"]


@pytest.mark.parametrize(("written", "value"), [("0", 0.0), ("1", 1.0), ("0.750", 0.75), ("1.0", 1.0)])
def test_a_share_is_a_decimal_number(file: Path, written: str, value: float) -> None:
    found = load(file, f"facts: {{similarity: {written}}}").facts.similarity
    assert (found, type(found)) == (value, float)


@pytest.mark.parametrize(
    "written", ["'0.5'", ".5", "5e-1", "1_0", ".nan", ".inf", "0:30", "050", "[0.5]", "yes", "half"]
)
def test_a_share_is_written_in_digits(file: Path, written: str) -> None:
    assert problems(file, f"facts: {{similarity: {written}}}") == [
        "1:21: facts.similarity: must be a number such as 0.75, in decimal digits and without quotes"
    ]


@pytest.mark.parametrize("written", ["75", "-0.5", "1.01"])
def test_a_share_is_from_0_to_1(file: Path, written: str) -> None:
    assert problems(file, f"facts: {{similarity: {written}}}") == [
        f"1:21: facts.similarity: must be from 0 to 1, not {written}"
    ]


@pytest.mark.parametrize("signal", [*get_args(FactSignal), *get_args(PreferenceSignal)])
def test_every_signal_can_be_given_words(file: Path, signal: str) -> None:
    found = load(file, f"facts: {{signals: [{{signal: {signal}, words: [x]}}]}}").facts.signals
    assert [(one.signal, one.words) for one in found] == [(signal, ("x",))]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("language: en\nevent_tags: [1", "2:15: no valid YAML: while parsing a flow sequence, expected ',' or ']'"),
        ("language: en\n\t- x", "2:1: no valid YAML: while scanning for the next token"),
        ("language: 'en\n", "2:1: no valid YAML: while scanning a quoted scalar"),
        ("language: en\n---\nlanguage: zh", "2:1: no valid YAML: expected a single document"),
        ("a: &a [x]\nb: [*a, *a]", "2:5: no valid YAML: references to other places"),
        ("a: &a [*a]", "1:8: no valid YAML: references to other places"),
        ("[" * 100_000, "1:17: no valid YAML: more than 16 lists and mappings in one another"),
        ("- " * 100_000, "1:33: no valid YAML: more than 16 lists and mappings in one another"),
        ("language: en\nbest_llm_model: a\x07", "2:18: the character U+0007 cannot stand in a YAML file"),
        ('best_llm_model: "\\UFFFFFFFF"', "1:20: no valid YAML: "),
        ("language: en\nbest_llm_model: caf\u00e9 ".encode() + b"\xff", "2:22: is not UTF-8"),
        ("language: en".encode("utf-16"), "1:1: is not UTF-8"),
        (b"#" * (MAX_BYTES + 1), " is larger than 1,000,000 bytes"),
    ],
    ids=lambda value: value[:12] if isinstance(value, str) else "bytes",
)
def test_what_is_no_yaml_is_refused_at_its_place(file: Path, content: str | bytes, problem: str) -> None:
    (found,) = problems(file, content)
    assert found.startswith(problem)


@hypothesis.settings(max_examples=300, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.example("profile_strict_mode: !!bool maybe")
@hypothesis.example("!!null {language: en}")
@hypothesis.example("best_llm_model: !!str {a: b}")
@hypothesis.example("event_tags: !!str [a]")
@hypothesis.example("max_profile_subtopics: !!int [a]")
@hypothesis.example("event_tags: [{name: !!null [a]}]")
@hypothesis.example("facts: !!null [a]")
@hypothesis.example("facts: !!float [a]")
@hypothesis.example("facts: {signals: [{words: [!!null [a], !!null a]}]}")
@hypothesis.example("event_tags: [{? [name] : a, name: b}, {name: b}]")
@hypothesis.given(
    st.lists(
        st.sampled_from([*PipelineConfig.__struct_fields__, *"[]{}:,-?!&*#|>'\"%@`~ \n\t"])
        | st.sampled_from(
            [": ", "- ", "\n  ", "name", "topic", "sub_topics", "!!int ", "!!str ", "true", "3", "0.5", "null", "é"]
        )
        | st.sampled_from(["enabled", "similarity", "signals", "signal", "words", "work"])
    ).map("".join)
)
def test_any_text_is_read_or_refused(file: Path, content: str) -> None:
    try:
        config = load(file, content)
    except PipelineFileError:
        return
    assert msgspec.convert(msgspec.to_builtins(config), PipelineConfig) == config


def test_a_byte_order_mark_moves_nothing(file: Path) -> None:
    assert load(file, "\ufefflanguage: zh").language == "zh"
    assert problems(file, "\ufefflanguage: xx") == ["1:11: language: must be en or zh, not 'xx'"]
    assert problems(file, b"\xef\xbb\xbflanguage: \xff") == ["1:11: is not UTF-8"]


def test_a_file_of_the_largest_size_is_read(file: Path) -> None:
    assert load(file, b"#" * MAX_BYTES) == PipelineConfig()


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none.yaml", "No such file"), (tmp_path, "Is a directory")):
        with pytest.raises(PipelineFileError, match=f"^{re.escape(str(path))}: cannot be read: {reason}"):
            load_pipeline(path)


def test_both_ways_of_naming_slots_may_be_given(file: Path) -> None:
    config = load(file, "additional_user_profiles: [{topic: a}]\noverwrite_user_profiles: [{topic: A}]")
    assert (config.additional_user_profiles, config.overwrite_user_profiles) == ((Topic(topic="a"),),) * 2


ONE_WAY = """
language: en
profile_strict_mode: true
event_tags:
  - name: my goal
    description: what they want
additional_user_profiles:
  - topic: work
    sub_topics:
      - name: shift
        validate_value: true
"""
OTHER_WAY = """
# the same, said in another order and another style
additional_user_profiles: [{sub_topics: [{validate_value: yes, name: " Shift"}], topic: "Work"}]
event_tags: [{"description": 'what they
  want', "name": My Goal}]
max_profile_subtopics: 15
profile_strict_mode: on
"""


def test_the_hash_follows_the_meaning_not_the_form(file: Path) -> None:
    assert load(file, ONE_WAY).content_hash() == load(file, OTHER_WAY).content_hash()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("language: en", "language: zh"),
        ("profile_strict_mode: true", "profile_strict_mode: false"),
        ("name: my goal", "name: my aim"),
        ("what they want", "what they wish"),
        ("topic: work", "topic: job"),
        ("name: shift", "name: hours"),
        ("validate_value: true", "update_description: x"),
        ("language: en", "overwrite_user_profiles: []"),
        ("language: en", "profile_validate_mode: true"),
        ("language: en", "event_theme_requirement: x"),
        ("language: en", "max_chat_blob_buffer_process_token_size: 100"),
        ("language: en", "max_profile_subtopics: 3"),
        ("language: en", "max_pre_profile_token_size: 100"),
        ("language: en", "facts: {similarity: 0.76}"),
        ("language: en", "facts: {signals: [{signal: work, words: [x]}]}"),
        ("language: en", "domain: {enabled: true}"),
        ("language: en", "tag_catalogue: [{name: x}]"),
        ("language: en", "best_llm_model: x"),
        ("language: en", "summary_llm_model: x"),
    ],
)
def test_the_hash_changes_with_every_meaning(file: Path, old: str, new: str) -> None:
    before = load(file, ONE_WAY)
    after = load(file, ONE_WAY.replace(old, new))
    assert before.content_hash() != after.content_hash()
    assert written_out(before).content_hash() != written_out(after).content_hash()


def test_a_configuration_written_out_is_a_file_that_means_the_same(file: Path) -> None:
    config = load_pipeline(EXAMPLE)
    whole = written_out(config)
    again = load(file, yaml.safe_dump(msgspec.to_builtins(whole), allow_unicode=True))
    assert again == whole
    assert slot_definitions(again) == slot_definitions(config)


def test_the_example_is_right() -> None:
    config = load_pipeline(EXAMPLE)
    assert {tag.name for tag in config.event_tags} == {"emotion", "goal"}
    slots = slot_definitions(config)
    assert slots["language_learning", "exam"].validate_value
    assert ("work", "languages_at_work") in slots
    assert ("work", "title") in slots
    assert [words.signal for words in config.facts.signals] == ["work", "style_request", "possession"]
    assert [tag.name for tag in config.tag_catalogue] == ["Travel", "Business", "Exams", "Films and series"]
