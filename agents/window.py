"""The window agent: chat messages in, one flush batch for each closed window out.

Exactness. A message stays uncommitted until its batch is on the flush topic. Before a batch is sent, the record
`WindowState` of its user is made durable: which offsets the batch covers and when and why it closed. When messages
are read again after a crash, those up to that record are not taken into a new window:

- if the whole range of the last batch is read again, the batch may not have arrived: it is built again from the
  same messages, with the same id, and sent again;
- what else lies at or below it was committed with its batch, or before it, and is skipped.

So no message is in two batches, and the record holds offsets, not text (`docs/decisions/0002`).
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Protocol

from schemas.codec import InvalidRecord, encode
from schemas.flushes import BatchMessage, FlushBatch, FlushRef, Lane
from schemas.ids import flush_id, message_id
from schemas.messages import LATEST, ChatMessage, decode_message, split_user_key
from schemas.windows import EmittedBatch, WindowState
from streams.backoff import Backoff
from streams.dead_letters import DeadLetters
from streams.errors import RecordFailed
from streams.insist import insist
from streams.intake import Intake
from streams.ledger import Entry, Ledger
from streams.partitioning import partition_for
from streams.records import Event, EventStream, Source, header_items
from streams.sender import Outgoing, Sender
from streams.tokens import count_tokens
from streams.windows import Closed, WindowPolicy, Windows

logger = logging.getLogger(__name__)

MOVED_HEADER: Final = "profilestream-moved-from"
"""On a message that was found in a partition that its user does not belong to: where it was."""

_LANE: Final[Lane] = "memo"
_MAX_UNSENT: Final = 1_000


@dataclass(slots=True, eq=False)
class Held:
    """A message in a window and its open record."""

    entry: Entry
    message: BatchMessage
    tokens: int


@dataclass(slots=True)
class Rebuild:
    """The batch last emitted for a user, being put together again from messages that are read again."""

    emitted: EmittedBatch
    items: list[Held] = field(default_factory=list)


@dataclass(slots=True)
class Emission:
    """A batch on its way to the flush topic; `state` is None when it was made durable before."""

    batch: FlushBatch
    state: WindowState | None
    entries: list[Entry]


class StateTable(Protocol):
    """Where `WindowState` is kept."""

    async def write(self, key: bytes, record: WindowState, partition: int) -> None:
        """Write a user's record; returns when it is durable."""
        ...

    def read(self, key: bytes) -> WindowState | None:
        """Return a user's record."""
        ...


class WindowAgent:
    """Windows the messages of all users of the assigned partitions.

    Args:
        log_id: name of the message log, part of every flush id.
        partitions: number of partitions of the chat topic.
        flushes: name of the flush topic.
        on_emit: told the id of each batch that was sent.
        suspicious_pause: seconds without a sweep after which the process must have been suspended for so long that its
            partitions may have another owner.

    Attributes:
        read_up_to: for each partition, the offset after the last record taken.
        moved: messages that were sent on to the partition of their user.
    """

    def __init__(
        self,
        *,
        source: Source,
        sender: Sender,
        dead_letters: DeadLetters,
        table: StateTable,
        policy: WindowPolicy,
        log_id: str,
        partitions: int,
        messages: str,
        flushes: str,
        backoff: Backoff,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
        on_emit: Callable[[str], None] = lambda _flush_id: None,
        suspicious_pause: float = math.inf,
    ) -> None:
        self.windows: Windows[Held] = Windows(policy)
        self.ledger = Ledger(source)
        self.moved = 0
        self._passing = 0
        self.read_up_to: dict[int, int] = {}
        self._sender = sender
        self._dead_letters = dead_letters
        self._table = table
        self._log_id = log_id
        self._partitions = partitions
        self._messages = messages
        self._flushes = flushes
        self._backoff = backoff
        self._now = now
        self._monotonic = monotonic
        self._on_emit = on_emit
        self._suspicious_pause = suspicious_pause
        self._swept = monotonic()
        self._closing_from = -math.inf
        self._intake = Intake(source, self.ledger, _MAX_UNSENT)
        self._rebuilds: dict[bytes, Rebuild] = {}
        self._unsent: dict[bytes, deque[Emission]] = {}
        self._tasks: dict[bytes, asyncio.Task[None]] = {}

    @property
    def running(self) -> int:
        """Batches that are closed and not yet sent, and records that enter no window and are being passed on."""
        return sum(map(len, self._unsent.values())) + self._passing

    async def consume(self, stream: EventStream) -> None:
        """Take messages from a stream for as long as it lasts: the body of the agent."""
        async for event in stream.noack().events():
            await self.take(event)

    async def take(self, event: Event) -> None:
        """Take one record of the chat topic."""
        if not await self._intake.admit(event):
            return
        entry = self.ledger.open(event)
        self.read_up_to[event.message.partition] = event.message.offset + 1
        try:
            message = decode_message(event.message.value)
        except InvalidRecord as error:
            await self._park(entry, RecordFailed("invalid_record", str(error)))
            return
        key = message.key
        if partition_for(key, self._partitions) != event.message.partition:
            await self._move(entry, key)
            return
        if message.type == "flush":
            self._emit_all(self.windows.close(key, "flush"))
            self.ledger.close(entry)
            return
        emitted = self._emitted(key, event.message.partition)
        if emitted is not None and event.message.offset <= emitted.last_offset:
            self._replay(key, emitted, entry, message)
            return
        held = self._hold(entry, message)
        self._emit_all(
            self.windows.add(key, held, tokens=held.tokens, session=message.session_id, now=self._monotonic())
        )

    def sweep(self) -> None:
        """Close the windows whose time has come; called a few times a second.

        A process that was suspended for so long that the group may have given its partitions to another does not close
        windows at once when it wakes: it first leaves the client time to learn of it.
        """
        now = self._monotonic()
        if now - self._swept > self._suspicious_pause:
            self._closing_from = now + self._suspicious_pause
        self._swept = now
        if not self._intake.draining and now >= self._closing_from:
            self._emit_all(list(self.windows.due(now)))

    def close_all(self) -> None:
        """Close every window now, because the log behind them will not survive the stop, and take nothing more."""
        self._intake.close()
        self._emit_all(self.windows.close_all("shutdown"))

    def _hold(self, entry: Entry, message: ChatMessage) -> Held:
        place = entry.event.message
        batch_message = BatchMessage(
            message_id=message.message_id or self._message_id(entry),
            offset=place.offset,
            role=message.role or "user",
            content=message.content,
            occurred_at=message.occurred_at or _moment(place.timestamp),
            session_id=message.session_id,
            speaker=message.speaker,
        )
        return Held(entry, batch_message, count_tokens(message.content))

    def _message_id(self, entry: Entry) -> str:
        """Return the id of a message that came without one: where it was written first."""
        place = entry.event.message
        moved_from = dict(header_items(place.headers)).get(MOVED_HEADER, b"").decode(errors="replace")
        partition, _, offset = moved_from.partition(":")
        if partition.isdecimal() and offset.isdecimal():
            return message_id(self._log_id, int(partition), int(offset))
        return message_id(self._log_id, place.partition, place.offset)

    def _emitted(self, key: bytes, partition: int) -> EmittedBatch | None:
        pending = self._unsent.get(key)
        state = next((unsent.state for unsent in reversed(pending or ()) if unsent.state), None)
        state = state or self._table.read(key)
        emitted = state.lanes.get(_LANE) if state else None
        if emitted is None or emitted.log_id != self._log_id or emitted.partition != partition:
            return None
        return emitted

    def _replay(self, key: bytes, emitted: EmittedBatch, entry: Entry, message: ChatMessage) -> None:
        offset = entry.event.message.offset
        if offset == emitted.first_offset:
            self._rebuilds[key] = Rebuild(emitted)
        rebuild = self._rebuilds.get(key)
        if offset < emitted.first_offset or rebuild is None:
            self.ledger.close(entry)
            return
        rebuild.items.append(self._hold(entry, message))
        if offset == emitted.last_offset:
            del self._rebuilds[key]
            self._queue(key, Emission(self._batch(key, rebuild.items, emitted), None, _entries(rebuild.items)))

    def _emit_all(self, windows: list[Closed[Held]]) -> None:
        for closed in windows:
            closed_at = self._now()
            first, last = closed.items[0], closed.items[-1]
            emitted = EmittedBatch(
                log_id=self._log_id,
                partition=first.entry.event.message.partition,
                first_offset=first.message.offset,
                last_offset=last.message.offset,
                trigger=closed.trigger,
                opened_at=closed_at - timedelta(seconds=max(0.0, self._monotonic() - closed.opened)),
                closed_at=closed_at,
            )
            batch = self._batch(closed.key, closed.items, emitted)
            self._queue(closed.key, Emission(batch, WindowState(lanes={_LANE: emitted}), _entries(closed.items)))

    def _batch(self, key: bytes, items: list[Held], emitted: EmittedBatch) -> FlushBatch:
        tenant_id, user_id = split_user_key(key)
        messages = tuple(item.message for item in items)
        times = [message.occurred_at for message in messages]
        ref = FlushRef(
            flush_id=flush_id(
                self._log_id,
                tenant_id,
                user_id,
                _LANE,
                emitted.partition,
                emitted.first_offset,
                emitted.last_offset,
            ),
            tenant_id=tenant_id,
            user_id=user_id,
            lane=_LANE,
            log_id=self._log_id,
            partition=emitted.partition,
            first_offset=emitted.first_offset,
            last_offset=emitted.last_offset,
            trigger=emitted.trigger,
            opened_at=emitted.opened_at,
            closed_at=emitted.closed_at,
            first_occurred_at=min(times),
            last_occurred_at=max(times),
            message_count=len(messages),
            token_count=sum(item.tokens for item in items),
        )
        return FlushBatch(ref=ref, messages=messages)

    def _queue(self, key: bytes, emission: Emission) -> None:
        """Send a batch after the earlier ones of its user."""
        self._unsent.setdefault(key, deque()).append(emission)
        self._intake.load(self.running)
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._send(key), name="window emission")

    async def _send(self, key: bytes) -> None:
        epoch = self.ledger.epoch
        queue = self._unsent[key]
        while queue:
            emission = queue[0]
            await self._deliver(key, emission)
            if self.ledger.epoch != epoch:
                return
            queue.popleft()
            for entry in emission.entries:
                self.ledger.close(entry)
            self._intake.load(self.running)
        del self._unsent[key], self._tasks[key]
        self._forget_windows_when_drained()

    async def _deliver(self, key: bytes, emission: Emission) -> None:
        ref = emission.batch.ref
        state = emission.state
        flush = Outgoing(topic=self._flushes, key=key, value=encode(emission.batch), partition=ref.partition)
        try:
            if state is not None:
                await self._insist(lambda: self._table.write(key, state, ref.partition))
            await self._insist(lambda: self._sender.send(flush))
        except RecordFailed as error:
            for entry in emission.entries:
                await self._insist(partial(self._dead_letters.park, entry.event, "window", error))
        else:
            self._on_emit(ref.flush_id)

    async def _park(self, entry: Entry, failure: RecordFailed) -> None:
        await self._finish(entry, lambda: self._dead_letters.park(entry.event, "window", failure))

    async def _finish(self, entry: Entry, send: Callable[[], Awaitable[None]]) -> None:
        """Send what becomes of a record that enters no window, then let it be acknowledged; a drain waits for it."""
        self._passing += 1
        try:
            await self._insist(send)
            self.ledger.close(entry)
        finally:
            self._passing -= 1
            self._forget_windows_when_drained()

    async def _move(self, entry: Entry, key: bytes) -> None:
        """Send a message on to the partition of its user: a publisher used another key or partitioner."""
        message = entry.event.message
        origin = f"{message.partition}:{message.offset}".encode()
        moved = Outgoing(
            topic=self._messages,
            key=key,
            value=message.value,
            partition=partition_for(key, self._partitions),
            headers=[*header_items(message.headers), (MOVED_HEADER, origin)],
            timestamp=message.timestamp,
        )
        await self._finish(entry, lambda: self._sender.send(moved))
        self.moved += 1
        logger.info("moved %s[%d]@%d to its user's partition", message.topic, message.partition, message.offset)

    async def _insist(self, send: Callable[[], Awaitable[None]]) -> None:
        await insist("window", send, self._backoff)

    def begin_drain(self) -> None:
        """Take nothing new, send what is closed; open windows are forgotten: their messages will be read again."""
        self._intake.close()
        self._forget_windows_when_drained()

    def _forget_windows_when_drained(self) -> None:
        if self._intake.draining and not self._tasks and not self._passing:
            self._forget()

    def _forget(self) -> None:
        self.ledger.abandon()
        self.windows.clear()
        self._rebuilds.clear()

    def abandon(self) -> None:
        """Cancel what is being sent and forget everything."""
        self._forget()
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        self._unsent.clear()
        self._intake.load(0)

    def resume(self) -> None:
        """Take messages again."""
        self._intake.resume()


def _moment(timestamp: float) -> datetime:
    """Return a Kafka timestamp as a time; one that no calendar has, as some clients send, is moved into range."""
    return datetime.fromtimestamp(min(max(timestamp, 0.0), LATEST.timestamp()), UTC)


def _entries(items: list[Held]) -> list[Entry]:
    return [item.entry for item in items]
