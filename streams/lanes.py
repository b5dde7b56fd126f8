"""`KeyedLanes`: many users at once, each user strictly in order, acknowledged in offset order.

The one primitive behind every slow stage. It takes records from a Faust stream without acknowledging them, runs
an async handler for each, retries with backoff, parks what cannot be processed, and drains on stop and rebalance.

A handler runs to its end or raises:

- `RecordDelayed`, or any unexpected exception: tried again up to `attempts` times, then given up;
- `RecordFailed`: given up at once;
- `DependencyDown`: tried again without a limit, since the record is not to blame.

Where a record must wait for another one to be processed, `ready` waits for that. It takes no handler slot, and a drain
does not wait for it: what it waits for may not be taken any more.

A record that is given up goes to `give_up` (which sends it to the dead letters and whatever else the stage owes
its successors) and is then acknowledged like any other. While a lane waits for its next try it holds no handler
slot, so other users go on; records of its own user wait behind it.

Where the log does not outlive the process, `stop_waiting` gives up, as `STOPPED`, what would have to be tried again.
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
from streams.metrics import RETRIES
from streams.records import Event, EventStream, Source

logger = logging.getLogger(__name__)

Handler = Callable[[Entry], Awaitable[None]]
GiveUp = Callable[[Entry, RecordFailed, int], Awaitable[None]]
"""Gets the record, why it failed and how often it was tried."""

Ready = Callable[[Entry], Awaitable[None]]
"""Returns when a record may be processed."""

Concerns = Callable[[Event], bool]
"""Whether there is anything to do with a record; without it, there always may be."""

UNEXPECTED: Final = "internal_error"
"""Reason of a record that was given up because its handler raised something it should not."""

STOPPED: Final = "stopped"
"""Reason of a record that was given up because the worker was stopped while it waited."""

_LAST_TRY: Final = 2.0
"""Seconds that a handler has once nothing waits any more: plenty for one that asks no service."""


class KeyedLanes:
    """Bounded concurrency across keys, strict order within a key.

    Args:
        name: for log lines.
        source: the application that the records come from.
        handler: processes one record.
        give_up: deals with a record that cannot be processed; tried again until it succeeds.
        ready: waits until a record may be processed; without it each may at once.
        concerns: says of a record that it is another stage's: it then goes through no lane.
        concurrency: handlers that run at once.
        max_open: records taken and not acknowledged, held ones not counted; beyond it the stream is not read,
            which makes Faust pause the partition: backpressure, never loss.
        attempts: tries before a record is given up.
        backoff: waits between tries.
        on_forget: called when open records are forgotten, to drop what was kept about held ones.

    Attributes:
        ended: records that were processed or given up so far.
        stopped: those given up because of `stop_waiting`.
    """

    def __init__(
        self,
        name: str,
        source: Source,
        *,
        handler: Handler,
        give_up: GiveUp,
        ready: Ready | None = None,
        concerns: Concerns | None = None,
        concurrency: int = 64,
        max_open: int = 1000,
        attempts: int = 5,
        backoff: Backoff = Backoff(),  # noqa: B008 - frozen
        on_forget: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.ledger = Ledger(contiguous=True)
        self._handler = handler
        self._give_up = give_up
        self._ready = ready
        self._concerns = concerns
        self._slots = asyncio.Semaphore(concurrency)
        self._attempts = attempts
        self._backoff = backoff
        self._on_forget = on_forget
        self._queues: dict[bytes | None, deque[Entry]] = {}
        self._tasks: dict[bytes | None, asyncio.Task[None]] = {}
        self._waiting: set[Entry] = set()
        self._active = 0
        self._intake = Intake(source, self.ledger, max_open)
        self._stopping = False
        self._limits: set[asyncio.Timeout] = set()
        self.ended = 0
        self.stopped = 0

    @property
    def running(self) -> int:
        """Records taken whose handler has not ended; held ones not counted."""
        return self._active

    async def consume(self, stream: EventStream) -> None:
        """Take records from a stream for as long as it lasts: the body of an agent."""
        async for event in stream:
            await self.submit(event)

    async def submit(self, event: Event) -> None:
        """Take one record; returns once it is queued, which may be when others are done.

        A record of an assignment that has meanwhile ended is forgotten: its next owner reads it again.
        """
        if not await self._intake.admit(event):
            return
        entry = self.ledger.open(event)
        if self._concerns is not None and not self._concerns(event):
            self.ended += 1
            self.ledger.close(entry)
            return
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
            self.ended += 1
            self._count(-1)
            if not entry.held:
                self.ledger.close(entry)
        del self._queues[key], self._tasks[key]
        self._forget_waiting_when_drained()

    async def _process(self, entry: Entry) -> None:
        attempts = outages = 0
        problem: Exception | None = None
        while True:
            try:
                if self._ready is not None:
                    await self._wait_until_ready(entry, self._ready)
                async with self._slots:
                    await self._try(entry, problem)
            except DependencyDown as error:
                outages += 1
                RETRIES.labels(self.name, "service").inc()
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
                RETRIES.labels(self.name, "record").inc()
                delay = self._backoff.delay(attempts, failure.retry_after)
            else:
                return
            problem = failure
            if not self._stopping:
                logger.warning("%s: %s; trying again in %.1f s", self.name, failure, delay)
                await self._within_limit(asyncio.sleep(delay))
            if self._stopping:
                detail = f"the worker was stopped while it waited: {failure}"
                await self._park(entry, RecordFailed(STOPPED, detail), attempts + outages)
                self.stopped += 1
                return

    async def _try(self, entry: Entry, problem: Exception | None) -> None:
        if not await self._within_limit(self._handler(entry)):
            raise DependencyDown(str(problem or "no service had answered by then"))

    async def _within_limit(self, work: Awaitable[None]) -> bool:
        """Wait for something, and return whether it ended before nothing was to be waited for any more."""
        limit = asyncio.timeout(_LAST_TRY if self._stopping else None)
        try:
            async with limit:
                self._limits.add(limit)
                await work
        except TimeoutError:
            if not limit.expired():
                raise
            return False
        finally:
            self._limits.discard(limit)
        return True

    async def _wait_until_ready(self, entry: Entry, ready: Ready) -> None:
        self._waiting.add(entry)
        # Not now: what is ready at once does not wait.
        asyncio.get_running_loop().call_soon(self._forget_waiting_when_drained)
        try:
            await ready(entry)
        finally:
            self._waiting.discard(entry)

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

    def stop_waiting(self) -> None:
        """Give up, for good, what waits to be tried again or for a service, and from now on what would have to."""
        if self._stopping:
            return
        self._stopping = True
        now = asyncio.get_running_loop().time()
        for limit in self._limits:
            limit.reschedule(now)

    def begin_drain(self) -> None:
        """Take nothing new and finish what is queued; records that wait are forgotten once nothing else runs."""
        self._intake.close()
        self._forget_waiting_when_drained()

    def _forget_waiting_when_drained(self) -> None:
        # The record that a held or waiting one waits for can no longer arrive: that would only delay the stop.
        if self._intake.draining and len(self._waiting) == len(self._tasks):
            self.abandon()

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
