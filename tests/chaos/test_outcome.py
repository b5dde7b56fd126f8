"""`differences`: what two runs may differ in, and that nothing else is overlooked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from schemas.deltas import FlushEvent, ProfileDelta, Timings
from schemas.profiles import Profile
from tests.chaos.outcome import Outcome, User, differences, profiles_of
from tests.support.records import CLOSED, SAID, flush_batch, flush_ref

ADA: User = ("default", "ada")
LATER = timedelta(seconds=1)


def delta(flush: str, version: int, index: int, after: str) -> ProfileDelta:
    return ProfileDelta(
        delta_id=f"{flush}/{index}",
        tenant_id="default",
        user_id="ada",
        version=version,
        flush_id=flush,
        index=index,
        op="add",
        topic="interest",
        sub_topic=after,
        before=None,
        after=after,
        added=after,
        reason="said",
        evidence=("m0",),
        update_hits=1,
        said_at=SAID,
        recorded_at=CLOSED,
        processor="rules",
        pipeline_version="p",
    )


def event(flush: str) -> FlushEvent:
    ref = MEMO.ref if flush == MEMO.ref.flush_id else FACTS.ref
    return FlushEvent(
        event_id=f"event {flush}",
        flush=ref,
        outcome="applied",
        memo=(),
        tags=(),
        messages=(),
        delta_ids=(f"{flush}/0",),
        first_version=1,
        last_version=1,
        calls=(),
        dropped=(),
        errors={},
        timings=Timings(),
        recorded_at=CLOSED,
        processor="rules",
        pipeline_version="p",
    )


MEMO = flush_batch(flush_ref(0, 2))
FACTS = flush_batch(flush_ref(1, 1, lane="facts"))
FIRST, SECOND = delta(MEMO.ref.flush_id, 1, 0, "tea"), delta(FACTS.ref.flush_id, 2, 0, "jazz")


def left(**changes: Any) -> Outcome:
    """Return what a run has left, with some of it changed."""
    deltas: Mapping[User, list[ProfileDelta]] = changes.get("deltas", {ADA: [FIRST, SECOND]})
    events = [event(MEMO.ref.flush_id), event(FACTS.ref.flush_id)]
    values = {
        "flushes": {batch.ref.flush_id: batch for batch in (MEMO, FACTS)},
        "deltas": deltas,
        "events": {each.event_id: each for each in events},
        "tag_hits": [("default", "ada", "tea", SAID, "d", "f", 0, 1, ("m0",))],
        "profiles": profiles_of([each for history in deltas.values() for each in history]),
        "points": {"p": ({"text": "tea", "version": 1, "recorded_at": "12:00"}, [0.5, 0.5])},
    }
    return Outcome(**(values | changes))


def test_equal_runs_do_not_differ() -> None:
    assert differences(left(), left()) == []


def test_clocks_and_the_order_of_the_lanes_do_not_count() -> None:
    flushes = {
        batch.ref.flush_id: replace(batch, ref=replace(batch.ref, opened_at=CLOSED, closed_at=CLOSED + LATER))
        for batch in (MEMO, FACTS)
    }
    swapped = [
        replace(SECOND, version=1, recorded_at=CLOSED + LATER),
        replace(FIRST, version=2, recorded_at=CLOSED + LATER),
    ]
    events = {
        each.event_id: replace(each, first_version=7, last_version=9, recorded_at=SAID, timings=Timings(merge=3.0))
        for each in left().events.values()
    }
    points = {"p": ({"text": "tea", "version": 9, "recorded_at": "13:00"}, [0.5, 0.5])}
    other = left(flushes=flushes, deltas={ADA: swapped}, events=events, points=points)
    assert differences(left(), other) == []


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        (
            "flush",
            {"flushes": {MEMO.ref.flush_id: replace(MEMO, messages=MEMO.messages[:2]), FACTS.ref.flush_id: FACTS}},
        ),
        ("flush", {"flushes": {**left().flushes, "another": MEMO}}),
        ("deltas", {"deltas": {ADA: [FIRST]}}),
        ("deltas", {"deltas": {ADA: [FIRST, replace(SECOND, reason="not said")]}}),
        ("deltas", {"deltas": {ADA: [FIRST, replace(SECOND, delta_id="another")]}}),
        ("deltas", {"deltas": {ADA: [FIRST, replace(SECOND, flush_id=FIRST.flush_id)]}}),
        ("event", {"events": {}}),
        ("event", {"events": {name: replace(each, outcome="empty") for name, each in left().events.items()}}),
        ("tag hit", {"tag_hits": []}),
        ("profile", {"profiles": {ADA: Profile(tenant_id="default", user_id="ada")}}),
        ("profile", {"profiles": {}}),
        ("point", {"points": {}}),
        ("point", {"points": {"p": ({"text": "tea", "version": 1}, [0.5, 0.4])}}),
        ("point", {"points": {"p": ({"text": "coffee", "version": 1}, [0.5, 0.5])}}),
    ],
)
def test_anything_else_does(what: str, changes: dict[str, Any]) -> None:
    found = differences(left(), left(**changes))
    assert any(line.startswith(f"{what}: ") for line in found), found
    assert differences(left(**changes), left())


def test_the_order_within_a_lane_counts() -> None:
    third = delta(MEMO.ref.flush_id, 2, 1, "chess")
    one = left(deltas={ADA: [FIRST, third]})
    other = left(deltas={ADA: [replace(third, version=1), replace(FIRST, version=2)]})
    assert any(line.startswith("deltas: ") for line in differences(one, other))
