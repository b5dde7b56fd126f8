"""`overtaken`: what a flush that comes late may still change, and what it may not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agents.changes import Change
from agents.merge import merge_flush
from agents.overtaken import overtaken
from agents.policy import MergePolicy
from agents.processor import Action, Decision, MergeAnswer, Proposal
from schemas.deltas import ProfileDelta
from schemas.profiles import (
    MAX_RETRACTED,
    Profile,
    ProfileState,
    Retraction,
    Slot,
    apply_deltas,
    retracted_after,
)
from schemas.stages import Candidate, MessageRef
from tests.support.records import CLOSED, SAID, candidate, extracted, flush_ref, memo

DAY = timedelta(days=1)
POLICY = MergePolicy(pipeline_version="v")


def day(number: int) -> datetime:
    return SAID + number * DAY


def slot(sub_topic: str, value: str, said: int, hits: int = 1) -> Slot:
    """Return a slot whose value was said on a day."""
    return Slot(
        topic="interest",
        sub_topic=sub_topic,
        value=value,
        update_hits=hits,
        evidence=("earlier",),
        assertion="said",
        first_said_at=day(said),
        said_at=day(said),
        recorded_at=CLOSED,
        version=1,
    )


def profile(*slots: Slot) -> Profile:
    return Profile(tenant_id="default", user_id="ada", version=7, slots=slots)


def change(op: str, before: str | None, after: str | None, said: int, **fields) -> Change:
    """Return a change of ``interest/tea`` by a message of a day."""
    added = after if op in {"add", "update"} else fields.pop("added", None)
    return Change(candidate(after or "x", "interest/tea", evidence=(f"{said}",)), op, before, after, added, "because")


OCCURRED = {f"{number}": day(number) for number in range(30)}


def outcome(known: Profile, *changes: Change) -> list[tuple[str, str | None, str | None]]:
    return [(made.op, made.before, made.after) for made in overtaken(changes, known, OCCURRED)]


@pytest.mark.parametrize(
    ("late", "expected"),
    [
        pytest.param(change("update", "green", "black", 3), ("overtaken", "green", "green"), id="update"),
        pytest.param(change("delete", "green", None, 3), ("overtaken", "green", "green"), id="delete"),
        pytest.param(change("confirm", "green", "green", 3), ("confirm", "green", "green"), id="confirm"),
        pytest.param(
            change("append", "green", "green; black", 3, added="black"),
            ("append", "green", "green; black"),
            id="append",
        ),
    ],
)
def test_what_was_said_before_the_present_value_takes_nothing_from_it(late: Change, expected: tuple) -> None:
    assert outcome(profile(slot("tea", "green", 10)), late) == [expected]
    (made,) = overtaken([late], profile(slot("tea", "green", 10)), OCCURRED)
    assert made.reason != "because"
    assert "came late: said on 2026-02-04" in made.reason


@pytest.mark.parametrize("said", [10, 11])
def test_what_was_said_with_or_after_the_present_value_replaces_it(said: int) -> None:
    late = change("update", "green", "black", said)
    assert overtaken([late], profile(slot("tea", "green", 10)), OCCURRED) == [late]


def test_an_empty_slot_takes_what_comes_late() -> None:
    late = change("add", None, "black", 3)
    assert overtaken([late], profile(slot("milk", "oat", 10)), OCCURRED) == [late]


@pytest.mark.parametrize(("said", "op"), [(3, "overtaken"), (10, "add"), (11, "add")])
def test_a_value_that_was_taken_back_since_does_not_come_back(said: int, op: str) -> None:
    gone = Retraction(topic="interest", sub_topic="tea", said_at=day(10))
    other = Retraction(topic="interest", sub_topic="milk", said_at=day(20))
    (made,) = overtaken([change("add", None, "black", said)], profile(), OCCURRED, [gone, other])
    assert (made.op, made.before, made.after, made.added) == (op, None, None if op == "overtaken" else "black", "black")
    if op == "overtaken":
        assert made.reason == "came late: said on 2026-02-04, before the value was taken back: because"


def delta_of(op: str, sub_topic: str, said: int) -> ProfileDelta:
    return ProfileDelta(
        delta_id="d",
        tenant_id="default",
        user_id="ada",
        version=1,
        flush_id="f",
        index=0,
        op=op,
        topic="interest",
        sub_topic=sub_topic,
        before=None,
        after=None,
        added=None,
        reason="because",
        evidence=(),
        update_hits=1,
        said_at=day(said),
        recorded_at=CLOSED,
        processor="scripted",
        pipeline_version="v",
    )


def test_what_was_taken_back_is_remembered_until_there_is_a_value_again() -> None:
    def after(state: ProfileState, *deltas: ProfileDelta) -> ProfileState:
        return replace(state, retracted=retracted_after(state, deltas))

    def left(state: ProfileState) -> list[tuple[str, datetime]]:
        return [(each.sub_topic, each.said_at) for each in state.retracted]

    state = after(ProfileState(profile=profile()), delta_of("delete", "tea", 5), delta_of("delete", "milk", 6))
    assert left(state) == [("tea", day(5)), ("milk", day(6))]
    assert left(after(state, delta_of("delete", "tea", 3))) == [("milk", day(6)), ("tea", day(5))]
    assert left(after(state, delta_of("overtaken", "tea", 3))) == [("tea", day(5)), ("milk", day(6))]
    assert left(after(state, delta_of("add", "tea", 8))) == [("milk", day(6))]
    assert left(after(state, delta_of("organise", "milk", 8))) == [("tea", day(5))]
    assert left(after(state, delta_of("forget", "", 8))) == []
    many = after(state, *(delta_of("delete", f"{number}", 7) for number in range(MAX_RETRACTED)))
    assert left(many) == [(f"{number}", day(7)) for number in range(MAX_RETRACTED)]


def test_a_flush_that_is_sent_again_does_not_bring_back_what_a_later_one_took_back() -> None:
    state = ProfileState(profile=profile(slot("tea", "green", 5)))
    state = merged(state, [(candidate("tea", "interest/tea", retracts=True), 10)], [("UPDATE", "")], redrive=0)
    assert [each.op for each in state.deltas] == ["delete"]
    late = merged(state, [(candidate("black", "interest/tea"), 7)], [], redrive=1)
    assert [(each.op, each.before, each.after, each.added) for each in late.deltas] == [
        ("overtaken", None, None, "black")
    ]
    assert late.profile.slots == ()
    later = merged(late, [(candidate("black", "interest/tea"), 12)], [], redrive=2)
    assert [(each.op, each.after) for each in later.deltas] == [("add", "black")]
    assert later.retracted == ()


def test_what_the_flush_itself_has_made_newer_is_not_replaced_by_what_it_says_of_before() -> None:
    newest, older = change("update", "green", "black", 20), change("update", "black", "white", 15)
    assert outcome(profile(slot("tea", "green", 10)), newest, older) == [
        ("update", "green", "black"),
        ("overtaken", "black", "black"),
    ]


def test_a_change_speaks_of_the_value_that_is_there() -> None:
    """The merge thought that the slot had been emptied."""
    changes = change("delete", "green", None, 3), change("add", None, "black", 12)
    assert outcome(profile(slot("tea", "green", 10)), *changes) == [
        ("overtaken", "green", "green"),
        ("update", "green", "black"),
    ]


class Scripted:
    """A processor that decides what it is told to."""

    name = "scripted"
    version = "1"

    def __init__(self, actions: Sequence[tuple[Action, str]]) -> None:
        self._actions = actions

    async def merge(self, proposals: Sequence[Proposal], _memo: object) -> MergeAnswer:
        return MergeAnswer(
            decisions=tuple(
                Decision(number=each.number, action=action, value=value, reason="because")
                for each, (action, value) in zip(proposals, self._actions, strict=False)
            )
        )


def merged(
    state: ProfileState,
    found: Sequence[tuple[Candidate, int]],
    actions: Sequence[tuple[Action, str]],
    *,
    redrive: int,
) -> ProfileState:
    """Merge a flush; `redrive` says the how manieth time it is sent again."""
    ref = replace(flush_ref(), redrive=redrive, only=("extract",) if redrive else ())
    messages = tuple(
        MessageRef(message_id=f"{number}", role="user", occurred_at=when)
        for number, when in enumerate(OCCURRED.values())
    )
    candidates = [replace(each, evidence=(f"{said}",)) for each, said in found]
    answer = extracted(*candidates, memo=memo(ref, messages=messages))
    return asyncio.run(
        merge_flush(
            state,
            answer,
            None,
            processor=Scripted(actions),  # type: ignore[arg-type]
            policy=POLICY,
            now=CLOSED,
        )
    )


def redriven(known: Profile, found: Sequence[tuple[Candidate, int]], actions: Sequence[tuple[Action, str]]) -> Profile:
    """Merge a flush that comes late, and check each of its deltas against the profile that it changes."""
    left = merged(ProfileState(profile=known), found, actions, redrive=1)
    now = known
    for each in left.deltas:
        before, now = now, apply_deltas(now, [each])
        assert_takes_nothing_newer(before, each, now)
    assert now == left.profile
    return now


def assert_takes_nothing_newer(before: Profile, delta: ProfileDelta, after: Profile) -> None:
    old, new = (each.slot(delta.topic, delta.sub_topic) for each in (before, after))
    assert delta.before == (old.value if old else None)
    assert delta.after == (new.value if new else None)
    assert [each for each in after.slots if each != new] == [each for each in before.slots if each != old]
    if old is None:
        assert delta.op == "add"
        return
    if delta.op == "overtaken":
        assert new == old
        assert delta.update_hits == old.update_hits
        assert delta.said_at < old.said_at
        return
    assert delta.update_hits == old.update_hits + 1
    assert new is None or new.said_at >= old.said_at
    if delta.said_at < old.said_at:
        assert new is not None
        assert new.value.startswith(old.value)
        assert "came late" in delta.reason


NAMES = st.sampled_from(["tea", "milk"])
WORDS = st.sampled_from(["green", "black", "oat", "green; oat", ""])
FOUND = st.lists(
    st.tuples(
        st.builds(
            lambda name, value, retracts: candidate(value or "cow", f"interest/{name}", retracts=retracts),
            NAMES,
            WORDS,
            st.booleans(),
        ),
        st.integers(0, 29),
    ),
    max_size=6,
)
SLOTS = st.lists(
    st.builds(slot, NAMES, WORDS.filter(bool), st.integers(0, 29), st.integers(1, 5)),
    max_size=2,
    unique_by=lambda s: s.key,
)
ACTIONS = st.lists(st.tuples(st.sampled_from(["UPDATE", "APPEND", "ABORT"]), WORDS), min_size=6, max_size=6)


@settings(max_examples=400, deadline=None)
@given(SLOTS, FOUND, ACTIONS)
@example(
    [slot("tea", "green", 10, 5)],
    [
        (candidate("green", "interest/tea"), 12),
        (candidate("white", "interest/tea"), 3),
        (candidate("x", "interest/tea"), 15),
    ],
    [("UPDATE", "white"), ("APPEND", "x")] * 3,
)
def test_whatever_comes_late_no_older_value_replaces_a_newer_one(
    slots: list[Slot], found: list[tuple[Candidate, int]], actions: list[tuple[Action, str]]
) -> None:
    known = profile(*sorted(slots, key=lambda each: each.key))
    now = redriven(known, found, actions)
    for old in known.slots:
        if all(day(said) < old.said_at for _, said in found):
            new = now.slot(*old.key)
            assert new is not None
            assert new.value.startswith(old.value)
