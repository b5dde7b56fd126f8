"""`KeyedLanes`: many users at once, each user strictly in order, acknowledged in offset order.

The one primitive behind every slow stage. It takes records from a Faust stream without acknowledging them, runs
an async handler for each, retries with backoff, parks what cannot be processed, and drains on stop and rebalance.

A handler runs to its end or raises:

- `RecordDelayed`, or any unexpected exception: tried again up to `attempts` times, then given up;
- `RecordFailed`: given up at once;
- `DependencyDown`: tried again without a limit, since the record is not to blame.

A record that is given up goes to `give_up` (which sends it to the dead letters and whatever else the stage owes
its successors) and is then acknowledged like any other. While a lane waits for its next try it holds no handler
slot, so other users go on; records of its own user wait behind it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from streams.backoff import Backoff
from streams.errors import DependencyDown, RecordDelayed, RecordFailed
from streams.insist import being_cancelled, insist
from streams.intake import Intake
from streams.ledger import Entry, Ledger
from streams.records import Event, EventStream, Source

logger = logging.getLogger(__name__)

Handler = Callable[[Entry], Awaitable[None]]
GiveUp = Callable[[Entry, RecordFailed, int], Awaitable[None]]
"""Gets the record, why it failed and how often it was tried."""

UNEXPECTED: Final = "internal_error"
"""Reason of a record that was given up because its handler raised something it should not."""


class KeyedLanes:
    """Bounded concurrency across keys, strict order within a key.

    Args:
        name: for log lines.
        source: the application that the records come from.
        handler: processes one record.
        give_up: deals with a record that cannot be processed; tried again until it succeeds.
        concurrency: handlers that run at once.
        max_open: records taken and not acknowledged, held ones not counted; beyond it the stream is not read,
            which makes Faust pause the partition: backpressure, never loss.
        attempts: tries before a record is given up.
        backoff: waits between tries.
        on_forget: called when open records are forgotten, to drop what was kept about held ones.
    """

    def __init__(
        self,
        name: str,
        source: Source,
        *,
        handler: Handler,
        give_up: GiveUp,
        concurrency: int = 64,
        max_open: int = 1000,
        attempts: int = 5,
        backoff: Backoff = Backoff(),  # noqa: B008 - frozen
        on_forget: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.ledger = Ledger(source, contiguous=True)
        self._handler = handler
        self._give_up = give_up
        self._slots = asyncio.Semaphore(concurrency)
        self._attempts = attempts
        self._backoff = backoff
        self._on_forget = on_forget
        self._queues: dict[bytes | None, deque[Entry]] = {}
        self._tasks: dict[bytes | None, asyncio.Task[None]] = {}
        self._active = 0
        self._intake = Intake(source, self.ledger, max_open)

    @property
    def running(self) -> int:
        """Records taken whose handler has not ended; held ones not counted."""
        return self._active

    async def consume(self, stream: EventStream) -> None:
        """Take records from a stream for as long as it lasts: the body of an agent."""
        async for event in stream.noack().events():
            await self.submit(event)

    async def submit(self, event: Event) -> None:
        """Take one record; returns once it is queued, which may be when others are done.

        A record of an assignment that has meanwhile ended is forgotten: its next owner reads it again.
        """
        if not await self._intake.admit(event):
            return
        entry = self.ledger.open(event)
        self._count(1)
        key = event.message.key
        queue = self._queues.get(key)
        if queue is None:
            self._queues[key] = deque((entry,))
            self._tasks[key] = asyncio.create_task(self._run(key), name=f"{self.name} lane")
        else:
            queue.append(entry)

    def hold(self, entry: Entry) -> None:
        """Keep a record unacknowledged after its handler ends, until `release`; called by its own handler."""
        entry.held = True

    def release(self, entry: Entry) -> None:
        """Let a held record be acknowledged."""
        self.ledger.close(entry)

    def _count(self, change: int) -> None:
        self._active += change
        self._intake.load(self._active)

    async def _run(self, key: bytes | None) -> None:
        queue = self._queues[key]
        epoch = self.ledger.epoch
        while queue:
            entry = queue[0]
            await self._process(entry)
            if self.ledger.epoch != epoch:
                return
            queue.popleft()
            self._count(-1)
            if not entry.held:
                self.ledger.close(entry)
        del self._queues[key], self._tasks[key]
        self._forget_held_when_drained()

    async def _process(self, entry: Entry) -> None:
        attempts = outages = 0
        while True:
            try:
                async with self._slots:
                    await self._handler(entry)
            except DependencyDown as error:
                outages += 1
                failure: RecordFailed | DependencyDown = error
                delay = self._backoff.delay(outages, error.retry_after)
            except (Exception, asyncio.CancelledError) as error:
                if being_cancelled(error):
                    raise
                attempts += 1
                failure = self._classify(entry, error)
                if not isinstance(failure, RecordDelayed) or attempts >= self._attempts:
                    await self._park(entry, failure, attempts)
                    return
                delay = self._backoff.delay(attempts, failure.retry_after)
            else:
                return
            logger.warning("%s: %s; trying again in %.1f s", self.name, failure, delay)
            await asyncio.sleep(delay)

    def _classify(self, entry: Entry, error: BaseException) -> RecordFailed:
        if isinstance(error, RecordFailed):
            return error
        logger.error("%s: unexpected error on %s", self.name, _place(entry), exc_info=error)
        return RecordDelayed(UNEXPECTED, f"{type(error).__name__}: {error}")

    async def _park(self, entry: Entry, failure: RecordFailed, attempts: int) -> None:
        entry.held = False

        async def give_up() -> None:
            try:
                await self._give_up(entry, failure, attempts)
            except RecordFailed as error:
                raise DependencyDown(f"{_place(entry)} cannot be given up: {error}") from error

        await insist(self.name, give_up, self._backoff)

    def begin_drain(self) -> None:
        """Take nothing new and finish what is queued; held records are forgotten once nothing runs."""
        self._intake.close()
        self._forget_held_when_drained()

    def _forget_held_when_drained(self) -> None:
        # The record that a held one waits for can no longer arrive: waiting for it would only delay the stop.
        if self._intake.draining and not self._tasks:
            self.ledger.abandon()
            self._on_forget()

    def abandon(self) -> None:
        """Cancel every handler and forget every record."""
        self.ledger.abandon()
        self._on_forget()
        for task in self._tasks.values():
            task.cancel()
        self._queues.clear()
        self._tasks.clear()
        self._count(-self._active)

    def resume(self) -> None:
        """Take records again."""
        self._intake.resume()


def _place(entry: Entry) -> str:
    message = entry.event.message
    return f"{message.topic}[{message.partition}]@{message.offset}"
