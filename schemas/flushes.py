"""`FlushBatch`: the messages of one user that are processed together, and `FlushRef`, its heading."""

from __future__ import annotations

from typing import Literal

import msgspec

from schemas.messages import AwareDatetime, Role

Lane = Literal["memo", "facts", "forget"]
"""What is done with a batch.

``memo``: a window of messages is summed up, extracted from and tagged. ``facts``: a single message with a signal in it
is read for facts and preferences at once. ``forget``: everything about the user is forgotten; there is no batch, only
this heading.
"""

Trigger = Literal["tokens", "messages", "idle", "age", "session", "flush", "horizon", "shutdown", "signal", "forget"]
"""Why a batch was made; `streams.windows` says when windows close, the last two are those of the other lanes."""

Branch = Literal["extract", "tag", "domain", "facts", "forget"]
BRANCHES: dict[Lane, tuple[Branch, ...]] = {
    "memo": ("extract", "tag", "domain"),
    "facts": ("facts",),
    "forget": ("forget",),
}
"""The branches that answer each flush of a lane; the merge waits for all of them."""

FactSignal = Literal["identity", "location", "relationship", "work", "possession", "state"]
PreferenceSignal = Literal["explicit", "dislike", "style_request", "time", "frequency"]

FACT_TURNS: int = 5
"""Turns before a message that are shown with it when it is read for facts."""

PREFERENCE_TURNS: int = 3
"""Likewise for preferences."""


class Signals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a message may be telling of its author, as a detector without a model sees it.

    Attributes:
        facts: kinds of facts that its words hint at, in the order of their declaration.
        preferences: likewise for preferences.
    """

    facts: tuple[FactSignal, ...] = ()
    preferences: tuple[PreferenceSignal, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.facts or self.preferences)


class FlushRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Heading of a flush, carried by every record that comes from it.

    Attributes:
        flush_id: derived from the fields below (`schemas.ids.flush_id`).
        log_id: names the message log that the offsets belong to: the Kafka cluster's id unless set otherwise.
        partition: partition of the chat topic.
        first_offset: offset of the first message in the batch.
        last_offset: offset of the last; other users' messages may lie between.
        trigger: why the window closed.
        opened_at: when its first message arrived, by the worker's clock; of lane ``facts``: when the message came onto
            the log.
        closed_at: when it closed, by the worker's clock; likewise.
        first_occurred_at: when the first of its messages was written.
        last_occurred_at: when the last was written.
        message_count: messages in the batch, context not counted.
        token_count: their size in o200k tokens.
        redrive: how often it was sent again from the dead letters.
        only: of a flush that was sent again, the branches that answer once more; empty: all of its lane.
        letters_of: likewise, the stages whose dead letters it came from, one after the other: two letters of one flush
            may ask the same branch for different parts of it.
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
    redrive: int = 0
    only: tuple[Branch, ...] = ()
    letters_of: tuple[str, ...] = ()

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The branches that answer it; the first one decides how it ends."""
        return self.only or BRANCHES[self.lane]

    @property
    def part(self) -> str:
        """What of the flush was sent again: names of branches, and the letters that it came from."""
        return f"{'+'.join(self.branches)}:{'>'.join(self.letters_of)}"

    @property
    def attempt(self) -> str:
        """What tells this time from the others that the flush was sent; empty for the first."""
        return f"{self.redrive}:{self.part}" if self.redrive else ""


class BatchMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message inside a batch: what the processors need of it, with its id and time settled."""

    message_id: str
    offset: int
    role: Role
    content: str
    occurred_at: AwareDatetime
    session_id: str | None = None
    speaker: str | None = None


class FlushBatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One closed window.

    Attributes:
        ref: the heading.
        messages: oldest first; each message of a user is in exactly one batch of a lane.
        context: earlier turns, oldest first, shown for understanding only: nothing may be taken from them or cited.
        signals: of lane ``facts``: why the batch was made.
        after: of lane ``facts``: offset of the user's batch before, in the same partition: it is merged first, so that
            its facts are known.
    """

    ref: FlushRef
    messages: tuple[BatchMessage, ...]
    context: tuple[BatchMessage, ...] = ()
    signals: Signals | None = None
    after: int | None = None


class BatchHeading(msgspec.Struct, frozen=True, kw_only=True):
    """A `FlushBatch` of which only the heading is read: enough to tell whom it concerns."""

    ref: FlushRef
