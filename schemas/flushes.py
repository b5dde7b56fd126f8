"""`FlushBatch`: the messages of one user that are processed together, and `FlushRef`, its heading."""

from __future__ import annotations

from typing import Literal

import msgspec

from schemas.messages import AwareDatetime, Role

Lane = Literal["memo"]
"""What is done with a batch: ``memo`` is summed up, extracted from and tagged."""

Trigger = Literal["tokens", "messages", "idle", "age", "session", "flush", "horizon", "shutdown"]
"""Why a window closed; `streams.windows` says what each means."""

Branch = Literal["extract", "tag"]
BRANCHES: dict[Lane, tuple[Branch, ...]] = {"memo": ("extract", "tag")}
"""The branches that answer each flush of a lane; the merge waits for all of them."""


class FlushRef(msgspec.Struct, frozen=True, kw_only=True):
    """Heading of a flush, carried by every record that comes from it.

    Attributes:
        flush_id: derived from the fields below (`schemas.ids.flush_id`).
        log_id: names the message log that the offsets belong to: the Kafka cluster's id unless set otherwise.
        partition: partition of the chat topic.
        first_offset: offset of the first message in the batch.
        last_offset: offset of the last; other users' messages may lie between.
        trigger: why the window closed.
        opened_at: when its first message arrived, by the worker's clock.
        closed_at: when it closed, by the worker's clock.
        first_occurred_at: when the first of its messages was written.
        last_occurred_at: when the last was written.
        message_count: messages in the batch, context not counted.
        token_count: their size in o200k tokens.
    """

    flush_id: str
    tenant_id: str
    user_id: str
    lane: Lane
    log_id: str
    partition: int
    first_offset: int
    last_offset: int
    trigger: Trigger
    opened_at: AwareDatetime
    closed_at: AwareDatetime
    first_occurred_at: AwareDatetime
    last_occurred_at: AwareDatetime
    message_count: int
    token_count: int


class BatchMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message inside a batch: what the processors need of it, with its id and time settled."""

    message_id: str
    offset: int
    role: Role
    content: str
    occurred_at: AwareDatetime
    session_id: str | None = None
    speaker: str | None = None


class FlushBatch(msgspec.Struct, frozen=True, kw_only=True):
    """One closed window.

    Attributes:
        ref: the heading.
        messages: oldest first; each message of a user is in exactly one batch of a lane.
        context: earlier turns, shown for understanding only: nothing may be taken from them or cited.
    """

    ref: FlushRef
    messages: tuple[BatchMessage, ...]
    context: tuple[BatchMessage, ...] = ()
