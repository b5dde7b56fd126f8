"""`BatchLane`: records of all users in batches, written in order and acknowledged when the write has returned.

The primitive behind the sinks. A batch is written again, unchanged, until the store takes it: a store that is
down delays its own sink and loses nothing, and since the stream is not read meanwhile, memory stays bounded.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence

from streams.backoff import Backoff
from streams.errors import DependencyDown, RecordFailed
from streams.insist import insist
from streams.intake import Intake
from streams.ledger import Entry, Ledger
from streams.records import Event, EventStream, Source

WriteBatch = Callable[[Sequence[Entry]], Awaitable[None]]
"""Writes a batch, as a whole or not at all as far as its caller can see: it must be safe to repeat.

It deals with records that it cannot read by itself, and raises `DependencyDown` when the store does not answer.
"""


class BatchLane:
    """Collects records and writes them in batches, one batch at a time.

    Args:
        name: for log lines.
        source: the application that the records come from.
        write: writes a batch.
        max_records: records of one batch at the most; twice as many may be waiting before reading stops.
        max_seconds: how far apart the writes of batches that are not full begin; none of their records waits longer
            for others.
        gather: seconds that the first record after a pause waits for those that came with it.
        backoff: waits between tries of a batch.
        contiguous: no record of the topic is ever deleted (`streams.ledger.Ledger`).
    """

    def __init__(
        self,
        name: str,
        source: Source,
        *,
        write: WriteBatch,
        max_records: int,
        max_seconds: float,
        gather: float = 0.05,
        backoff: Backoff = Backoff(),  # noqa: B008 - frozen
        contiguous: bool = True,
    ) -> None:
        self.name = name
        self.ledger = Ledger(contiguous=contiguous)
        self._write = write
        self._max_records = max_records
        self._max_seconds = max_seconds
        self._gather = min(gather, max_seconds)
        self._began = -math.inf
        self._backoff = backoff
        self._pending: list[Entry] = []
        self._writing: Sequence[Entry] = ()
        self._task: asyncio.Task[None] | None = None
        self._full = asyncio.Event()
        self._intake = Intake(source, self.ledger, 2 * max_records)

    @property
    def running(self) -> int:
        """Records taken and not yet written."""
        return len(self._pending) + len(self._writing)

    async def consume(self, stream: EventStream) -> None:
        """Take records from a stream for as long as it lasts: the body of an agent."""
        async for event in stream:
            await self.submit(event)

    async def submit(self, event: Event) -> None:
        """Take one record; returns once it is queued, which may be when a batch has been written."""
        if not await self._intake.admit(event):
            return
        self._pending.append(self.ledger.open(event))
        if len(self._pending) >= self._max_records:
            self._full.set()
        self._intake.load(len(self._pending))
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"{self.name} batches")

    async def _run(self) -> None:
        epoch = self.ledger.epoch
        while self._pending:
            await self._fill()
            self._writing = self._pending[: self._max_records]
            del self._pending[: self._max_records]
            if len(self._pending) < self._max_records:
                self._full.clear()
            self._intake.load(len(self._pending))
            await self._write_until_taken(self._writing)
            if self.ledger.epoch != epoch:
                return
            for entry in self._writing:
                self.ledger.close(entry)
            self._writing = ()
        self._task = None

    async def _fill(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._intake.draining and not self._full.is_set():
            due = max(loop.time() + self._gather, self._began + self._max_seconds)
            try:
                async with asyncio.timeout_at(due):
                    await self._full.wait()
            except TimeoutError:
                pass
        self._began = loop.time()

    async def _write_until_taken(self, batch: Sequence[Entry]) -> None:
        async def write() -> None:
            try:
                await self._write(batch)
            except DependencyDown as error:
                raise DependencyDown(f"{error} ({len(batch)} records wait)", error.retry_after) from error
            except RecordFailed as error:
                raise DependencyDown(f"{error} ({len(batch)} records wait)") from error

        await insist(self.name, write, self._backoff)

    def begin_drain(self) -> None:
        """Take nothing new and write what was taken, without waiting for full batches."""
        self._intake.close()
        self._full.set()

    def abandon(self) -> None:
        """Cancel the write and forget every record."""
        self.ledger.abandon()
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._pending.clear()
        self._writing = ()
        self._full.clear()
        self._intake.load(0)

    def resume(self) -> None:
        """Take records again."""
        self._full.clear()
        self._intake.resume()
