"""`flush_record`: the one record that ends a flush, made durable before anything of it is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from agents.delta_writer import DeltaWriter
from agents.policy import MergePolicy
from schemas.deltas import AddedValue, FlushEvent, Outcome, Timings
from schemas.flushes import Branch
from schemas.ids import event_id
from schemas.profiles import ProfileState, retracted_after
from schemas.stages import Candidates, Dropped, ModelCall


def flush_record(
    state: ProfileState,
    answers: Mapping[Branch, Candidates],
    writer: DeltaWriter,
    *,
    calls: Sequence[ModelCall],
    dropped: Sequence[Dropped],
    error: str | None,
    duration_ms: float,
    processor: str,
    policy: MergePolicy,
    now: datetime,
) -> ProfileState:
    """Return the record that ends a flush: profile, mark, deltas and the event.

    Args:
        state: what was recorded before.
        answers: of the flush's branches.
        writer: what the merge has made of them.
        calls: what the merge asked.
        dropped: what it could not use.
        error: why it failed, or None.
        duration_ms: how long it took.
        processor: who decided.
        policy: what the configuration says about merging.
        now: when it ended.
    """
    first = _first(answers)
    flush, memo = first.flush, first.memo
    ordered = [answers[branch] for branch in flush.branches if branch in answers]
    deltas = tuple(writer.deltas)
    event = FlushEvent(
        event_id=event_id(flush.flush_id, flush.attempt),
        flush=flush,
        outcome=_outcome(first, bool(deltas), error),
        memo=memo.bullets if memo else (),
        tags=tuple(tag for answer in ordered for tag in answer.tags),
        messages=memo.messages if memo else first.messages,
        added=tuple(
            AddedValue(topic=delta.topic, sub_topic=delta.sub_topic, value=delta.added, kind=delta.kind)
            for delta in deltas
            if delta.added is not None
        ),
        domain=next((answer.domain for answer in ordered if answer.domain is not None), None),
        delta_ids=tuple(delta.delta_id for delta in deltas),
        first_version=deltas[0].version if deltas else None,
        last_version=deltas[-1].version if deltas else None,
        calls=(*(memo.calls if memo else ()), *(call for answer in ordered for call in answer.calls), *calls),
        dropped=(*(memo.dropped if memo else ()), *(drop for answer in ordered for drop in answer.dropped), *dropped),
        errors=_errors(ordered, error),
        timings=Timings(
            window=(flush.closed_at - flush.opened_at).total_seconds() * 1000,
            summary=memo.duration_ms if memo else 0.0,
            merge=duration_ms,
            **{answer.branch: answer.duration_ms for answer in ordered if answer.branch != "forget"},
        ),
        recorded_at=now,
        processor=processor,
        pipeline_version=policy.pipeline_version,
    )
    return msgspec.structs.replace(
        state.marked(flush),
        profile=writer.profile,
        deltas=deltas,
        event=event,
        retracted=retracted_after(state, deltas),
    )


def _first(answers: Mapping[Branch, Candidates]) -> Candidates:
    """Return the answer that decides how the flush ends."""
    flush = next(iter(answers.values())).flush
    return answers[flush.branches[0]]


def _outcome(first: Candidates, changed: bool, error: str | None) -> Outcome:
    if first.branch == "forget":
        return "forgotten"
    if error is not None or first.status == "failed":
        return "failed"
    said_something = first.memo.status == "ok" if first.memo is not None else first.status == "ok"
    return "applied" if changed or said_something else "empty"


def _errors(answers: Sequence[Candidates], error: str | None) -> dict[str, str]:
    errors: dict[str, str] = {}
    for answer in answers:
        memo = answer.memo
        if memo is not None and memo.status == "failed" and memo.error:
            errors["summary"] = memo.error
        elif answer.error:
            errors[answer.branch] = answer.error
    if "summary" in errors:
        # What follows from it is no error of its own.
        errors = {branch: text for branch, text in errors.items() if branch not in {"extract", "tag"}}
    if error is not None:
        errors["merge"] = error
    return errors
