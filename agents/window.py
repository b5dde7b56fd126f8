"""The window agent: chat messages in, one flush batch for each closed window out.

Exactness. A message stays uncommitted until its batch is on the flush topic. Before a batch is sent, the record
`WindowState` of its user is made durable: which offsets the batch covers and when and why it closed. When messages
are read again after a crash, those up to that record are not taken into a new window:

- if the whole range of the last batch is read again, the batch may not have arrived: it is built again from the
  same messages, with the same id, and sent again;
- what else lies at or below it was committed with its batch, or before it, and is skipped.

So no message is in two batches of a lane, and of the batch the record holds offsets, not text
(`docs/decisions/0002`).

Beside its window, a user's message in which a detector sees a signal makes a batch of lane ``facts`` by itself, at
once. It is sent before the window that holds the message can be, so it needs no record: a message that is not in an
emitted window makes the same batch again, with the same id and the same context (`docs/decisions/0006`).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, TypeVar

from agents.detours import forgotten_by, is_at, is_second_copy, was_forgotten
from agents.flush_batches import (
    Held,
    Rebuild,
    emitted_of,
    forget_ref,
    hold,
    last_signalled,
    last_turns,
    moment,
    signal_batch,
    window_batch,
)
from agents.forget import forget_answer
from agents.moved import Log, LogEnds, LogReplaced, Origin, merged, origin_of
from agents.outbox import Emission, Outbox, StateTable
from schemas.codec import InvalidRecord, encode
from schemas.flushes import FlushBatch, FlushRef, Lane, Signals
from schemas.messages import ChatMessage, decode_message
from schemas.windows import EmittedBatch, WindowState
from streams.backoff import Backoff
from streams.dead_letters import DeadLetters, written_at
from streams.errors import RecordFailed
from streams.failpoints import fail_point
from streams.insist import insist
from streams.intake import Intake
from streams.ledger import Entry, Ledger
from streams.metrics import DUPLICATES
from streams.partitioning import partition_for
from streams.records import Event, EventStream, Source, header_items
from streams.sender import Outgoing, Sender
from streams.windows import Closed, WindowPolicy, Windows

logger = logging.getLogger(__name__)

_LANE: Final[Lane] = "memo"
_MAX_UNSENT: Final = 1_000

Found = TypeVar("Found")


class _Abandoned(Exception):
    """The assignment of a record ended while something was looked up for it."""


class WindowAgent:
    """Windows the messages of all users of the assigned partitions.

    Args:
        log_id: name of the message log, part of every flush id.
        partitions: number of partitions of the chat topic.
        flushes: name of the flush topic.
        candidates: name of the topic that the merge reads.
        log_ends: for each of these partitions of the chat topic the offset that its next record will have; 0 where
            there is no such partition. Raises `DependencyDown` when they are not known.
        detect: says what a user's message may be telling; without it there is no lane ``facts``.
        on_emit: told the heading of each batch that was sent.
        suspicious_pause: seconds without a sweep after which the process must have been suspended for so long that its
            partitions may have another owner.

    Attributes:
        read_up_to: for each partition, the offset after the last record taken.
        moved: messages that were sent on to the partition of their user.
        signalled: users' messages that made a batch of lane ``facts``.
        spared: those that had no signal, and so cost no call.
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
        candidates: str,
        backoff: Backoff,
        log_ends: LogEnds,
        now: Callable[[], datetime],
        monotonic: Callable[[], float] = time.monotonic,
        detect: Callable[[str], Signals] | None = None,
        on_emit: Callable[[FlushRef], None] = lambda _ref: None,
        suspicious_pause: float = math.inf,
    ) -> None:
        self.windows: Windows[Held] = Windows(policy)
        self.ledger = Ledger()
        self.moved = 0
        self.signalled = 0
        self.spared = 0
        self._passing = 0
        self.read_up_to: dict[int, int] = {}
        self._source = source
        self._sender = sender
        self._dead_letters = dead_letters
        self._log_id = log_id
        self._log = Log(log_id, partitions, log_ends)
        self._partitions = partitions
        self._messages = messages
        self._flushes = flushes
        self._candidates = candidates
        self._backoff = backoff
        self._now = now
        self._monotonic = monotonic
        self._detect = detect
        self._suspicious_pause = suspicious_pause
        self._swept = monotonic()
        self._closing_from = -math.inf
        self._intake = Intake(source, self.ledger, _MAX_UNSENT)
        self._rebuilds: dict[bytes, Rebuild] = {}
        self._left_out: dict[bytes, list[int]] = {}
        self._outbox = Outbox(
            table=table,
            sender=sender,
            dead_letters=dead_letters,
            ledger=self.ledger,
            backoff=backoff,
            on_emit=on_emit,
            on_change=self._changed,
        )

    @property
    def running(self) -> int:
        """Batches that are closed and not yet sent, and records that enter no window and are being passed on."""
        return len(self._outbox) + self._passing

    async def consume(self, stream: EventStream) -> None:
        """Take messages from a stream for as long as it lasts: the body of the agent.

        What this release cannot deal with ends the process: nothing is acknowledged past it, and going on without it
        would leave its partition uncommitted for ever.
        """
        async for event in stream:
            try:
                await self.take(event)
            except Exception as error:
                place = event.message
                logger.exception("window: error on %s[%d]@%d", place.topic, place.partition, place.offset)
                self._source.crash(error)

    async def take(self, event: Event) -> None:
        """Take one record of the chat topic."""
        if not await self._intake.admit(event):
            return
        entry = self.ledger.open(event)
        partition, offset = event.message.partition, event.message.offset
        self.read_up_to[partition] = offset + 1
        await self._take(entry)
        if not self._intake.draining:
            # Also after a record that enters no window: it cannot be acknowledged before those in the oldest one.
            self._emit_all(self.windows.beyond_horizon(partition, offset, lambda first: first.offset))

    async def _take(self, entry: Entry) -> None:
        event = entry.event
        try:
            message = decode_message(event.message.value)
        except InvalidRecord as error:
            await self._park(entry, RecordFailed("invalid_record", str(error)))
            return
        key = message.key
        if partition_for(key, self._partitions) != event.message.partition:
            await self._move(entry, key)
            return
        try:
            origin = await self._origin(entry)
        except _Abandoned:
            return
        if message.type != "message" and self._is_second_copy(key, event, origin):
            self._suppress(entry)
            return
        if message.type == "flush":
            self._emit_all(self.windows.close(key, "flush"))
            self.ledger.close(entry)
            return
        if message.type == "forget":
            if self._was_forgotten(key, event, origin):
                self._suppress(entry)
                return
            try:
                ends = await self._look_up(entry, self._log.ends)
            except _Abandoned:
                return
            self._forget_user(key, entry, message, origin, ends)
            return
        emitted = self._emitted(key, event.message.partition)
        if emitted is not None and event.message.offset <= emitted.last_offset:
            if await self._exists(entry, emitted):
                self._replay(key, emitted, entry, message)
            return
        if self._is_second_copy(key, event, origin) or self._was_forgotten(key, event, origin):
            self._left_out.setdefault(key, []).append(event.message.offset)
            self._suppress(entry)
            return
        held = hold(entry, message, self._log_id, origin)
        self._read_signals(key, held, message)
        closed = self.windows.add(
            key,
            held,
            tokens=held.tokens,
            session=message.session_id,
            now=self._monotonic(),
            partition=event.message.partition,
        )
        self._emit_all(closed)

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

    async def _origin(self, entry: Entry) -> Origin | None:
        """Return where a record was moved from, if it was."""
        message = entry.event.message
        claimed = origin_of(header_items(message.headers)) if message.headers else None
        if claimed is None:
            return None
        return await self._look_up(entry, lambda: self._log.verified(claimed, message.partition))

    async def _exists(self, entry: Entry, emitted: EmittedBatch) -> bool:
        """Return whether a record goes on in the log that the batch is of, and not in one that took its name."""
        place = (emitted.partition, emitted.last_offset)
        if self._log.is_known(*place):
            return True
        try:
            if not await self._look_up(entry, lambda: self._log.holds(*place)):
                raise LogReplaced(*place)
        except _Abandoned:
            return False
        return True

    async def _look_up(self, entry: Entry, ask: Callable[[], Awaitable[Found]]) -> Found:
        """Ask the broker something that a record depends on, for as long as it takes.

        Raises:
            _Abandoned: when the record's assignment has ended meanwhile.
        """
        found: list[Found] = []

        async def answered() -> None:
            found.append(await ask())

        self._passing += 1
        try:
            await self._insist(answered)
        finally:
            self._passing -= 1
            self._forget_windows_when_drained()
        if entry.epoch != self.ledger.epoch:
            raise _Abandoned
        return found[0]

    def _is_second_copy(self, key: bytes, event: Event, origin: Origin | None) -> bool:
        if origin is None:
            return False
        windowed = (item.origin for item in self.windows.items_of(key))
        return is_second_copy(origin, event.message, self._log_id, self._outbox.state(key), windowed)

    def _was_forgotten(self, key: bytes, event: Event, origin: Origin | None) -> bool:
        message = event.message
        if not message.headers:
            return False  # it took no detour
        return was_forgotten(message.headers, origin, moment(written_at(message)), self._outbox.state(key))

    def _suppress(self, entry: Entry) -> None:
        DUPLICATES.labels("window").inc()
        self.ledger.close(entry)

    def _emitted(self, key: bytes, partition: int) -> EmittedBatch | None:
        state = self._outbox.state(key)
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
        if offset in emitted.left_out:
            self.ledger.close(entry)
            return
        rebuild.items.append(hold(entry, message, self._log_id))
        if offset == emitted.last_offset:
            del self._rebuilds[key]
            entries = [item.entry for item in rebuild.items]
            self._send_batch(key, window_batch(key, rebuild.items, emitted), None, entries)

    def _read_signals(self, key: bytes, held: Held, message: ChatMessage) -> None:
        """Send a user's message with a signal on its way, with the turns before it; it goes into its window as well."""
        if self._detect is None or (message.role or "user") != "user":
            return
        signals = self._detect(message.content)
        if not signals:
            self.spared += 1
            return
        self.signalled += 1
        held.signalled = True
        state = self._outbox.state(key) or WindowState()
        open_items = self.windows.items_of(key)
        batch = signal_batch(
            key,
            held,
            signals,
            turns=last_turns(chain((item.decoded() for item in reversed(open_items)), reversed(state.turns))),
            after=last_signalled(open_items, state.signalled),
            log_id=self._log_id,
            published=moment(held.entry.event.message.timestamp),
        )
        self._send_batch(key, batch, None, [held.entry], closes=False)

    def _forget_user(
        self, key: bytes, entry: Entry, message: ChatMessage, origin: Origin | None, ends: Sequence[int]
    ) -> None:
        """Drop the user's window and have the merge forget the rest.

        What was sent before is dropped by the merge when it arrives; what lies before in the log is not windowed again.
        """
        dropped = [item for closed in self.windows.close(key, "forget") for item in closed.items]
        self._left_out.pop(key, None)
        held = hold(entry, message, self._log_id, origin)
        place = entry.event.message
        here = Origin(self._log_id, place.partition, place.offset)
        before = self._outbox.state(key) or WindowState()
        forgotten = before.forgotten
        if forgotten is None or not is_at(forgotten, here):
            # A clock that runs ahead must not have what is said from now on forgotten.
            asked_at = min(moment(written_at(place)), self._now())
            forgotten = forgotten_by(origin or here, asked_at, here, ends, forgotten)
        ref = forget_ref(key, held, self._log_id, forgotten.asked[(origin or here).place].at)
        state: WindowState | None = WindowState(
            lanes={_LANE: emitted_of(ref)},
            moved=merged(before.moved, (item.origin for item in [*dropped, held])),
            forgotten=forgotten,
        )
        emitted = self._emitted(key, ref.partition)
        if emitted is not None and ref.last_offset <= emitted.last_offset:
            state = None  # read again; what is remembered is of this forgetting or of later
        value = encode(forget_answer(ref, held.decoded().message_id))
        entries = [item.entry for item in [*dropped, held]]
        self._outbox.put(key, Emission(ref, self._candidates, value, state, entries))

    def _emit_all(self, windows: list[Closed[Held]]) -> None:
        for closed in windows:
            closed_at = self._now()
            first, last = closed.items[0], closed.items[-1]
            emitted = EmittedBatch(
                log_id=self._log_id,
                partition=first.entry.event.message.partition,
                first_offset=first.offset,
                last_offset=last.offset,
                trigger=closed.trigger,
                opened_at=closed_at - timedelta(seconds=max(0.0, self._monotonic() - closed.opened)),
                closed_at=closed_at,
                left_out=tuple(
                    offset for offset in self._left_out.pop(closed.key, ()) if first.offset < offset < last.offset
                ),
            )
            batch = window_batch(closed.key, closed.items, emitted)
            before = self._outbox.state(closed.key) or WindowState()
            newest_first = chain(reversed(batch.messages), reversed(before.turns))
            state = WindowState(
                signalled=last_signalled(closed.items, before.signalled),
                lanes={_LANE: emitted},
                moved=merged(before.moved, (item.origin for item in closed.items)),
                turns=() if self._detect is None else last_turns(newest_first),
                forgotten=before.forgotten,
            )
            self._send_batch(closed.key, batch, state, [item.entry for item in closed.items])

    def _send_batch(
        self, key: bytes, batch: FlushBatch, state: WindowState | None, entries: list[Entry], *, closes: bool = True
    ) -> None:
        self._outbox.put(key, Emission(batch.ref, self._flushes, encode(batch), state, entries, closes))

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
        origin = Origin(self._log_id, message.partition, message.offset)
        moved = Outgoing(
            topic=self._messages,
            key=key,
            value=message.value,
            partition=partition_for(key, self._partitions),
            headers=[*header_items(message.headers), origin.header()],
            timestamp=message.timestamp,
        )

        async def send() -> None:
            try:
                await self._sender.send(moved)
            except RecordFailed as error:
                # With the header that it gets it is larger than the topic takes.
                await self._dead_letters.park(entry.event, "window", error)
                return
            fail_point("move.after_send")
            self.moved += 1
            logger.info("moved %s[%d]@%d to its user's partition", message.topic, message.partition, message.offset)

        await self._finish(entry, send)

    async def _insist(self, send: Callable[[], Awaitable[None]]) -> None:
        await insist("window", send, self._backoff)

    def begin_drain(self) -> None:
        """Take nothing new, send what is closed; open windows are forgotten: their messages will be read again."""
        self._intake.close()
        self._forget_windows_when_drained()

    def _changed(self) -> None:
        self._intake.load(self.running)
        self._forget_windows_when_drained()

    def _forget_windows_when_drained(self) -> None:
        if self._intake.draining and self._outbox.idle and not self._passing:
            self._forget()

    def _forget(self) -> None:
        self.ledger.abandon()
        self.windows.clear()
        self._rebuilds.clear()
        self._left_out.clear()

    def abandon(self) -> None:
        """Cancel what is being sent and forget everything."""
        self._forget()
        self._outbox.abandon()
        self._intake.load(0)

    def resume(self) -> None:
        """Take messages again."""
        self._intake.resume()
