"""The sample conversations: well-formed, and telling enough that the rule processor makes profiles of them."""

from __future__ import annotations

from collections import Counter

import pytest

from schemas.messages import ChatMessage, decode_message
from streams.samples import sample_names, sample_path
from tests.unit.rules.conftest import Reader, message


def _messages(name: str) -> list[ChatMessage]:
    return [decode_message(line) for line in sample_path(name).read_bytes().splitlines()]


ALL = [message for name in sample_names() for message in _messages(name)]
USERS = {"sample_en": {"anna", "ben", "carla"}, "sample_zh": {"mei", "liwei", "xiaoyu"}}


def _profile(user: str) -> Reader:
    reader = Reader()
    for sample in ALL:
        if sample.user_id == user:
            assert sample.role is not None
            assert sample.message_id is not None
            reader.take([message(sample.content, role=sample.role, message_id=sample.message_id)])
    return reader


def test_there_are_two_conversations() -> None:
    assert sample_names() == ("sample_en", "sample_zh")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(KeyError, match="sample_fr"):
        sample_path("sample_fr")


@pytest.mark.parametrize("name", sample_names())
def test_lines_are_messages_of_three_people_in_time_order(name: str) -> None:
    messages = _messages(name)
    assert {sample.user_id for sample in messages} == USERS[name]
    times = [sample.occurred_at for sample in messages]
    assert None not in times
    assert times == sorted(times)
    assert {sample.role for sample in messages} == {"user", "assistant"}
    assert all(sample.session_id and sample.session_id.startswith(sample.user_id) for sample in messages)


def test_there_is_enough_of_it() -> None:
    assert len(ALL) >= 200
    assert len({sample.message_id for sample in ALL}) == len(ALL)
    sessions = Counter(user for user, _ in {(sample.user_id, sample.session_id) for sample in ALL})
    assert all(sessions[user] >= 4 for users in USERS.values() for user in users)


EXPECTED = {
    "anna": {
        "basic_info.name": "Anna",
        "basic_info.location": "Bremen",
        "demographics.marital_status": "engaged",
        "interest.dislikes": "coffee",
        "interest.foods": "fresh sourdough",
        "lifestyle.allergies": "hazelnuts",
        "psychological.communication_preferences": "Keep it short",
        "relationship.boyfriend": "Jonas",
        "relationship.pets": "Mochi (cat)",
        "work.company": "Weser Clinic",
        "work.title": "ward manager",
    },
    "ben": {
        "basic_info.name": "Ben Carter",
        "basic_info.age": "35",
        "basic_info.location": "York",
        "interest.dislikes": "cold weather",
        "interest.likes": "olives",
        "lifestyle.allergies": "no allergies",
        "relationship.boss": "Priya",
        "work.company": "Harbour Analytics",
        "work.title": "data scientist",
    },
    "carla": {
        "basic_info.nickname": "Carla",
        "basic_info.location": "Lisbon",
        "interest.likes": "surfing; Indian food; fish",
        "lifestyle.health_conditions": "asthma",
        "psychological.goals": "become a marine biologist",
        "relationship.pets": "Bica (dog)",
        "work.company": "Ocean Lab",
        "work.title": "junior researcher",
    },
    "mei": {
        "basic_info.name": "林晓梅",
        "basic_info.location": "苏州",
        "interest.dislikes": "喝咖啡",
        "interest.likes": "画水彩; 听老歌; 逛菜市场; 喝茶",
        "lifestyle.allergies": "芒果",
        "relationship.husband": "周航",
        "relationship.pets": "汤圆（橘猫）",
        "work.company": "平江实验小学",
        "work.title": "年级主管",
    },
    "liwei": {
        "basic_info.name": "李伟",
        "basic_info.age": "31岁",
        "basic_info.location": "东莞",
        "basic_info.hometown": "湖南",
        "interest.dislikes": "写周报",
        "interest.likes": "看科幻小说; 开会",
        "lifestyle.allergies": "没有过敏",
        "relationship.boss": "张",
        "relationship.girlfriend": "陈静",
        "work.company": "大疆",
        "work.title": "产品经理",
    },
    "xiaoyu": {
        "basic_info.nickname": "小雨",
        "basic_info.birthday": "6月18日",
        "basic_info.location": "上海",
        "education.school": "华东师范大学",
        "interest.dislikes": "剧本杀",
        "interest.likes": "火锅; 脱口秀; 攀岩; 生煎; 夜里的外滩",
        "lifestyle.dietary_preferences": "不吃香菜",
        "relationship.pets": "豆包（柯基）",
    },
}


@pytest.mark.parametrize("user", EXPECTED)
def test_profiles_say_what_was_said(user: str) -> None:
    profile = {".".join(slot): value for slot, value in _profile(user).profile.items()}
    assert {slot: profile.get(slot) for slot in EXPECTED[user]} == EXPECTED[user]


@pytest.mark.parametrize("user", EXPECTED)
def test_profiles_change_as_the_conversation_goes_on(user: str) -> None:
    changes = _profile(user).changes
    moved = [change for change in changes if change[0] == ("basic_info", "location") and change[1]]
    assert moved, "nobody stays in one place"
    taken_back = [before for _, before, after in changes if before and len(after or "") < len(before)]
    assert taken_back, "everybody takes something back"


@pytest.mark.parametrize("user", EXPECTED)
def test_nothing_of_others_enters(user: str) -> None:
    values = " ".join(_profile(user).profile.values())
    for foreign in ("Felipe", "Max Power", "Admin", "奥特曼", "光之国", "王大力", "马化腾", "carpenter"):
        assert foreign not in values
