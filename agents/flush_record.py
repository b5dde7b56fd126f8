"""`flush_record`: the one record that ends a flush, made durable before anything of it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from agents.changes import Change, Changes
from agents.policy import MergePolicy
from schemas.deltas import AddedValue, FlushEvent, Outcome, ProfileDelta, Timings
from schemas.flushes import FlushRef
from schemas.ids import delta_id, event_id
from schemas.profiles import AppliedMark, ProfileState, apply_deltas
from schemas.stages import Candidates, Memo


def flush_record(
    state: ProfileState,
    extracted: Candidates,
    tagged: Candidates,
    *,
    changes: Changes,
    error: str | None,
    duration_ms: float,
    processor: str,
    policy: MergePolicy,
    now: datetime,
) -> ProfileState:
    """Return the record that ends a flush: profile, mark, deltas with consecutive versions, and the event.

    Args:
        state: what was recorded before.
        extracted: the answer of the branch ``extract``.
        tagged: the answer of the branch ``tag``.
        changes: what the merge made of them.
        error: why the merge failed, or None.
        duration_ms: how long it took.
        processor: who decided.
        policy: what the configuration says about merging.
        now: when it ended.
    """
    flush = extracted.flush
    memo = extracted.memo
    deltas = _deltas(state, flush, memo, changes.made, processor, policy, now)
    errors: dict[str, str] = {
        part.branch: part.error for part in (extracted, tagged) if part.status == "failed" and part.error
    }
    if memo is not None and memo.status == "failed" and memo.error:
        errors = {"summary": memo.error}
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
        added=tuple(
            AddedValue(topic=delta.topic, sub_topic=delta.sub_topic, value=delta.added)
            for delta in deltas
            if delta.added is not None
        ),
        delta_ids=tuple(delta.delta_id for delta in deltas),
        first_version=deltas[0].version if deltas else None,
        last_version=deltas[-1].version if deltas else None,
        calls=(*(memo.calls if memo else ()), *extracted.calls, *tagged.calls, *changes.calls),
        dropped=(*(memo.dropped if memo else ()), *extracted.dropped, *tagged.dropped, *changes.dropped),
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
    changes: Sequence[Change],
    processor: str,
    policy: MergePolicy,
    now: datetime,
) -> tuple[ProfileDelta, ...]:
    occurred = {message.message_id: message.occurred_at for message in memo.messages} if memo else {}
    hits = {slot.key: slot.update_hits for slot in state.profile.slots}
    deltas: list[ProfileDelta] = []
    for index, change in enumerate(changes):
        candidate = change.candidate
        if change.hits is not None:
            hits[change.slot] = change.hits
        else:
            hits[change.slot] = 1 if change.op == "add" else hits.get(change.slot, 0) + 1
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
                update_hits=hits[change.slot],
                said_at=change.said_at or max(occurred[message_id] for message_id in candidate.evidence),
                recorded_at=now,
                processor=processor,
                pipeline_version=policy.pipeline_version,
                assertion=candidate.assertion,
            )
        )
    return tuple(deltas)
