"""`WindowState`: what the window agent remembers of a user between batches."""

from __future__ import annotations

import msgspec

from schemas.flushes import BatchMessage, Lane, Trigger
from schemas.messages import AwareDatetime


class EmittedBatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The batch last emitted on a lane: enough to build the same batch again from the same messages.

    Attributes:
        log_id: the log that the offsets belong to.
        partition: partition of the chat topic.
        first_offset: offset of the first message in the batch.
        last_offset: offset of the last: every message of this user up to here has been emitted.
        trigger: why it closed.
        opened_at: as in the batch's heading.
        closed_at: likewise.
        left_out: offsets between the two that hold second copies of moved messages and are not in the batch.
    """

    log_id: str
    partition: int
    first_offset: int
    last_offset: int
    trigger: Trigger
    opened_at: AwareDatetime
    closed_at: AwareDatetime
    left_out: tuple[int, ...] = ()


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The last request of a partition to forget a user.

    Attributes:
        offset: where it was written first.
        at: when, by the clock of its publisher; never after it was read.
    """

    offset: int
    at: AwareDatetime


class Forgotten(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The requests by which a user was forgotten.

    Attributes:
        log_id: the log that the last one is on.
        partition: its partition of the chat topic.
        offset: its offset there.
        asked: for each partition that one was written to first (``log_id:partition``), the last.
        ends: for each partition of the chat topic, where it ended when the last one was read.
    """

    log_id: str
    partition: int
    offset: int
    asked: dict[str, Asked]
    ends: tuple[int, ...] = ()


class WindowState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a user's messages up to the end of the batch last emitted.

    Attributes:
        lanes: the batch last emitted. Lane ``facts`` needs none: its batches are sent before the window that holds
            their message, and repeats are recognised by their ids.
        moved: for each partition that records of the user were moved from (``log_id:partition``), the highest offset
            there that is in a batch, or was dropped or carried out when the user was forgotten.
        signalled: offset of the last message up to there that made a batch of lane ``facts``.
        turns: the last turns up to there, cut short: the context of the messages that follow.
        forgotten: how the user was last forgotten; what was said before and comes later is dropped.
    """

    lanes: dict[Lane, EmittedBatch] = {}
    moved: dict[str, int] = {}
    signalled: int | None = None
    turns: tuple[BatchMessage, ...] = ()
    forgotten: Forgotten | None = None
