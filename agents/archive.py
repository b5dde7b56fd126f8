"""The archive agents: profile deltas and flush events to ClickHouse, in batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

from agents.stage_agent import decode_record
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.stages import StageName
from streams.dead_letters import DeadLetters
from streams.errors import RecordFailed
from streams.ledger import Entry
from streams.runtime import Runtime

Row = TypeVar("Row")


class Archive(Protocol):
    """Where the rows go; both writes are safe to repeat and raise `DependencyDown` when the store does not answer."""

    async def write_deltas(self, rows: Sequence[ProfileDelta]) -> None:
        """Write deltas; each counts once however often it is written."""
        ...

    async def write_events(self, rows: Sequence[FlushEvent]) -> None:
        """Write events; likewise."""
        ...


class BatchWriter(Generic[Row]):
    """Decodes a batch of records and writes it; a record that cannot be read is parked by itself.

    Args:
        stage: for the dead letters.
        record_type: type of the records.
        write: writes the decoded rows.
        dead_letters: where unreadable records go.
        on_written: told the rows that have been written.
    """

    def __init__(
        self,
        stage: StageName,
        record_type: type[Row],
        write: Callable[[Sequence[Row]], Awaitable[None]],
        dead_letters: DeadLetters,
        on_written: Callable[[Sequence[Row]], None] = lambda _rows: None,
    ) -> None:
        self._stage: StageName = stage
        self._type = record_type
        self._write = write
        self._dead_letters = dead_letters
        self._on_written = on_written

    async def __call__(self, batch: Sequence[Entry]) -> None:
        """Write a batch."""
        rows: list[Row] = []
        for entry in batch:
            try:
                rows.append(decode_record(entry, self._type))
            except RecordFailed as failure:
                await self._dead_letters.park(entry.event, self._stage, failure)
        if rows:
            await self._write(rows)
            self._on_written(rows)


def register(
    runtime: Runtime,
    archive: Archive,
    *,
    on_deltas: Callable[[Sequence[ProfileDelta]], None] = lambda _rows: None,
    on_events: Callable[[Sequence[FlushEvent]], None] = lambda _rows: None,
) -> None:
    """Add the two archive agents to an application."""
    limits = runtime.settings.clickhouse
    deltas = BatchWriter("archive", ProfileDelta, archive.write_deltas, runtime.dead_letters, on_deltas)
    events = BatchWriter("archive", FlushEvent, archive.write_events, runtime.dead_letters, on_events)
    for name, topic, writer in (
        ("archive deltas", runtime.topics.deltas, deltas),
        ("archive events", runtime.topics.events, events),
    ):
        lane = runtime.batches(name, writer, max_records=limits.batch_rows, max_seconds=limits.batch_seconds)
        runtime.agent(name.replace(" ", "-"), topic, lane.consume)
