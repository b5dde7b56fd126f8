"""Decisions on single proposals."""

from __future__ import annotations

import pytest

from agents.processor import Decision, Proposal
from agents.rules.merging import decide, item_key
from schemas.stages import Candidate


def _proposal(slot: str, value: str, present: str | None, *, retracts: bool = False, number: int = 1) -> Proposal:
    topic, _, sub_topic = slot.partition(".")
    candidate = Candidate(topic=topic, sub_topic=sub_topic, memo=value, evidence=("m1",), retracts=retracts)
    return Proposal(number=number, candidate=candidate, present=present)


def _decision(slot: str, value: str, present: str | None, *, retracts: bool = False) -> Decision:
    (decision,) = decide([_proposal(slot, value, present, retracts=retracts)])
    return decision


@pytest.mark.parametrize(
    ("slot", "value", "present", "action", "result"),
    [
        ("basic_info.name", "Jon", "John", "UPDATE", "Jon"),
        ("basic_info.name", "Jon", None, "UPDATE", "Jon"),
        ("basic_info.name", "jon", "Jon", "ABORT", ""),
        ("basic_info.location", "苏州", "杭州", "UPDATE", "苏州"),
        ("demographics.marital_status", "not married", "married", "UPDATE", "not married"),
        ("work.title", "无业", "老师", "UPDATE", "无业"),
        ("basic_info.languages", "French", "English", "APPEND", "French"),
        ("interest.likes", "tea", "jazz", "APPEND", "tea"),
        ("interest.likes", "tea", None, "UPDATE", "tea"),
        ("interest.likes", "Tea", "jazz; drinking tea", "ABORT", ""),
        ("interest.likes", "喝茶", "茶", "ABORT", ""),
        ("interest.likes", "tea; jazz; tea; chess", "jazz", "APPEND", "tea; chess"),
        ("interest.likes", "green tea", "tea", "APPEND", "green tea"),
        ("relationship.pets", "Mochi (cat)", "dog; cat", "UPDATE", "dog; Mochi (cat)"),
        ("relationship.pets", "团子（猫）", "猫", "UPDATE", "团子（猫）"),
        ("lifestyle.allergies", "peanuts", "no allergies", "UPDATE", "peanuts"),
        ("lifestyle.allergies", "没有过敏", "花生; 海鲜", "UPDATE", "没有过敏"),
        ("lifestyle.allergies", "nuts", "pollen", "APPEND", "nuts"),
        ("relationship.boss", "Priya", "Zhang", "UPDATE", "Priya"),
        ("relationship.children", "four children", "three kids", "UPDATE", "four children"),
        ("relationship.pets", "three cats", "two cats; dog", "UPDATE", "dog; three cats"),
        ("relationship.pets", "two cats", "cat", "UPDATE", "two cats"),
        ("relationship.pets", "two dogs", "Rex (dog); cat", "APPEND", "two dogs"),
        ("relationship.siblings", "两个妹妹", "一个妹妹; 哥哥", "UPDATE", "哥哥; 两个妹妹"),
        ("psychological.communication_preferences", "详细点", "简短点; 别用表情", "UPDATE", "别用表情; 详细点"),
        ("psychological.communication_preferences", "be concise", "keep it short", "ABORT", ""),
        ("psychological.communication_preferences", "用英文回答", "answer in English", "ABORT", ""),
        ("psychological.communication_preferences", "用英文回答", "用中文回答", "UPDATE", "用英文回答"),
        ("psychological.communication_preferences", "简短点; 详细点", None, "UPDATE", "详细点"),
        ("psychological.communication_preferences", "keep it short", "answer in English", "APPEND", "keep it short"),
        ("hobby.unknown_slot", "chess", "go", "APPEND", "chess"),
    ],
)
def test_what_is_said(slot: str, value: str, present: str | None, action: str, result: str) -> None:
    decision = _decision(slot, value, present)
    assert (decision.action, decision.value) == (action, result)
    assert decision.reason


@pytest.mark.parametrize(
    ("slot", "value", "present", "action", "result"),
    [
        ("interest.likes", "tea", "jazz; tea; chess", "UPDATE", "jazz; chess"),
        ("interest.likes", "茶", "喝茶; 咖啡", "UPDATE", "咖啡"),
        ("interest.likes", "tea", "tea", "UPDATE", ""),
        ("interest.likes", "tea", "jazz", "ABORT", ""),
        ("relationship.pets", "dog", "Rex (dog); cat", "UPDATE", "cat"),
        ("relationship.pets", "猫", "汤圆（橘猫）; 狗", "UPDATE", "狗"),
        ("work.company", "*", "Google", "UPDATE", ""),
        ("psychological.communication_preferences", "long answers", "detailed answers", "UPDATE", ""),
        ("interest.likes", "tea", None, "ABORT", ""),
        ("work.company", "Siemens", "Siemens", "UPDATE", ""),
        ("work.company", "Siemens", "Bosch", "ABORT", ""),
    ],
)
def test_what_is_taken_back(slot: str, value: str, present: str | None, action: str, result: str) -> None:
    decision = _decision(slot, value, present, retracts=True)
    assert (decision.action, decision.value) == (action, result)
    assert decision.reason


def test_the_reason_names_both_values() -> None:
    assert _decision("basic_info.location", "Berlin", "Hamburg").reason == "the user now says Berlin instead of Hamburg"


def test_later_proposals_see_what_earlier_ones_made_of_the_slot() -> None:
    decisions = decide(
        [
            _proposal("interest.likes", "tea", "tea", retracts=True, number=1),
            _proposal("interest.likes", "jazz", "tea", number=2),
            _proposal("interest.likes", "jazz", "tea", number=3),
        ]
    )
    assert [(decision.number, decision.action, decision.value) for decision in decisions] == [
        (1, "UPDATE", ""),
        (2, "UPDATE", "jazz"),
        (3, "ABORT", ""),
    ]


def test_ways_of_naming_one_thing() -> None:
    assert item_key("Drinking  Tea") == item_key("tea") == item_key("the tea")
    assert item_key("喝茶") == item_key("茶")
    assert item_key("吃") == "吃"
    assert item_key("tea") != item_key("coffee")
