"""Profiles: how deltas change them, and which flushes they hold already."""

from __future__ import annotations

from datetime import timedelta

import pytest

from schemas.deltas import ProfileDelta
from schemas.profiles import AppliedMark, Profile, Slot, VersionGap, apply_deltas, unify
from tests.support.records import CLOSED, SAID, flush_ref

EMPTY = Profile(tenant_id="default", user_id="ada")


def delta(version: int, after: str | None, slot: str = "interest/drinks", **changes) -> ProfileDelta:
    topic, sub_topic = slot.split("/")
    values = {
        "delta_id": f"d{version}",
        "tenant_id": "default",
        "user_id": "ada",
        "version": version,
        "flush_id": "f",
        "index": 0,
        "op": "add",
        "topic": topic,
        "sub_topic": sub_topic,
        "before": None,
        "after": after,
        "added": after,
        "reason": "r",
        "evidence": (f"m{version}",),
        "update_hits": version,
        "said_at": SAID,
        "recorded_at": CLOSED + timedelta(minutes=version),
        "processor": "rules",
        "pipeline_version": "v",
    }
    return ProfileDelta(**(values | changes))


@pytest.mark.parametrize(
    ("name", "unified"),
    [
        ("Basic Info", "basic_info"),
        ("  Basic \t  Info\n", "basic_info"),
        ("basic_info", "basic_info"),
        ("基本 信息", "基本_信息"),
        ("全角\u3000空格", "全角_空格"),
        ("", ""),
        ("  ", ""),
    ],
)
def test_names_are_unified(name: str, unified: str) -> None:
    assert unify(name) == unified
    assert unify(unified) == unified


def test_a_delta_sets_everything_about_its_slot() -> None:
    profile = apply_deltas(EMPTY, [delta(1, "tea", assertion="inferred")])
    assert profile.version == 1
    assert profile.slots == (
        Slot(
            topic="interest",
            sub_topic="drinks",
            value="tea",
            update_hits=1,
            evidence=("m1",),
            assertion="inferred",
            first_said_at=SAID,
            said_at=SAID,
            recorded_at=CLOSED + timedelta(minutes=1),
            version=1,
        ),
    )


def test_a_slot_remembers_its_first_and_newest_evidence_whatever_the_order() -> None:
    hour = timedelta(hours=1)
    times = (SAID, SAID - hour, SAID + hour, SAID)
    ops = ("add", "confirm", "append", "confirm")
    changes = [delta(n, "tea", said_at=time, op=op) for n, (time, op) in enumerate(zip(times, ops, strict=True), 1)]
    profile = apply_deltas(EMPTY, changes)
    slot = profile.slot("interest", "drinks")
    assert (slot.first_said_at, slot.said_at, slot.version) == (SAID - hour, SAID + hour, 4)


@pytest.mark.parametrize("op", ["update", "organise", "add"])
def test_a_new_value_has_times_of_its_own(op: str) -> None:
    earlier = SAID - timedelta(days=300)
    profile = apply_deltas(EMPTY, [delta(1, "tea"), delta(2, "coffee", said_at=earlier, op=op)])
    assert (profile.slots[0].first_said_at, profile.slots[0].said_at) == (earlier, earlier)


def test_a_deletion_forgets_the_slot_and_its_times() -> None:
    gone = apply_deltas(EMPTY, [delta(1, "tea"), delta(2, None)])
    assert (gone.slots, gone.version) == ((), 2)
    assert gone.slot("interest", "drinks") is None
    later = SAID + timedelta(days=1)
    back = apply_deltas(gone, [delta(3, "tea", said_at=later)])
    assert back.slots[0].first_said_at == later


def test_slots_are_in_order_of_their_names_and_the_old_profile_is_untouched() -> None:
    profile = apply_deltas(EMPTY, [delta(1, "x", "b/a"), delta(2, "y", "a/b"), delta(3, "z", "a/a")])
    assert [slot.key for slot in profile.slots] == [("a", "a"), ("a", "b"), ("b", "a")]
    assert EMPTY.slots == ()


def test_no_deltas_change_nothing() -> None:
    assert apply_deltas(EMPTY, []) == EMPTY


@pytest.mark.parametrize("versions", [(2,), (0,), (1, 1), (1, 3), (1, 2, 2)])
def test_a_gap_or_repeat_of_versions_is_refused(versions: tuple[int, ...]) -> None:
    with pytest.raises(VersionGap, match=f"delta d{versions[-1]} has version {versions[-1]}, .*default:ada is at"):
        apply_deltas(EMPTY, [delta(version, "tea") for version in versions])


@pytest.mark.parametrize(
    ("flush", "covered"),
    [
        (flush_ref(0, 2), True),
        (flush_ref(3, 9), True),
        (flush_ref(3, 10), False),
        (flush_ref(0, 2, log_id="other"), False),
        (flush_ref(0, 2, partition=1), False),
    ],
)
def test_a_mark_covers_the_flushes_up_to_it(flush, covered: bool) -> None:
    assert AppliedMark(log_id="log", partition=0, last_offset=9).covers(flush) is covered
