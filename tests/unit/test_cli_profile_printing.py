"""How a profile is printed for people and for programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from schemas.codec import encode
from schemas.deltas import ProfileDelta
from schemas.facts import Fact, Preference, Replacement, UserTag
from schemas.profiles import Profile, Slot
from streams.cli.profile_printing import Former, former_facts, print_profile, profile_object

DAY = datetime(2026, 2, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def fact(number: int, text: str = "", **changes: Any) -> Fact:
    at = DAY + timedelta(days=number)
    fields: dict[str, Any] = {
        "fact_id": f"f{number}",
        "text": text or f"fact {number}",
        "category": "work",
        "confidence": 0.9,
        "importance": 0.95,
        "source_session": "s",
        "first_seen": DAY,
        "last_confirmed": at,
        "times_mentioned": 2,
        "evidence": ("m1",),
        "recorded_at": at,
        "version": number + 1,
    }
    return Fact(**fields | changes)


def preference(number: int, strength: float, text: str = "", **changes: Any) -> Preference:
    at = DAY + timedelta(days=number)
    fields: dict[str, Any] = {
        "preference_id": f"p{number}",
        "text": text or f"preference {number}",
        "category": "time",
        "strength": strength,
        "quotes": ("not before nine",),
        "first_seen": DAY,
        "last_confirmed": at,
        "times_observed": 3,
        "evidence": ("m2",),
        "recorded_at": at,
        "version": number + 1,
    }
    return Preference(**fields | changes)


def tag(name: str, count: int, day: int = 0) -> UserTag:
    return UserTag(name=name, count=count, first_seen=DAY, last_seen=DAY + timedelta(days=day), version=1)


SLOT = Slot(
    topic="contact",
    sub_topic="city",
    value="里昂",
    update_hits=1,
    evidence=("m1",),
    assertion="said",
    first_said_at=DAY,
    said_at=DAY,
    recorded_at=DAY,
    version=1,
)
GONE = fact(
    0,
    "用户住在北京",
    category="location",
    replaced=Replacement(by="f1", reason="moved", said_at=DAY + timedelta(days=28), recorded_at=DAY),
)
MOVED = ProfileDelta(
    delta_id="d",
    tenant_id="default",
    user_id="ada",
    version=2,
    flush_id="f",
    index=0,
    kind="fact",
    op="update",
    topic="location",
    sub_topic="",
    before="用户住在苏州",
    after="用户住在杭州",
    added="用户住在杭州",
    reason="what is known has changed",
    evidence=("m1",),
    update_hits=1,
    said_at=DAY + timedelta(days=1),
    recorded_at=DAY,
    processor="rules",
    pipeline_version="v",
    item_id="f1",
)
WHOLE = Profile(
    tenant_id="default",
    user_id="ada",
    version=9,
    slots=(SLOT,),
    facts=(
        fact(1, "用户住在杭州", category="location", confidence=0.7, times_mentioned=1),
        fact(2, "用户的老板姓张", category="relationship"),
        fact(3, "用户在杭州工作", category="location"),
    ),
    replaced_facts=(GONE,),
    preferences=(
        preference(1, 0.61, "Prefers mornings"),
        preference(2, 0.9, "偏好简短的回复风格", category="communication_style"),
        preference(3, 0.85, "Not on \x1b[2JSundays"),
    ),
    tags=(tag("Coffee", 3), tag("Hiking", 12, day=4)),
)


def shown(capsys: pytest.CaptureFixture[str], profile: Profile, **options: bool) -> list[str]:
    print_profile(profile, **options)
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    return [" ".join(line.split()) for line in lines]


def test_everything_is_in_its_part_by_category(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, WHOLE) == [
        "ada, version 9",
        "topic slot value said",
        f"contact city 里昂 {DAY.astimezone():%Y-%m-%d %H:%M:%S}",
        "",
        "Facts (3)",
        "category fact confidence times confirmed",
        "location (2) 用户在杭州工作 0.90 ×2 2026-02-04",
        "用户住在杭州 0.70 ×1 2026-02-02",
        "relationship (1) 用户的老板姓张 0.90 ×2 2026-02-03",
        "",
        "Preferences (3)",
        "category preference strength times confirmed",
        "communication_style (1) 偏好简短的回复风格 0.90 ×3 2026-02-03",
        r"time (2) Not on \x1b[2JSundays 0.85 ×3 2026-02-04",
        "Prefers mornings 0.61 ×3 2026-02-02",
        "",
        "Tags (2)",
        "tag times last seen",
        "Hiking ×12 2026-02-05",
        "Coffee ×3 2026-02-01",
    ]


def test_replaced_facts_are_shown_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, WHOLE, former=former_facts(WHOLE, [MOVED]))
    place = lines.index("用户住在杭州 0.70 ×1 2026-02-02")
    assert lines[place + 1 : place + 5] == [
        "before: 用户住在北京, until",
        "2026-03-01",
        "before: 用户住在苏州, until",
        "2026-02-02",
    ]

    only = Profile(tenant_id="default", user_id="ada", version=2, replaced_facts=(GONE,))
    assert shown(capsys, only, former=former_facts(only, []))[2:] == [
        "Facts (0)",
        "category fact confidence times confirmed",
        "location (0) before: 用户住在北京, until",
        "2026-03-01",
    ]


def test_a_text_that_was_replaced_again_and_again_is_shown_once_and_one_that_holds_again_is_not() -> None:
    def moved(day: int, before: str) -> ProfileDelta:
        return msgspec.structs.replace(MOVED, before=before, said_at=DAY + timedelta(days=day))

    profile = Profile(
        tenant_id="default",
        user_id="ada",
        version=9,
        facts=(fact(9, "lives in Lyon", category="location"),),
        replaced_facts=(GONE, msgspec.structs.replace(GONE, fact_id="f7")),
    )
    changes = [moved(1, "lives in Paris"), moved(2, "lives in Lyon"), moved(3, "lives in Paris")]
    assert former_facts(profile, changes) == [
        Former("location", "用户住在北京", DAY + timedelta(days=28)),
        Former("location", "lives in Paris", DAY + timedelta(days=3)),
    ]


def test_what_is_too_much_for_people_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    profile = Profile(
        tenant_id="default",
        user_id="ada",
        version=1,
        facts=(*(fact(number) for number in range(52)), fact(-1, "oldest", category="habit")),
        preferences=tuple(preference(number, number / 100) for number in range(21)),
        tags=tuple(tag(f"tag {number}", number + 1) for number in range(14)),
    )
    lines = shown(capsys, profile)
    facts, preferences, tags = (lines.index(title) for title in ("Facts (53)", "Preferences (21)", "Tags (14)"))
    assert lines[facts + 2].startswith("work (52) fact 51 ")
    assert lines[facts + 51].startswith("fact 2 ")
    assert lines[facts + 52] == "and 3 more, which --json has"
    assert lines[preferences + 2].startswith("time (21) preference 20 0.20 ")
    assert lines[preferences + 21].startswith("preference 1 ")
    assert lines[preferences + 22] == "and 1 more, which --json has"
    assert lines[tags + 2].startswith("tag 13 ×14 ")
    assert lines[tags + 11].startswith("tag 4 ×5 ")
    assert lines[tags + 12 :] == ["and 4 more, which --json has"]


def test_long_texts_are_folded_and_numbers_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    facts = (fact(1, "用户在一家很大的公司里负责" + "很长的一句话" * 20, category="personal_info"),)
    preferences = (preference(1, 0.5, "Prefers " + "long-winded-explanations" * 8, category="communication_style"),)
    profile = Profile(tenant_id="default", user_id="ada", version=1, facts=facts, preferences=preferences)
    text = "".join(shown(capsys, profile))
    assert "0.90 ×2 2026-02-02" in text
    assert "0.50 ×3 2026-02-02" in text


def test_all_of_a_profile_is_one_object_for_programs() -> None:
    found = json.loads(encode(profile_object(WHOLE, [MOVED])))
    assert list(found) == [
        "tenant_id",
        "user_id",
        "version",
        "slots",
        "facts",
        "preferences",
        "facts_count",
        "preferences_count",
        "tags",
        "replaced_facts",
        "changed_facts",
    ]
    assert {category: [each["fact"] for each in group] for category, group in found["facts"].items()} == {
        "location": ["用户在杭州工作", "用户住在杭州"],
        "relationship": ["用户的老板姓张"],
    }
    assert found["facts"]["location"][1] == {
        "fact": "用户住在杭州", "fact_id": "f1", "confidence": 0.7, "importance": 0.95, "source_session": "s",
        "first_seen": "2026-02-01T12:00:00Z", "last_confirmed": "2026-02-02T12:00:00Z", "times_mentioned": 1,
        "evidence": ["m1"], "recorded_at": "2026-02-02T12:00:00Z", "version": 2,
    }  # fmt: skip
    assert found["preferences"]["communication_style"] == [
        {
            "preference": "偏好简短的回复风格", "preference_id": "p2", "strength": 0.9, "quotes": ["not before nine"],
            "first_seen": "2026-02-01T12:00:00Z", "last_confirmed": "2026-02-03T12:00:00Z", "times_observed": 3,
            "evidence": ["m2"], "recorded_at": "2026-02-03T12:00:00Z", "version": 3,
        }
    ]  # fmt: skip
    assert [each["preference"] for each in found["preferences"]["time"]] == [
        "Not on \x1b[2JSundays",
        "Prefers mornings",
    ]
    assert (found["facts_count"], found["preferences_count"]) == (3, 3)
    assert [(each["name"], each["count"]) for each in found["tags"]] == [("Hiking", 12), ("Coffee", 3)]
    (gone,) = found["replaced_facts"]
    assert (gone["fact"], gone["category"], gone["replaced"]["by"]) == ("用户住在北京", "location", "f1")
    assert found["changed_facts"] == [
        {"fact": "用户住在苏州", "category": "location", "until": "2026-02-02T12:00:00Z", "fact_id": "f1"}
    ]
    assert found["slots"][0]["value"] == "里昂"


def test_an_object_of_many_has_all_of_them() -> None:
    profile = Profile(tenant_id="t", user_id="u", version=1, facts=tuple(fact(number) for number in range(120)))
    found = profile_object(profile, [])
    assert found["facts_count"] == 120
    assert len(json.loads(encode(found))["facts"]["work"]) == 120
