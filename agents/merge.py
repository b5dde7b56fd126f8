"""Stage 4, merge: what the branches of a flush found, against what the profile says now.

`merge_flush` is the only place where a profile changes. A new value is settled in code where that is possible: an
empty slot takes it, a repeat confirms it. Everything else is put to the processor, which says UPDATE, APPEND or ABORT.
A value that the processor does not decide about is kept, by APPEND: nothing is skipped in silence.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from agents.processor import Decision, MergeAnswer, Processor, Proposal, SlotName
from schemas.deltas import FlushEvent, Operation, Outcome, ProfileDelta, Timings
from schemas.flushes import FlushRef
from schemas.ids import delta_id, event_id
from schemas.profiles import AppliedMark, ProfileState, apply_deltas
from schemas.stages import Candidate, Candidates, Dropped, Memo, ModelCall

SEPARATOR: Final = "; "
"""Between the items of a slot that holds several."""

MAX_SLOT_CHARACTERS: Final = 64_000
"""A slot is not extended beyond this: every record that holds it must stay within what the broker takes."""


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """What the configuration says about merging.

    Attributes:
        pipeline_version: content hash of configuration and prompts, carried by every delta.
        validate_all: put every value to the processor, also where the slot is empty.
        validate_slots: slots for which that holds in any case.
        update_descriptions: how the configuration wants slots merged.
    """

    pipeline_version: str
    validate_all: bool = False
    validate_slots: frozenset[SlotName] = frozenset()
    update_descriptions: Mapping[SlotName, str] = field(default_factory=dict)

    def needs_decision(self, slot: SlotName) -> bool:
        """Whether even the first value of a slot is put to the processor."""
        return self.validate_all or slot in self.validate_slots


@dataclass(slots=True)
class _Change:
    candidate: Candidate
    op: Operation
    before: str | None
    after: str | None
    added: str | None
    reason: str


async def merge_flush(
    state: ProfileState,
    extracted: Candidates,
    tagged: Candidates,
    *,
    processor: Processor,
    policy: MergePolicy,
    now: datetime,
) -> ProfileState:
    """Apply a flush to a profile.

    Returns the record to be kept: the new profile, the deltas with consecutive versions, the flush's event, and the
    mark that says it is applied.

    Raises:
        StageFailed: when the processor cannot decide about this flush.
        StageUnavailable: when it cannot now.
    """
    started = time.perf_counter()
    changes: list[_Change] = []
    dropped: list[Dropped] = []
    calls: list[ModelCall] = []
    values = {slot.key: slot.value for slot in state.profile.slots}
    memo = extracted.memo
    if extracted.status == "ok" and memo is not None:
        waiting = sorted(extracted.candidates, key=lambda candidate: not candidate.retracts)
        while waiting:
            this_round, waiting = _first_of_each_slot(waiting)
            await _merge_round(this_round, values, memo, processor, policy, changes, dropped, calls)
    return _record(
        state,
        extracted,
        tagged,
        changes=changes,
        dropped=dropped,
        calls=calls,
        error=None,
        duration_ms=(time.perf_counter() - started) * 1000,
        processor=processor.name,
        policy=policy,
        now=now,
    )


def fail_flush(
    state: ProfileState,
    extracted: Candidates,
    tagged: Candidates,
    *,
    error: str,
    calls: Sequence[ModelCall],
    processor: str,
    policy: MergePolicy,
    now: datetime,
) -> ProfileState:
    """Return the record of a flush whose merge has failed: the profile as it was, and an event that says so."""
    return _record(
        state,
        extracted,
        tagged,
        changes=[],
        dropped=[],
        calls=calls,
        error=error,
        duration_ms=0.0,
        processor=processor,
        policy=policy,
        now=now,
    )


def _first_of_each_slot(candidates: Sequence[Candidate]) -> tuple[list[Candidate], list[Candidate]]:
    """Split off the first candidate for each slot: the next one for it must see what became of the first."""
    first: dict[SlotName, Candidate] = {}
    rest: list[Candidate] = []
    for candidate in candidates:
        if first.setdefault((candidate.topic, candidate.sub_topic), candidate) is not candidate:
            rest.append(candidate)
    return list(first.values()), rest


async def _merge_round(
    candidates: Sequence[Candidate],
    values: dict[SlotName, str],
    memo: Memo,
    processor: Processor,
    policy: MergePolicy,
    changes: list[_Change],
    dropped: list[Dropped],
    calls: list[ModelCall],
) -> None:
    proposals: list[Proposal] = []
    for candidate in candidates:
        slot = (candidate.topic, candidate.sub_topic)
        present = values.get(slot)
        if candidate.retracts and present is None:
            # An inferred retraction ("likes tea", so does not dislike it) was never more than a precaution.
            if candidate.assertion == "said":
                dropped.append(_drop("nothing_to_retract", candidate))
        elif not candidate.retracts and present is not None and _repeats(candidate.memo, present):
            changes.append(_Change(candidate, "confirm", present, present, None, "said again"))
        elif present is None and not policy.needs_decision(slot):
            changes.append(_Change(candidate, "add", None, candidate.memo, candidate.memo, "first value of this slot"))
            values[slot] = candidate.memo
        else:
            proposals.append(
                Proposal(
                    number=len(proposals) + 1,
                    candidate=candidate,
                    present=present,
                    update_description=policy.update_descriptions.get(slot, ""),
                )
            )
    if not proposals:
        return
    answer = await processor.merge(proposals, memo)
    calls.extend(answer.calls)
    dropped.extend(answer.dropped)
    decisions = _by_number(answer, len(proposals), dropped)
    for proposal in proposals:
        change = _decide(proposal, decisions.get(proposal.number), dropped)
        if change is not None and change.after is not None and len(change.after) > MAX_SLOT_CHARACTERS:
            dropped.append(_drop("slot_full", proposal.candidate))
        elif change is not None:
            changes.append(change)
            slot = (proposal.candidate.topic, proposal.candidate.sub_topic)
            if change.after is None:
                values.pop(slot, None)
            else:
                values[slot] = change.after


def _by_number(answer: MergeAnswer, count: int, dropped: list[Dropped]) -> dict[int, Decision]:
    decisions: dict[int, Decision] = {}
    for decision in answer.decisions:
        if not 1 <= decision.number <= count:
            dropped.append(
                Dropped(stage="merge", reason="unknown_proposal", detail=f"{decision.number}: {decision.value}"[:200])
            )
        elif decision.number in decisions:
            dropped.append(Dropped(stage="merge", reason="second_decision", detail=decision.value[:200]))
        else:
            decisions[decision.number] = decision
    return decisions


def _decide(proposal: Proposal, decision: Decision | None, dropped: list[Dropped]) -> _Change | None:
    candidate, present = proposal.candidate, proposal.present
    if candidate.retracts and (decision is None or decision.action == "APPEND"):
        # There is nothing that could be kept of "no longer" by adding it: leaving the value is the smaller error.
        dropped.append(_drop("undecided_retraction", candidate))
        return None
    if decision is None:
        decision = Decision(number=proposal.number, action="APPEND", reason="kept: no decision was given")
    if decision.action == "ABORT":
        if not (candidate.retracts and candidate.assertion == "inferred"):
            dropped.append(_drop("aborted", candidate, decision.reason))
        return None
    value = decision.value.strip()
    reason = decision.reason.strip() or "no reason given"
    if decision.action == "APPEND":
        added = value or candidate.memo
        if present is None:
            return _Change(candidate, "add", None, added, added, reason)
        if _repeats(added, present):
            return _Change(candidate, "confirm", present, present, None, reason)
        return _Change(candidate, "append", present, present + SEPARATOR + added, added, reason)
    if present is None:
        if candidate.retracts or not (value or candidate.memo):
            dropped.append(_drop("nothing_to_update", candidate))
            return None
        return _Change(candidate, "add", None, value or candidate.memo, value or candidate.memo, reason)
    if not value and not candidate.retracts:
        # An empty rewrite that nobody asked for would lose the slot.
        dropped.append(_drop("empty_update", candidate, decision.reason))
        return _Change(
            candidate,
            "append",
            present,
            present + SEPARATOR + candidate.memo,
            candidate.memo,
            "kept: the rewrite was empty",
        )
    if not value:
        return _Change(candidate, "delete", present, None, None, reason)
    if value == present:
        return _Change(candidate, "confirm", present, present, None, reason)
    return _Change(candidate, "update", present, value, candidate.memo, reason)


def _repeats(memo: str, present: str) -> bool:
    """Whether a value says only what the slot says already: all of it, or some of its items."""
    if _comparable(memo) == _comparable(present):
        return True
    known = set(map(_comparable, present.split(SEPARATOR.strip())))
    return known.issuperset(map(_comparable, memo.split(SEPARATOR.strip())))


def _comparable(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip(" \t\r\n.,;!?。，；！？、")


def _drop(reason: str, candidate: Candidate, why: str = "") -> Dropped:
    detail = f"{candidate.topic}/{candidate.sub_topic}: {candidate.memo}" + (f" ({why})" if why else "")
    return Dropped(stage="merge", reason=reason, detail=detail[:200])


def _record(
    state: ProfileState,
    extracted: Candidates,
    tagged: Candidates,
    *,
    changes: Sequence[_Change],
    dropped: Sequence[Dropped],
    calls: Sequence[ModelCall],
    error: str | None,
    duration_ms: float,
    processor: str,
    policy: MergePolicy,
    now: datetime,
) -> ProfileState:
    flush = extracted.flush
    memo = extracted.memo
    deltas = _deltas(state, flush, memo, changes, processor, policy, now)
    errors: dict[str, str] = {
        part.branch: part.error for part in (extracted, tagged) if part.status == "failed" and part.error
    }
    if error is not None:
        errors["merge"] = error
    outcome: Outcome = "applied"
    if error is not None or extracted.status == "failed":
        outcome = "failed"
    elif memo is None or memo.status == "empty":
        outcome = "empty"
    event = FlushEvent(
        event_id=event_id(flush.flush_id),
        flush=flush,
        outcome=outcome,
        memo=memo.bullets if memo else (),
        tags=tagged.tags,
        messages=memo.messages if memo else (),
        delta_ids=tuple(delta.delta_id for delta in deltas),
        first_version=deltas[0].version if deltas else None,
        last_version=deltas[-1].version if deltas else None,
        calls=(*(memo.calls if memo else ()), *extracted.calls, *tagged.calls, *calls),
        dropped=(*(memo.dropped if memo else ()), *extracted.dropped, *tagged.dropped, *dropped),
        errors=errors,
        timings=Timings(
            window=(flush.closed_at - flush.opened_at).total_seconds() * 1000,
            summary=memo.duration_ms if memo else 0.0,
            extract=extracted.duration_ms,
            tag=tagged.duration_ms,
            merge=duration_ms,
        ),
        recorded_at=now,
        processor=processor,
        pipeline_version=policy.pipeline_version,
    )
    mark = AppliedMark(log_id=flush.log_id, partition=flush.partition, last_offset=flush.last_offset)
    return msgspec.structs.replace(
        state,
        profile=apply_deltas(state.profile, deltas),
        applied={**state.applied, flush.lane: mark},
        deltas=deltas,
        event=event,
    )


def _deltas(
    state: ProfileState,
    flush: FlushRef,
    memo: Memo | None,
    changes: Sequence[_Change],
    processor: str,
    policy: MergePolicy,
    now: datetime,
) -> tuple[ProfileDelta, ...]:
    occurred = {message.message_id: message.occurred_at for message in memo.messages} if memo else {}
    hits = {slot.key: slot.update_hits for slot in state.profile.slots}
    deltas: list[ProfileDelta] = []
    for index, change in enumerate(changes):
        candidate = change.candidate
        slot = (candidate.topic, candidate.sub_topic)
        hits[slot] = 1 if change.op == "add" else hits.get(slot, 0) + 1
        deltas.append(
            ProfileDelta(
                delta_id=delta_id(flush.flush_id, index),
                tenant_id=flush.tenant_id,
                user_id=flush.user_id,
                version=state.profile.version + index + 1,
                flush_id=flush.flush_id,
                index=index,
                op=change.op,
                topic=candidate.topic,
                sub_topic=candidate.sub_topic,
                before=change.before,
                after=change.after,
                added=change.added,
                reason=change.reason,
                evidence=candidate.evidence,
                update_hits=hits[slot],
                said_at=max(occurred[message_id] for message_id in candidate.evidence),
                recorded_at=now,
                processor=processor,
                pipeline_version=policy.pipeline_version,
                assertion=candidate.assertion,
            )
        )
    return tuple(deltas)
