"""From messages of one user to the flush batch made of them, and to the turns that later messages are shown with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from msgspec.structs import replace

from agents.moved import Origin, origin_of
from schemas.flushes import FACT_TURNS, BatchMessage, FlushBatch, FlushRef, Lane, Signals, Trigger
from schemas.ids import flush_id, message_id
from schemas.messages import LATEST, ChatMessage, decode_message, split_user_key
from schemas.windows import EmittedBatch
from streams.dead_letters import written_at
from streams.ledger import Entry
from streams.records import header_items
from streams.tokens import count_tokens

MAX_TURN_CHARACTERS: Final = 500
"""Of a longer turn only the beginning is kept as context."""


@dataclass(slots=True, eq=False)
class Held:
    """A message in a window and its open record.

    Attributes:
        log_id: name of the message log.
        origin: where the message was written first, if it was moved.
        signalled: whether it made a batch of lane ``facts`` as well.
    """

    entry: Entry
    log_id: str
    tokens: int
    origin: Origin | None = None
    signalled: bool = False

    @property
    def offset(self) -> int:
        """Where its record is in its partition."""
        return self.entry.event.message.offset

    def decoded(self) -> BatchMessage:
        """Return the message as it goes into a batch.

        One that came without an id has the place where it was written first, by what it says itself, as its id. Decoded
        again, as the record is kept anyway: both would be twice the memory of an open window.
        """
        place = self.entry.event.message
        message = decode_message(place.value)
        return BatchMessage(
            message_id=message.message_id or self._derived_id(),
            offset=place.offset,
            role=message.role or "user",
            content=message.content,
            occurred_at=message.occurred_at or moment(written_at(place)),
            session_id=message.session_id,
            speaker=message.speaker,
        )

    def _derived_id(self) -> str:
        place = self.entry.event.message
        first = origin_of(header_items(place.headers)) or Origin(self.log_id, place.partition, place.offset)
        return message_id(first.log_id, first.partition, first.offset)


@dataclass(slots=True)
class Rebuild:
    """The batch last emitted for a user, being put together again from messages that are read again."""

    emitted: EmittedBatch
    items: list[Held] = field(default_factory=list)


def hold(entry: Entry, message: ChatMessage, log_id: str, origin: Origin | None = None) -> Held:
    """Return a message as it is held in a window.

    Args:
        entry: its record.
        message: what is in it.
        log_id: name of the message log.
        origin: where it was moved from, if it was.
    """
    return Held(entry, log_id, count_tokens(message.content), origin)


def window_batch(key: bytes, items: Sequence[Held], emitted: EmittedBatch) -> FlushBatch:
    """Return the batch of lane ``memo`` that a closed window makes."""
    messages = tuple(item.decoded() for item in items)
    return FlushBatch(ref=_ref(key, "memo", items, messages, emitted), messages=messages)


def signal_batch(
    key: bytes,
    item: Held,
    signals: Signals,
    *,
    turns: Iterable[BatchMessage],
    after: int | None,
    log_id: str,
    published: datetime,
) -> FlushBatch:
    """Return the batch of lane ``facts`` that a message with a signal makes: always the same one.

    Args:
        key: of the user.
        item: the message.
        signals: what it hints at.
        turns: the turns before it.
        after: offset of the user's batch before.
        log_id: name of the message log.
        published: when the message came onto the log.
    """
    emitted = _single(item, "signal", log_id, published)
    messages = (item.decoded(),)
    return FlushBatch(
        ref=_ref(key, "facts", [item], messages, emitted),
        messages=messages,
        context=tuple(turns),
        signals=signals,
        after=after,
    )


def forget_ref(key: bytes, item: Held, log_id: str, published: datetime) -> FlushRef:
    """Return the heading under which a user is forgotten; `item` is the control event."""
    emitted = _single(item, "forget", log_id, published)
    return replace(_ref(key, "forget", [item], [item.decoded()], emitted), message_count=0)


def emitted_of(ref: FlushRef) -> EmittedBatch:
    """Return what is remembered of a batch with this heading."""
    return EmittedBatch(
        log_id=ref.log_id,
        partition=ref.partition,
        first_offset=ref.first_offset,
        last_offset=ref.last_offset,
        trigger=ref.trigger,
        opened_at=ref.opened_at,
        closed_at=ref.closed_at,
    )


def _single(item: Held, trigger: Trigger, log_id: str, published: datetime) -> EmittedBatch:
    return EmittedBatch(
        log_id=log_id,
        partition=item.entry.event.message.partition,
        first_offset=item.offset,
        last_offset=item.offset,
        trigger=trigger,
        opened_at=published,
        closed_at=published,
    )


def last_signalled(items: Iterable[Held], before: int | None) -> int | None:
    """Return the offset of the last message with a signal, `before` where none of these has one."""
    return max((item.offset for item in items if item.signalled), default=before)


def last_turns(newest_first: Iterable[BatchMessage]) -> tuple[BatchMessage, ...]:
    """Return the last turns of a conversation, cut short, the oldest first; what systems and tools say is none."""
    turns = (message for message in newest_first if message.role in {"user", "assistant"} and message.content)
    return tuple(map(_cut, islice(turns, FACT_TURNS)))[::-1]


def _cut(turn: BatchMessage) -> BatchMessage:
    if len(turn.content) <= MAX_TURN_CHARACTERS:
        return turn
    return replace(turn, content=turn.content[: MAX_TURN_CHARACTERS - 1] + "…")


def _ref(
    key: bytes, lane: Lane, items: Sequence[Held], messages: Sequence[BatchMessage], emitted: EmittedBatch
) -> FlushRef:
    tenant_id, user_id = split_user_key(key)
    times = [message.occurred_at for message in messages]
    return FlushRef(
        flush_id=flush_id(
            emitted.log_id,
            tenant_id,
            user_id,
            lane,
            emitted.partition,
            emitted.first_offset,
            emitted.last_offset,
        ),
        tenant_id=tenant_id,
        user_id=user_id,
        lane=lane,
        log_id=emitted.log_id,
        partition=emitted.partition,
        first_offset=emitted.first_offset,
        last_offset=emitted.last_offset,
        trigger=emitted.trigger,
        opened_at=emitted.opened_at,
        closed_at=emitted.closed_at,
        first_occurred_at=min(times),
        last_occurred_at=max(times),
        message_count=len(items),
        token_count=sum(item.tokens for item in items),
    )


def moment(timestamp: float) -> datetime:
    """Return a Kafka timestamp as a time; one that no calendar has, as some clients send, is moved into range."""
    return datetime.fromtimestamp(min(max(timestamp, 0.0), LATEST.timestamp()), UTC)
