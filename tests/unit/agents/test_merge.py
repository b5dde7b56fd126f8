"""`merge_flush`: what becomes of each candidate, and the record that a flush leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.changes import MAX_SLOT_CHARACTERS
from agents.merge import fail_flush, merge_flush
from agents.policy import MergePolicy
from agents.processor import Decision, MergeAnswer, Organisation, Proposal, Shortening, StageFailed
from schemas.deltas import ProfileDelta
from schemas.ids import delta_id, event_id
from schemas.profiles import AppliedMark, Profile, ProfileState, apply_deltas
from schemas.stages import Candidate, Dropped, EventTag, Memo, ModelCall
from tests.support.records import SAID, candidate, extracted, flush_ref, memo, tagged

NOW = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
POLICY = MergePolicy(pipeline_version="v1")
EMPTY = ProfileState(profile=Profile(tenant_id="default", user_id="ada"))
CALL = ModelCall(stage="merge", model="m", outcome="ok")


class Judge:
    """Decides as scripted, one answer a request, and remembers what was put to it."""

    name = "judge"
    version = "j1"

    def __init__(self, *answers: Sequence[Decision] | Exception | MergeAnswer) -> None:
        self.answers = list(answers)
        self.asked: list[list[Proposal]] = []

    async def organise(self, topic: str, values: object, limit: int) -> Organisation:
        return Organisation()

    async def shorten(self, topic: str, value: object, budget: int) -> Shortening:
        return Shortening()

    async def merge(self, proposals: Sequence[Proposal], memo: Memo) -> MergeAnswer:
        self.asked.append(list(proposals))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, MergeAnswer) else MergeAnswer(decisions=tuple(answer))


def decide(action: str, value: str = "", *, number: int = 1, reason: str = "because") -> Decision:
    return Decision(number=number, action=action, value=value, reason=reason)


async def merged(
    state: ProfileState, *candidates: Candidate, judge: Judge | None = None, policy: MergePolicy = POLICY, number=0
) -> ProfileState:
    ref = flush_ref(number * 10, number * 10 + 2)
    own = tuple(
        Candidate(
            topic=each.topic,
            sub_topic=each.sub_topic,
            memo=each.memo,
            evidence=tuple(f"m{number * 10 + int(cited[1:])}" for cited in each.evidence),
            assertion=each.assertion,
            retracts=each.retracts,
        )
        for each in candidates
    )
    return await merge_flush(
        state,
        extracted(*own, ref=ref),
        tagged(ref=ref),
        processor=judge or Judge(),
        policy=policy,
        now=NOW + timedelta(minutes=number),
    )


async def holding(*values: str, slot: str = "interest/drinks") -> ProfileState:
    """Return a profile whose slot holds a value, set by flush 0."""
    return await merged(EMPTY, candidate("; ".join(values), slot))


def changes(state: ProfileState) -> list[tuple[str, str | None, str | None, str | None]]:
    return [(delta.op, delta.before, delta.after, delta.added) for delta in state.deltas]


def reasons(state: ProfileState) -> list[str]:
    return [dropped.reason for dropped in state.event.dropped]


def value(state: ProfileState, slot: str = "interest/drinks") -> str | None:
    found = state.profile.slot(*slot.split("/"))
    return found.value if found else None


async def test_the_first_value_of_a_slot_is_added_unasked() -> None:
    state = await merged(EMPTY, candidate("tea", evidence=("m0", "m2"), assertion="inferred"))
    (delta,) = state.deltas
    assert delta == ProfileDelta(
        delta_id=delta_id(flush_ref().flush_id, 0),
        tenant_id="default",
        user_id="ada",
        version=1,
        flush_id=flush_ref().flush_id,
        index=0,
        op="add",
        topic="interest",
        sub_topic="drinks",
        before=None,
        after="tea",
        added="tea",
        reason="first value of this slot",
        evidence=("m0", "m2"),
        update_hits=1,
        said_at=SAID + timedelta(minutes=2),
        recorded_at=NOW,
        processor="judge",
        pipeline_version="v1",
        assertion="inferred",
    )
    slot = state.profile.slot("interest", "drinks")
    assert (slot.value, slot.version, slot.update_hits, slot.assertion) == ("tea", 1, 1, "inferred")
    assert state.profile.version == 1


@pytest.mark.parametrize("again", ["tea", " TEA ", "Ｔｅａ", "tea.", "tea。", "tea！", "Coffee", "coffee,"])
async def test_a_repeat_of_a_value_or_of_one_of_its_items_confirms_it_unasked(again: str) -> None:
    state = await merged(await holding("tea", "coffee"), candidate(again, evidence=("m1",)), number=1)
    assert changes(state) == [("confirm", "tea; coffee", "tea; coffee", None)]
    slot = state.profile.slot("interest", "drinks")
    assert (slot.value, slot.update_hits, slot.version, slot.evidence) == ("tea; coffee", 2, 2, ("m11",))


@pytest.mark.parametrize("other", ["te", "green tea", "tea coffee", "tea; milk"])
async def test_a_value_that_only_resembles_the_present_one_is_put_to_the_processor(other: str) -> None:
    judge = Judge([decide("ABORT")])
    await merged(await holding("tea", "coffee"), candidate(other), judge=judge, number=1)
    assert [(each.number, each.present, each.candidate.memo) for each in judge.asked[0]] == [(1, "tea; coffee", other)]


async def test_an_update_replaces_the_value() -> None:
    state = await merged(
        await holding("tea"), candidate("mate"), judge=Judge([decide("UPDATE", " mate now ")]), number=1
    )
    assert changes(state) == [("update", "tea", "mate now", "mate")]
    assert state.deltas[0].reason == "because"
    assert value(state) == "mate now"


async def test_an_update_to_the_present_value_confirms_it() -> None:
    state = await merged(await holding("tea"), candidate("mate"), judge=Judge([decide("UPDATE", "tea")]), number=1)
    assert changes(state) == [("confirm", "tea", "tea", None)]


@pytest.mark.parametrize(("text", "added"), [("", "mate"), (" yerba mate ", "yerba mate")])
async def test_an_append_extends_the_value(text: str, added: str) -> None:
    state = await merged(await holding("tea"), candidate("mate"), judge=Judge([decide("APPEND", text)]), number=1)
    assert changes(state) == [("append", "tea", f"tea; {added}", added)]


async def test_an_append_of_what_is_there_confirms_it() -> None:
    state = await merged(await holding("tea"), candidate("mate"), judge=Judge([decide("APPEND", "Tea")]), number=1)
    assert changes(state) == [("confirm", "tea", "tea", None)]


async def test_an_abort_changes_nothing_and_is_counted_with_its_reason() -> None:
    before = await holding("tea")
    state = await merged(before, candidate("mate"), judge=Judge([decide("ABORT", reason="a joke")]), number=1)
    assert state.deltas == ()
    assert state.profile == before.profile
    assert state.event.dropped == (Dropped(stage="merge", reason="aborted", detail="interest/drinks: mate (a joke)"),)


async def test_an_empty_reason_is_named_as_such() -> None:
    state = await merged(
        await holding("tea"), candidate("mate"), judge=Judge([decide("UPDATE", "mate", reason=" ")]), number=1
    )
    assert state.deltas[0].reason == "no reason given"


async def test_a_value_that_is_not_decided_about_is_kept() -> None:
    state = await merged(await holding("tea"), candidate("mate"), judge=Judge([]), number=1)
    assert changes(state) == [("append", "tea", "tea; mate", "mate")]
    assert state.deltas[0].reason == "kept: no decision was given"
    assert reasons(state) == []


async def test_an_empty_rewrite_that_nobody_asked_for_does_not_lose_the_slot() -> None:
    state = await merged(await holding("tea"), candidate("mate"), judge=Judge([decide("UPDATE", " ")]), number=1)
    assert changes(state) == [("append", "tea", "tea; mate", "mate")]
    assert reasons(state) == ["empty_update"]


async def test_decisions_on_unknown_proposals_and_second_decisions_are_counted() -> None:
    answer = [
        decide("UPDATE", "lost", number=0),
        decide("UPDATE", "lost", number=2),
        decide("ABORT"),
        decide("UPDATE", "too late"),
    ]
    state = await merged(await holding("tea"), candidate("mate"), judge=Judge(answer), number=1)
    assert state.deltas == ()
    assert [(each.reason, each.detail) for each in state.event.dropped] == [
        ("unknown_proposal", "0: lost"),
        ("unknown_proposal", "2: lost"),
        ("second_decision", "too late"),
        ("aborted", "interest/drinks: mate (because)"),
    ]


async def test_a_retraction_can_empty_a_slot_which_then_starts_afresh() -> None:
    judge = Judge([decide("UPDATE", "")])
    gone = await merged(await holding("tea"), candidate("tea", retracts=True), judge=judge, number=1)
    assert judge.asked[0][0].candidate.retracts
    assert changes(gone) == [("delete", "tea", None, None)]
    assert gone.deltas[0].update_hits == 2
    assert gone.profile.slots == ()
    assert gone.profile.version == 2
    back = await merged(gone, candidate("tea"), number=2)
    assert changes(back) == [("add", None, "tea", "tea")]
    slot = back.profile.slot("interest", "drinks")
    assert (slot.update_hits, slot.version, slot.first_said_at) == (1, 3, SAID)


async def test_a_retraction_can_rewrite_a_slot() -> None:
    state = await merged(
        await holding("tea", "mate"),
        candidate("tea", retracts=True),
        judge=Judge([decide("UPDATE", "mate")]),
        number=1,
    )
    assert changes(state) == [("update", "tea; mate", "mate", None)]


async def test_a_retraction_of_nothing_and_one_without_decision_are_counted() -> None:
    state = await merged(EMPTY, candidate("tea", retracts=True))
    assert (state.deltas, reasons(state)) == ((), ["nothing_to_retract"])
    undecided = await merged(await holding("tea"), candidate("tea", retracts=True), judge=Judge([]), number=1)
    assert (undecided.deltas, reasons(undecided)) == ((), ["undecided_retraction"])
    assert value(undecided) == "tea"


@pytest.mark.parametrize("taken_back", ["tea", "black tea"])
async def test_an_append_neither_adds_nor_confirms_what_is_taken_back(taken_back: str) -> None:
    state = await merged(
        await holding("tea"), candidate(taken_back, retracts=True), judge=Judge([decide("APPEND")]), number=1
    )
    assert (state.deltas, reasons(state)) == ((), ["undecided_retraction"])


async def test_retractions_come_before_new_values() -> None:
    state = await merged(
        await holding("tea"),
        candidate("mate"),
        candidate("tea", retracts=True),
        judge=Judge([decide("UPDATE", "")]),
        number=1,
    )
    assert changes(state) == [("delete", "tea", None, None), ("add", None, "mate", "mate")]
    assert [delta.update_hits for delta in state.deltas] == [2, 1]


async def test_several_values_for_a_slot_each_see_what_became_of_the_one_before() -> None:
    judge = Judge([decide("APPEND"), decide("UPDATE", "tea, mate, milk", number=2)])
    state = await merged(
        EMPTY, candidate("tea"), candidate("mate"), candidate("milk"), candidate("Oslo", "life/city"), judge=judge
    )
    assert [[each.present for each in asked] for asked in judge.asked] == [["tea", "tea"]]
    assert changes(state) == [
        ("add", None, "tea", "tea"),
        ("add", None, "Oslo", "Oslo"),
        ("append", "tea", "tea; mate", "mate"),
        ("update", "tea; mate", "tea, mate, milk", "milk"),
    ]
    assert [(delta.version, delta.index, delta.update_hits) for delta in state.deltas] == [
        (1, 0, 1),
        (2, 1, 1),
        (3, 2, 2),
        (4, 3, 3),
    ]


async def test_all_slots_of_a_round_are_put_in_one_request_and_answered_by_number() -> None:
    state = await merged(EMPTY, candidate("tea"), candidate("Oslo", "life/city"))
    judge = Judge([decide("UPDATE", "Rome", number=2), decide("APPEND", number=1)])
    state = await merged(state, candidate("mate"), candidate("Rome", "life/city"), judge=judge, number=1)
    assert [each.number for each in judge.asked[0]] == [1, 2]
    assert (value(state), value(state, "life/city")) == ("tea; mate", "Rome")


@pytest.mark.parametrize(
    "policy",
    [
        MergePolicy(pipeline_version="v1", validate_all=True),
        MergePolicy(pipeline_version="v1", validate_slots=frozenset({("interest", "drinks")})),
    ],
)
@pytest.mark.parametrize(
    ("decision", "change"),
    [
        (decide("UPDATE", "green tea"), [("add", None, "green tea", "green tea")]),
        (decide("UPDATE"), [("add", None, "tea", "tea")]),
        (decide("APPEND", "green tea"), [("add", None, "green tea", "green tea")]),
        (decide("APPEND"), [("add", None, "tea", "tea")]),
        (decide("ABORT"), []),
        (None, [("add", None, "tea", "tea")]),
    ],
)
async def test_a_first_value_is_put_to_the_processor_where_that_is_configured(
    policy: MergePolicy, decision: Decision | None, change: list
) -> None:
    judge = Judge([decision] if decision else [])
    state = await merged(EMPTY, candidate("tea"), judge=judge, policy=policy)
    assert judge.asked[0][0].present is None
    assert changes(state) == change


async def test_the_processor_is_told_how_a_slot_is_to_be_merged() -> None:
    policy = MergePolicy(pipeline_version="v1", update_descriptions={("interest", "drinks"): "keep the newest"})
    judge = Judge([decide("ABORT")])
    await merged(await holding("tea"), candidate("mate"), judge=judge, policy=policy, number=1)
    assert judge.asked[0][0].update_description == "keep the newest"


@pytest.mark.parametrize(
    "decision", [decide("APPEND"), decide("UPDATE", "x" * (MAX_SLOT_CHARACTERS + 1)), decide("UPDATE", ""), None]
)
async def test_a_slot_is_not_extended_beyond_its_limit(decision: Decision | None) -> None:
    full = await merged(
        await holding("tea"),
        candidate("rewrite"),
        judge=Judge([decide("UPDATE", "x" * MAX_SLOT_CHARACTERS)]),
        number=1,
    )
    assert len(value(full)) == MAX_SLOT_CHARACTERS
    state = await merged(full, candidate("mate"), judge=Judge([decision] if decision else []), number=2)
    assert state.deltas == ()
    assert reasons(state)[-1] == "slot_full"
    assert len(value(state)) == MAX_SLOT_CHARACTERS


async def test_a_slots_times_are_those_of_its_evidence() -> None:
    state = await merged(EMPTY, candidate("tea", evidence=("m1",)))
    state = await merged(state, candidate("tea", evidence=("m0", "m2")), number=1)
    slot = state.profile.slot("interest", "drinks")
    assert (slot.first_said_at, slot.said_at) == (SAID + timedelta(minutes=1), SAID + timedelta(minutes=2))
    assert slot.recorded_at == NOW + timedelta(minutes=1)


async def test_the_event_carries_everything_about_the_flush() -> None:
    call = ModelCall(stage="summary", model="s", outcome="ok")
    dropped = Dropped(stage="summary", reason="no_evidence")
    basis = memo(calls=(call,), dropped=(dropped,), duration_ms=10.0)
    state = await merge_flush(
        await holding("tea"),
        extracted(candidate("mate"), candidate("Oslo", "life/city"), memo=basis, calls=(call,), duration_ms=20.0),
        tagged(EventTag(tag="emotion", value="glad"), dropped=(dropped,), duration_ms=30.0),
        processor=Judge(MergeAnswer(decisions=(decide("APPEND"),), calls=(CALL,), dropped=(dropped, dropped))),
        policy=POLICY,
        now=NOW,
    )
    event = state.event
    assert (event.event_id, event.flush, event.outcome) == (event_id(flush_ref().flush_id), flush_ref(), "applied")
    assert (event.memo, event.messages) == (basis.bullets, basis.messages)
    assert event.tags == (EventTag(tag="emotion", value="glad"),)
    assert event.delta_ids == tuple(delta.delta_id for delta in state.deltas)
    assert (event.first_version, event.last_version, len(state.deltas)) == (2, 3, 2)
    assert event.calls == (call, call, CALL)
    assert event.dropped == (dropped,) * 4
    assert event.errors == {}
    assert (event.recorded_at, event.processor, event.pipeline_version) == (NOW, "judge", "v1")
    timings = event.timings
    assert (timings.window, timings.summary, timings.extract, timings.tag) == (1500.0, 10.0, 20.0, 30.0)
    assert timings.merge > 0.0
    assert state.applied == {"memo": AppliedMark(log_id="log", partition=0, last_offset=2)}


@pytest.mark.parametrize(
    ("parts", "outcome", "errors"),
    [
        ((lambda: extracted(), lambda: tagged()), "applied", {}),
        ((lambda: extracted(memo=memo(status="empty", bullets=())), lambda: tagged()), "empty", {}),
        ((lambda: extracted(status="failed", error="x: y"), lambda: tagged()), "failed", {"extract": "x: y"}),
        ((lambda: extracted(), lambda: tagged(status="failed", error="x: y")), "applied", {"tag": "x: y"}),
        (
            (
                lambda: extracted(status="failed", error="s: t", memo=memo(status="failed", error="s: t")),
                lambda: tagged(status="failed", error="s: t"),
            ),
            "failed",
            {"summary": "s: t"},
        ),
    ],
)
async def test_how_a_flush_without_changes_ends(
    parts: tuple[Callable, Callable], outcome: str, errors: dict[str, str]
) -> None:
    before = await holding("tea")
    state = await merge_flush(before, parts[0](), parts[1](), processor=Judge(), policy=POLICY, now=NOW)
    event = state.event
    assert (event.outcome, event.errors) == (outcome, errors)
    assert (event.delta_ids, event.first_version, event.last_version) == ((), None, None)
    assert state.profile == before.profile
    assert state.applied["memo"].last_offset == 2


async def test_a_failed_tagging_does_not_fail_the_flush() -> None:
    state = await merge_flush(
        EMPTY,
        extracted(candidate("tea")),
        tagged(status="failed", error="x: y"),
        processor=Judge(),
        policy=POLICY,
        now=NOW,
    )
    assert (state.event.outcome, state.event.errors, value(state)) == ("applied", {"tag": "x: y"}, "tea")


async def test_a_processor_that_fails_leaves_the_failure_to_the_caller() -> None:
    before = await holding("tea")
    with pytest.raises(StageFailed, match="no_json"):
        await merged(before, candidate("mate"), judge=Judge(StageFailed("no_json", "prose")), number=1)


async def test_a_failed_flush_leaves_the_profile_and_moves_the_mark() -> None:
    before = await holding("tea")
    ref = flush_ref(10, 12)
    state = fail_flush(
        before,
        {
            "extract": extracted(candidate("mate", evidence=("m10",)), ref=ref),
            "tag": tagged(EventTag(tag="emotion", value="glad"), ref=ref),
        },
        error="no_json: prose",
        calls=[CALL],
        processor="judge",
        policy=POLICY,
        now=NOW,
    )
    assert state.profile == before.profile
    assert state.deltas == ()
    assert state.applied["memo"].last_offset == 12
    assert (state.event.outcome, state.event.errors) == ("failed", {"merge": "no_json: prose"})
    assert state.event.calls == (CALL,)
    assert state.event.tags == (EventTag(tag="emotion", value="glad"),)


TEXTS = st.sampled_from(["tea", "mate", "Tea.", "milk", "tea; milk"])
CANDIDATES = st.builds(
    candidate,
    TEXTS,
    st.sampled_from(["interest/drinks", "life/city"]),
    evidence=st.sampled_from([("m0",), ("m2",), ("m0", "m2")]),
    retracts=st.booleans(),
)
DECISIONS = st.lists(
    st.builds(
        decide,
        st.sampled_from(["UPDATE", "APPEND", "ABORT"]),
        st.sampled_from(["", " ", "tea", "coffee", "a; b"]),
        number=st.integers(0, 3),
        reason=st.sampled_from(["", "because"]),
    ),
    max_size=3,
)
SILENT = {"aborted", "undecided_retraction", "nothing_to_retract", "nothing_to_update", "slot_full"}


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.lists(CANDIDATES, max_size=5), st.lists(DECISIONS, min_size=5, max_size=5)), max_size=5),
    st.booleans(),
)
def test_deltas_alone_rebuild_the_profile_and_every_candidate_is_accounted_for(
    flushes: list[tuple[list[Candidate], list[list[Decision]]]], validate: bool
) -> None:
    async def scenario() -> None:
        state = EMPTY
        history: list[ProfileDelta] = []
        policy = MergePolicy(pipeline_version="v1", validate_all=validate)
        for number, (candidates, decisions) in enumerate(flushes):
            values = {slot.key: slot.value for slot in state.profile.slots}
            state = await merged(state, *candidates, judge=Judge(*decisions), policy=policy, number=number)
            for delta in state.deltas:
                assert delta.before == values.get((delta.topic, delta.sub_topic))
                assert delta.evidence
                values[delta.topic, delta.sub_topic] = delta.after
            history += state.deltas
            silent = [reason for reason in reasons(state) if reason in SILENT]
            assert len(state.deltas) + len(silent) == len(candidates)
        assert [delta.version for delta in history] == list(range(1, len(history) + 1))
        assert len({delta.delta_id for delta in history}) == len(history)
        assert apply_deltas(EMPTY.profile, history) == state.profile

    asyncio.run(scenario())
