"""The shipped slots, and how they agree with what the rules can fill."""

from __future__ import annotations

import re

import msgspec
import pytest
import yaml

from agents.rules import slots as rule_slots
from agents.rules.chinese import rules as chinese
from agents.rules.english import rules as english
from agents.rules.rulebook import Rulebook
from agents.slots import configured_slots, default_slots, slot_definitions, written_out
from schemas.pipeline import PipelineConfig, SubTopic, Topic
from schemas.profiles import unify
from streams.pipeline_file import load_pipeline

LANGUAGES = ("en", "zh")


def filled_by(book: Rulebook) -> set[tuple[str, str]]:
    """Return every slot that a rulebook's rules can fill, with what their patterns may put into a slot's name."""
    found = set()
    for rule in book.rules:
        for give in rule.gives:
            topic, sub_topic = give.slot
            names = rule.names.values() if "{" in sub_topic else (sub_topic,)
            found |= {(topic, re.sub(r"\{\w+\}", name, sub_topic)) for name in names}
    return found


def test_the_rules_name_every_slot_that_they_fill() -> None:
    assert filled_by(english.BOOK) | filled_by(chinese.BOOK) == rule_slots.FILLED


def test_every_slot_that_the_rules_fill_is_shipped_in_english() -> None:
    assert rule_slots.FILLED - slot_definitions(PipelineConfig()).keys() == set()


def test_strict_mode_allows_the_rules_their_slots_unless_others_are_put_in_their_place() -> None:
    for language in LANGUAGES:
        assert rule_slots.allowed_slots(PipelineConfig(language=language)) == rule_slots.FILLED
    own = (Topic(topic="basic_info", sub_topics=(SubTopic(name="name"),)),)
    assert rule_slots.allowed_slots(PipelineConfig(overwrite_user_profiles=own)) == frozenset()
    assert rule_slots.allowed_slots(PipelineConfig(overwrite_user_profiles=())) == frozenset()


def test_slots_with_one_value_say_that_the_newest_stands() -> None:
    shipped = slot_definitions(PipelineConfig())
    single = {slot for slot in rule_slots.FILLED if rule_slots.holds_one_value(slot)}
    assert {slot for slot in single if "newest stands" not in shipped[slot].update_description} == set()


@pytest.mark.parametrize("language", LANGUAGES)
def test_shipped_slots_would_pass_as_a_file(language, tmp_path) -> None:
    topics = default_slots(language)
    file = tmp_path / "shipped.yaml"
    file.write_text(yaml.safe_dump({"overwrite_user_profiles": msgspec.to_builtins(topics)}, allow_unicode=True))
    assert load_pipeline(file).overwrite_user_profiles == topics
    assert all(topic.sub_topics for topic in topics)


@pytest.mark.parametrize("language", LANGUAGES)
def test_shipped_slots_cost_no_call_for_a_first_value(language) -> None:
    assert not any(slot.validate_value for slot in slot_definitions(PipelineConfig(language=language)).values())


def test_shipped_topics() -> None:
    assert [topic.topic for topic in default_slots("en")] == [
        "basic_info", "contact_info", "education", "demographics", "work", "interest", "lifestyle", "relationship",
        "psychological", "life_event",
    ]  # fmt: skip
    assert [topic.topic for topic in default_slots("zh")] == [
        "基本信息", "联系方式", "教育背景", "人口统计", "工作", "兴趣爱好", "生活方式", "心理特征", "人生大事",
    ]  # fmt: skip


def test_names_meet_in_their_unified_form() -> None:
    config = PipelineConfig(
        additional_user_profiles=(
            Topic(topic=" Work ", description="jobs", sub_topics=(SubTopic(name="Title", description="rank"),)),
            Topic(topic="Fav  Things", sub_topics=(SubTopic(name="A"), SubTopic(name=" a ", description="later"))),
        )
    )
    by_name = {topic.topic: topic for topic in configured_slots(config)}
    assert list(by_name) == [*(topic.topic for topic in default_slots("en")), "fav_things"]
    assert by_name["work"].description == "jobs"
    assert [slot.name for slot in by_name["work"].sub_topics][:2] == ["company", "title"]
    assert slot_definitions(config)["work", "title"] == SubTopic(name="title", description="rank")
    assert by_name["fav_things"].sub_topics == (SubTopic(name="a", description="later"),)
    assert all(unify(name) == name for slot in slot_definitions(config) for name in slot)


def test_two_ways_to_the_same_slots_have_one_hash() -> None:
    added = PipelineConfig(additional_user_profiles=(Topic(topic="Garden", sub_topics=(SubTopic(name="Plants"),)),))
    replaced = PipelineConfig(overwrite_user_profiles=(*default_slots("en"), *added.additional_user_profiles))
    assert added.content_hash() != replaced.content_hash()
    assert written_out(added) == written_out(replaced) == written_out(written_out(added))
    assert slot_definitions(written_out(added)) == slot_definitions(added)


def test_the_hash_follows_the_shipped_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    before = written_out(PipelineConfig()).content_hash()
    monkeypatch.setattr("agents.slots.default_slots", lambda _language: (Topic(topic="other"),))
    assert written_out(PipelineConfig()).content_hash() != before
