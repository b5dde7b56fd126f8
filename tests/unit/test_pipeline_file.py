"""The pipeline file: what it may say, and how it is told what is wrong with it."""

from __future__ import annotations

import re
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import msgspec
import pytest
import yaml

from agents.slots import slot_definitions, written_out
from schemas.pipeline import EventTagDefinition, PipelineConfig, SubTopic, Topic
from streams.pipeline_file import MAX_BYTES, PipelineFileError, load_pipeline

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "pipeline.yaml"
DOCUMENTATION = ROOT / "docs" / "configuration.md"


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
    ["", "\n\n", "# nothing yet\n", "---\n...\n", "~", "additional_user_profiles:\nevent_theme_requirement:\n"],
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
        best_llm_model="big",
        summary_llm_model="small",
    )
    assert all(getattr(config, name) != getattr(PipelineConfig(), name) for name in config.__struct_fields__)


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
    ],
)
def test_one_wrong_value(file: Path, content: str, problem: str) -> None:
    assert problems(file, content) == [problem]


@pytest.mark.parametrize(
    "number", ["'64'", "64.0", "1e3", "0x40", "010", "1:30", "true", "[64]", "9" * 5000, "!!int x"]
)
def test_a_number_is_decimal_digits(file: Path, number: str) -> None:
    assert problems(file, f"max_profile_subtopics: {number}") == [
        "1:24: max_profile_subtopics: must be a whole number, in decimal digits and without quotes"
    ]


@pytest.mark.parametrize(("key", "lowest"), [("max_profile_subtopics", 2), ("max_pre_profile_token_size", 16)])
def test_a_number_has_a_range(file: Path, key: str, lowest: int) -> None:
    assert getattr(load(file, f"{key}: {lowest}"), key) == lowest
    assert problems(file, f"{key}: -{lowest}") == [f"1:{len(key) + 3}: {key}: must be at least {lowest}, not -{lowest}"]


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
@hypothesis.example("event_tags: [{? [name] : a, name: b}, {name: b}]")
@hypothesis.given(
    st.lists(
        st.sampled_from([*PipelineConfig.__struct_fields__, *"[]{}:,-?!&*#|>'\"%@`~ \n\t"])
        | st.sampled_from(
            [": ", "- ", "\n  ", "name", "topic", "sub_topics", "!!int ", "!!str ", "true", "3", "null", "é"]
        )
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


def default_in_words(default: object) -> str:
    if default is msgspec.NODEFAULT:
        return "required"
    if default is None:
        return "not given"
    return "none" if default in ("", ()) else f"`{str(default).lower()}`"


def test_the_documentation_has_every_key_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", DOCUMENTATION.read_text(encoding="utf-8"), re.MULTILINE))
    fields = [field for kind in (SubTopic, Topic, PipelineConfig) for field in msgspec.structs.fields(kind)]
    assert rows == {field.name: default_in_words(field.default) for field in fields}


def test_the_documentation_s_examples_are_right(file: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", DOCUMENTATION.read_text(encoding="utf-8"), re.DOTALL)
    configs = [load(file, block) for block in blocks]
    assert len(configs) == 4
    default = PipelineConfig()
    used = {
        name
        for name in default.__struct_fields__
        for config in configs
        if getattr(config, name) != getattr(default, name)
    }
    assert used == set(PipelineConfig.__struct_fields__)
