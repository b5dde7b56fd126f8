"""`flush_record`: the outcome, errors, timings and contents of the record that ends a flush, in both lanes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agents.delta_writer import DeltaWriter
from agents.flush_record import flush_record
from agents.policy import MergePolicy
from schemas.deltas import AddedValue, FactDetail, FlushEvent, PreferenceDetail, Timings
from schemas.ids import delta_id, event_id
from schemas.profiles import AppliedMark, Profile, ProfileState
from schemas.stages import Candidates, Domain, Dropped, EventTag, ModelCall, StageName, TagHit
from tests.support.fact_lane import fact
from tests.support.records import CLOSED, SAID, candidate, described, extracted, flush_ref, found, memo, tagged

NOW = CLOSED + timedelta(seconds=5)
EMPTY = ProfileState(profile=Profile(tenant_id="default", user_id="ada"))
REF = flush_ref()


def call(stage: StageName) -> ModelCall:
    return ModelCall(stage=stage, model="m", outcome="ok")


def drop(stage: StageName) -> Dropped:
    return Dropped(stage=stage, reason="r")


def writer(answer: Candidates, *kinds: str) -> DeltaWriter:
    """Return a writer with a delta of each of these kinds."""
    made = DeltaWriter(EMPTY.profile, answer.flush, processor="p", pipeline_version="v", now=NOW)
    for kind in kinds:
        item = {"fact": ("location", ""), "preference": ("format", ""), "tag": ("tag", "coffee")}
        made.write(
            kind,
            "add",
            *item.get(kind, ("interest", "drinks")),
            before=None,
            after="1" if kind == "tag" else "tea",
            added=None if kind == "tag" else "tea",
            reason="r",
            evidence=("m0",),
            hits=1,
            said_at=SAID,
            item_id=kind if kind in {"fact", "preference"} else "",
            fact=FactDetail(confidence=0.9, importance=0.9) if kind == "fact" else None,
            preference=PreferenceDetail(strength=0.8) if kind == "preference" else None,
        )
    return made


def record(
    *answers: Candidates, kinds: tuple[str, ...] = (), error: str | None = None, state: ProfileState = EMPTY
) -> ProfileState:
    return flush_record(
        state,
        {answer.branch: answer for answer in answers},
        writer(answers[0], *kinds),
        calls=(call("merge"),),
        dropped=(drop("merge"),),
        error=error,
        duration_ms=4.0,
        processor="p",
        policy=MergePolicy(pipeline_version="v"),
        now=NOW,
    )


def ended(*answers: Candidates, **how) -> FlushEvent:
    event = record(*answers, **how).event
    assert event is not None
    return event


def test_the_event_of_lane_memo_gathers_what_all_branches_gave() -> None:
    basis = memo(calls=(call("summary"),), dropped=(drop("summary"),), duration_ms=1.0)
    tag = EventTag(tag="emotion", value="glad")
    hit = TagHit(name="Coffee", evidence=("m0",))
    event = ended(
        # The order in which they came does not matter.
        described(hit, calls=(call("domain"),), dropped=(drop("domain"),), duration_ms=5.0),
        tagged(tag, calls=(call("tag"),), dropped=(drop("tag"),), duration_ms=3.0),
        extracted(candidate("tea"), memo=basis, calls=(call("extract"),), dropped=(drop("extract"),), duration_ms=2.0),
        kinds=("slot", "tag"),
    )
    assert (event.event_id, event.flush, event.outcome) == (event_id(REF.flush_id), REF, "applied")
    assert (event.memo, event.messages, event.tags) == (basis.bullets, basis.messages, (tag,))
    assert event.domain == Domain(domain=("Coffee",))
    assert [each.stage for each in event.calls] == ["summary", "extract", "tag", "domain", "merge"]
    assert [each.stage for each in event.dropped] == ["summary", "extract", "tag", "domain", "merge"]
    assert event.timings == Timings(window=1500.0, summary=1.0, extract=2.0, tag=3.0, domain=5.0, merge=4.0)
    assert event.added == (AddedValue(topic="interest", sub_topic="drinks", value="tea", kind="slot"),)
    assert event.delta_ids == (delta_id(REF.flush_id, 0), delta_id(REF.flush_id, 1))
    assert (event.first_version, event.last_version) == (1, 2)
    assert (event.errors, event.recorded_at) == ({}, NOW)
    assert (event.processor, event.pipeline_version) == ("p", "v")


def test_the_event_of_lane_facts_gathers_what_its_branch_gave() -> None:
    answer = found(fact("x"), calls=(call("facts"), call("preferences")), dropped=(drop("facts"),), duration_ms=2.0)
    event = ended(answer, kinds=("fact", "preference"))
    assert (event.event_id, event.flush, event.outcome) == (event_id(answer.flush.flush_id), answer.flush, "applied")
    assert (event.memo, event.tags, event.domain) == ((), (), None)
    assert event.messages == answer.messages
    assert [each.stage for each in event.calls] == ["facts", "preferences", "merge"]
    assert [each.stage for each in event.dropped] == ["facts", "merge"]
    assert event.timings == Timings(window=1500.0, facts=2.0, merge=4.0)
    assert event.added == (
        AddedValue(topic="location", sub_topic="", value="tea", kind="fact"),
        AddedValue(topic="format", sub_topic="", value="tea", kind="preference"),
    )


def test_a_flush_without_changes_has_no_versions() -> None:
    event = ended(found())
    assert (event.delta_ids, event.added, event.first_version, event.last_version) == ((), (), None, None)
    assert event.outcome == "empty"


SILENT = memo(status="empty", bullets=())
BROKEN = memo(status="failed", bullets=(), error="no_json: prose")


@pytest.mark.parametrize(
    ("answers", "kinds", "error", "outcome"),
    [
        ((extracted(candidate("tea")), tagged(), described()), ("slot",), None, "applied"),
        ((extracted(), tagged(), described()), (), None, "applied"),
        ((extracted(memo=SILENT), tagged(), described()), (), None, "empty"),
        ((extracted(memo=SILENT), tagged(), described(TagHit(name="x", evidence=("m0",)))), ("tag",), None, "applied"),
        ((extracted(memo=BROKEN, status="failed"), tagged(), described()), (), None, "failed"),
        ((extracted(status="failed", error="e"), tagged(), described()), (), None, "failed"),
        ((extracted(), tagged(status="failed", error="e"), described(status="failed", error="e")), (), None, "applied"),
        ((extracted(candidate("tea")), tagged(), described()), (), "no_json: prose", "failed"),
        ((found(fact("x")),), ("fact",), None, "applied"),
        ((found(),), (), None, "empty"),
        ((found(status="failed", error="e"),), (), None, "failed"),
        ((found(fact("x")),), (), "no_json: prose", "failed"),
    ],
)
def test_how_a_flush_ended(answers, kinds, error, outcome: str) -> None:
    assert ended(*answers, kinds=kinds, error=error).outcome == outcome


def test_each_branch_says_what_failed() -> None:
    answers = (
        extracted(status="failed", error="no_json: a"),
        tagged(status="failed", error="no_json: b"),
        described(status="failed", error="busy: c"),
    )
    assert ended(*answers).errors == {"extract": "no_json: a", "tag": "no_json: b", "domain": "busy: c"}
    assert ended(*answers[1:], extracted(), error="no_json: d").errors == {
        "tag": "no_json: b",
        "domain": "busy: c",
        "merge": "no_json: d",
    }
    assert ended(found(status="failed", error="no_json: e")).errors == {"facts": "no_json: e"}


def test_what_follows_from_a_failed_summary_is_no_error_of_its_own_but_the_domain_is_independent_of_it() -> None:
    answers = (
        extracted(memo=BROKEN, status="failed", error=BROKEN.error),
        tagged(status="failed", error=BROKEN.error),
        described(status="failed", error="busy: c"),
    )
    assert ended(*answers).errors == {"summary": "no_json: prose", "domain": "busy: c"}
    assert ended(*answers[:2], described()).errors == {"summary": "no_json: prose"}


def test_an_empty_description_is_kept_apart_from_none() -> None:
    answers = (extracted(), tagged())
    assert ended(*answers, described(domain=Domain())).domain == Domain()
    assert ended(*answers, described()).domain is None


def test_the_mark_moves_in_its_own_lane_only() -> None:
    before = ProfileState(
        profile=EMPTY.profile,
        applied={
            "memo": AppliedMark(log_id="log", partition=0, last_offset=20),
            "facts": AppliedMark(log_id="log", partition=0, last_offset=7),
        },
    )
    state = record(found(), state=before)
    assert state.applied["memo"] == before.applied["memo"]
    assert state.applied["facts"] == AppliedMark(log_id="log", partition=0, last_offset=9)
    ref = flush_ref(21, 30, log_id="new", partition=3)
    state = record(extracted(ref=ref), tagged(ref=ref), described(ref=ref), state=state)
    assert state.applied["memo"] == AppliedMark(log_id="new", partition=3, last_offset=30)
    assert state.applied["facts"].last_offset == 9


def test_the_record_holds_the_profile_after_the_deltas_and_the_deltas_themselves() -> None:
    state = record(found(fact("x")), kinds=("fact", "preference", "tag", "slot"))
    assert [(delta.version, delta.index, delta.kind) for delta in state.deltas] == [
        (1, 0, "fact"),
        (2, 1, "preference"),
        (3, 2, "tag"),
        (4, 3, "slot"),
    ]
    profile = state.profile
    assert (profile.version, len(profile.facts), len(profile.preferences), len(profile.tags), len(profile.slots)) == (
        4, 1, 1, 1, 1,
    )  # fmt: skip
