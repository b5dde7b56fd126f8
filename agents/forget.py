"""Forgetting a user: the end of the profile, told in order with its changes, and the mark against what comes late."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from agents.delta_writer import DeltaWriter
from agents.flush_record import flush_record
from agents.policy import MergePolicy
from schemas.flushes import FlushRef
from schemas.profiles import ProfileState
from schemas.stages import Candidates, MessageRef

_REASON: Final = "the user is to be forgotten"


def forget_answer(ref: FlushRef, *message_ids: str) -> Candidates:
    """Return what is handed to the merge when a user is to be forgotten.

    Args:
        ref: heading of lane ``forget``; its offset is that of the control event.
        message_ids: of the control event, which the delta cites.
    """
    return Candidates(
        flush=ref,
        branch="forget",
        status="ok",
        messages=tuple(
            MessageRef(message_id=each, role="user", occurred_at=ref.last_occurred_at) for each in message_ids
        ),
    )


def forget_user(
    state: ProfileState, answer: Candidates, *, processor: str, policy: MergePolicy, now: datetime
) -> ProfileState:
    """Return the record of a user who is forgotten: an empty profile, one delta that says so, and an event.

    Nothing of what was known is in it. Its mark covers every flush of messages from before the control event, whenever
    it arrives.
    """
    writer = DeltaWriter(
        state.profile, answer.flush, processor=processor, pipeline_version=policy.pipeline_version, now=now
    )
    writer.write(
        "profile",
        "forget",
        "",
        "",
        before=None,
        after=None,
        added=None,
        reason=_REASON,
        evidence=tuple(message.message_id for message in answer.messages),
        hits=1,
        said_at=answer.flush.last_occurred_at,
    )
    forgotten = flush_record(
        state,
        {"forget": answer},
        writer,
        calls=(),
        dropped=(),
        error=None,
        duration_ms=0.0,
        processor=processor,
        policy=policy,
        now=now,
    )
    return msgspec.structs.replace(forgotten, redriven={})
