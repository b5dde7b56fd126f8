"""`WindowState`: what the window agent remembers of a user between batches: offsets, never the messages."""

from __future__ import annotations

import msgspec

from schemas.flushes import Lane, Trigger
from schemas.messages import AwareDatetime


class EmittedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The batch last emitted on a lane: enough to build the same batch again from the same messages.

    Attributes:
        log_id: the log that the offsets belong to.
        partition: partition of the chat topic.
        first_offset: offset of the first message in the batch.
        last_offset: offset of the last: every message of this user up to here has been emitted.
        trigger: why it closed.
        opened_at: as in the batch's heading.
        closed_at: likewise.
    """

    log_id: str
    partition: int
    first_offset: int
    last_offset: int
    trigger: Trigger
    opened_at: AwareDatetime
    closed_at: AwareDatetime


class WindowState(msgspec.Struct, frozen=True, kw_only=True):
    """For each lane, the batch last emitted for a user."""

    lanes: dict[Lane, EmittedBatch] = {}
