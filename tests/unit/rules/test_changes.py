"""What a person says one message after another: facts, preferences and profile slots agree with what was said last."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import msgspec
import pytest

from agents.facts import read_facts
from agents.rules.processor import RuleProcessor
from agents.signals import SignalDetector
from schemas.pipeline import PipelineConfig
from streams.samples import sample_path
from tests.support.fact_lane import FactLane
from tests.unit.rules.conftest import Reader, batch, message

DETECTOR = SignalDetector()
PROCESSOR = RuleProcessor(PipelineConfig())


def person(said: Sequence[str]) -> FactLane:
    """Return what is known of someone who said this.

    Nothing is near in meaning there, so that what is contradicted must be named by the rules.
    """
    lane = FactLane(PROCESSOR)  # type: ignore[arg-type]

    async def say(content: str) -> None:
        flush = batch([message(content, message_id="m")])
        signals = DETECTOR.detect(content)
        if signals:
            flush = msgspec.structs.replace(flush, signals=signals)
            found = await read_facts(flush, PROCESSOR, lane.state.profile)
            await lane.say(*found.facts, *found.preferences)

    for content in said:
        asyncio.run(say(content))
    return lane


def facts(lane: FactLane) -> list[str]:
    return [fact.text for fact in lane.facts]


def preferences(lane: FactLane) -> list[str]:
    return [preference.text for preference in lane.preferences]


def slots(said: Sequence[str]) -> dict[str, str]:
    """Return the slots of someone who said this, each in a batch of its own."""
    reader = Reader()
    for content in said:
        reader.hear(content)
    return {sub_topic: value for (_, sub_topic), value in reader.profile.items()}


TASTES = [
    ("I like jazz. | I hate horror movies. | I hate jazz.", ["Dislikes jazz", "Dislikes horror movies"]),
    ("我喜欢咖啡 | 我讨厌加班 | 我讨厌咖啡", ["不喜欢咖啡", "不喜欢加班"]),
    ("I like tea. | I no longer like tea.", ["No longer likes tea"]),
    ("I like tea. | I no longer like tea. | I like tea again.", ["Likes tea"]),
    ("I like coffee. | I've gone off coffee.", ["No longer likes coffee"]),
    ("我讨厌加班 | 我现在喜欢加班了", ["喜欢加班"]),
    ("我讨厌香菜 | 我不讨厌香菜了", ["不再讨厌香菜"]),
    ("我不吃香菜 | 我现在喜欢香菜了", ["喜欢香菜"]),
    ("我喜欢吃辣 | 我现在不吃辣了", ["不吃辣"]),
    ("我喜欢喝茶 | 我不再喜欢喝茶了", ["不再喜欢喝茶"]),
    ("I hate olives. | I've started to like olives.", ["Likes olives"]),
    ("I hate olives. | I don't hate olives any more.", ["No longer dislikes olives"]),
    ("I love sushi. | I can't stand sushi any more.", ["Dislikes sushi"]),
    ("My favourite food is sushi. | I hate sushi.", ["Dislikes sushi"]),
    ("I don't eat pork. | I eat pork again.", ["Eats pork again"]),
    ("I don't eat meat. | I love meat now.", ["Likes meat"]),
    ("I don't like fish. | I like fish now.", ["Likes fish"]),
    ("I prefer tea to coffee. | I prefer coffee to tea.", ["Prefers coffee to tea"]),
    ("简短点 | 详细点", ["偏好详细的回复风格"]),
    ("别用表情 | 用表情", ["偏好带表情符号的回复"]),
    ("Keep it short. | Please give detailed answers.", ["Prefers detailed replies"]),
    ("Be more formal. | Be casual.", ["Prefers a casual tone"]),
]
FACTS = [
    ("I live in Berlin. | I left Berlin and live in Vienna now.", ["User lives in Vienna"]),
    ("I live in Berlin. | I moved from Berlin to Vienna.", ["User lives in Vienna"]),
    ("I live in Rome. | I don't live in Rome any more.", ["User no longer lives in Rome"]),
    ("I live in Berlin. | I left Munich.", ["User lives in Berlin"]),
    ("I work at Google. | I left Google and joined Apple.", ["User works at Apple"]),
    ("I work at Google. | I left Google.", ["User no longer works at Google"]),
    ("I work at Google. | I'm retired.", ["User is retired"]),
    ("I work at Google. | I lost my job.", ["User lost their job"]),
    ("I'm unemployed. | I work at Bosch now.", ["User works at Bosch"]),
    ("我住在杭州 | 我搬家了,现在住深圳", ["用户住在深圳", "用户搬家了"]),
    ("我在华为工作 | 我失业了", ["用户目前失业"]),
    ("我在华为工作 | 我上个月退休了", ["用户上个月退休了"]),
    ("我失业了 | 我入职了大疆", ["用户就职于大疆"]),
    ("I have three children. | I have four children now.", ["User has four children"]),
    ("I have a dog called Rex. | I don't have a dog anymore.", ["User no longer has a dog"]),
    ("我养了一只橘猫，叫汤圆 | 我不养猫了", ["用户不再养猫"]),
    ("I'm single. | I have a girlfriend called Eve.", ["User's girlfriend is Eve"]),
    ("I have a girlfriend. | My girlfriend is called Eve. | I'm single again.", ["User is single"]),
    ("My boyfriend is Tom. | We broke up.", ["User broke up"]),
    ("我目前单身 | 我有女朋友了！ | 我女朋友叫陈静", ["用户的女朋友叫陈静"]),
    ("我女朋友叫陈静 | 我和女朋友分手了", ["用户分手了"]),
    ("I'm allergic to cats. | I'm not allergic to cats.", ["User is no longer allergic to cats"]),
    ("I'm not allergic to cats.", []),
    ("我对花生过敏 | 我对花生不过敏了", ["用户不再对花生过敏"]),
    ("我在四川大学读书 | 我考上了华东师范大学", ["用户的学校是华东师范大学"]),
    ("I'm a student. | I graduated last week.", ["User graduated last week"]),
]
SLOTS = [
    ("My favourite food is sushi. | I hate sushi.", {"dislikes": "sushi"}),
    ("我不吃香菜 | 我现在喜欢香菜了", {"likes": "香菜"}),
    ("简短点 | 详细点", {"communication_preferences": "详细点"}),
    ("请正式一点 | 随意一点 | 简短点", {"communication_preferences": "随意一点; 简短点"}),
    ("Answer in English. | Answer in French.", {"communication_preferences": "Answer in French"}),
    ("用中文回答我 | 用英文回答我", {"communication_preferences": "用英文回答"}),
    ("No emojis please. | Use emojis please.", {"communication_preferences": "Use emojis"}),
    ("Keep it short. | No emojis please.", {"communication_preferences": "Keep it short; No emojis"}),
    (
        "I prefer meetings in the morning. | I now prefer long, detailed answers.",
        {"likes": "meetings in the morning", "communication_preferences": "long, detailed answers"},
    ),
    ("I prefer Python to Java.", {}),
    ("I prefer to meet in the morning.", {"likes": "meeting in the morning"}),
    ("I like talking about history.", {"likes": "talking about history"}),
    ("I work at Google. | I'm retired.", {"status": "retired"}),
    ("I'm retired. | I work at Bosch again.", {"company": "Bosch"}),
    ("I have three kids. | I have four children now.", {"children": "four children"}),
    ("I have a dog called Rex. | I don't have a dog anymore.", {}),
    ("我养了一只狗叫旺财 | 我不养狗了", {}),
    ("I have a girlfriend called Eve. | I'm single again.", {"marital_status": "single"}),
    ("我目前单身 | 我有女朋友了！", {"marital_status": "有女朋友"}),
    ("I left Berlin and live in Vienna now.", {"location": "Vienna"}),
    ("I live in Berlin. | I left Berlin.", {}),
]


def _said(text: str) -> list[str]:
    return [content.strip() for content in text.split("|")]


@pytest.mark.parametrize(("said", "expected"), TASTES)
def test_a_taste_or_a_wish_is_one_preference_and_no_fact(said: str, expected: list[str]) -> None:
    lane = person(_said(said))
    assert (preferences(lane), facts(lane)) == (expected, [])


@pytest.mark.parametrize(("said", "expected"), FACTS)
def test_facts_follow_what_was_said_last(said: str, expected: list[str]) -> None:
    assert facts(person(_said(said))) == expected


@pytest.mark.parametrize(("said", "expected"), SLOTS)
def test_slots_follow_what_was_said_last(said: str, expected: dict[str, str]) -> None:
    assert slots(_said(said)) == expected


@pytest.mark.parametrize(("said", "expected"), SLOTS)
def test_slots_are_the_same_when_it_is_said_at_once(reader: Reader, said: str, expected: dict[str, str]) -> None:
    reader.hear(*_said(said))
    assert {sub_topic: value for (_, sub_topic), value in reader.profile.items()} == expected


def test_what_is_taken_back_without_being_known_is_a_weak_preference() -> None:
    lane = person(["I no longer like tea."])
    assert [(each.text, each.strength) for each in lane.preferences] == [("No longer likes tea", 0.4)]


def _sample(user: str, language: str) -> list[str]:
    messages = map(json.loads, sample_path(f"sample_{language}").read_text(encoding="utf-8").splitlines())
    return [each["content"] for each in messages if each["user_id"] == user and each["role"] == "user"]


@pytest.mark.parametrize(
    ("user", "language", "there", "gone"),
    [
        (
            "ben",
            "en",
            {"User is a data scientist", "User works at Harbour Analytics", "User lives in York", "Likes olives"},
            {"User is a data analyst", "User works at Northgate Bank", "User lives in Leeds", "Dislikes olives"},
        ),
        (
            "carla",
            "en",
            {"Likes fish", "No longer likes crime novels", "Prefers answers in English", "User is a night owl"},
            {"Dislikes fish", "Dislikes fishing", "Likes crime novels", "User is a biology student"},
        ),
        (
            "xiaoyu",
            "zh",
            {"用户是准研究生", "用户的学校是华东师范大学", "用户住在上海", "不喜欢剧本杀", "喜欢夜里的外滩"},
            {"用户是大三学生", "用户的学校是四川大学", "用户住在成都", "喜欢剧本杀"},
        ),
        (
            "liwei",
            "zh",
            {"用户的女朋友叫陈静", "用户就职于大疆", "用户是产品经理", "喜欢开会"},
            {"用户单身", "用户就职于腾讯", "用户是后端工程师", "不喜欢开会"},
        ),
    ],
)
def test_the_samples_end_without_contradicting_themselves(
    user: str, language: str, there: set[str], gone: set[str]
) -> None:
    lane = person(_sample(user, language))
    known = {*facts(lane), *preferences(lane)}
    assert there - known == set()
    assert gone & known == set()


def test_slots_and_facts_of_the_samples_say_the_same() -> None:
    ben, liwei = slots(_sample("ben", "en")), slots(_sample("liwei", "zh"))
    assert (ben["likes"], ben["title"], ben["company"]) == ("olives", "data scientist", "Harbour Analytics")
    assert "olives" not in ben["dislikes"]
    assert (liwei["marital_status"], liwei["girlfriend"], liwei["company"]) == ("有女朋友", "陈静", "大疆")
