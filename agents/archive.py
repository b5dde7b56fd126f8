"""The archive agents: profile deltas, flush events and dead letters to ClickHouse, in batches."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from agents.stage_agent import decode_record
from schemas.codec import InvalidRecord
from schemas.dead_letters import ArchivedDecision, ArchivedLetter
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.places import Place
from schemas.stages import StageName
from streams.batches import WriteBatch
from streams.dead_letters import DeadLetters
from streams.errors import RecordFailed
from streams.ledger import Entry
from streams.letters import Letter, read_entry
from streams.records import header_items
from streams.runtime import Runtime

logger = logging.getLogger(__name__)

Row = TypeVar("Row")


class Archive(Protocol):
    """Where the rows go; both writes are safe to repeat and raise `DependencyDown` when the store does not answer."""

    async def write_deltas(self, rows: Sequence[ProfileDelta], places: Sequence[Place]) -> None:
        """Write deltas, and where each lies; each counts once however often it is written."""
        ...

    async def write_events(self, rows: Sequence[FlushEvent], places: Sequence[Place]) -> None:
        """Write events; likewise."""
        ...

    async def write_letters(self, rows: Sequence[ArchivedLetter]) -> None:
        """Write dead letters; likewise."""
        ...

    async def write_decisions(self, rows: Sequence[ArchivedDecision]) -> None:
        """Write what was decided about them; likewise."""
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
        write: Callable[[Sequence[Row], Sequence[Place]], Awaitable[None]],
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
        places: list[Place] = []
        for entry in batch:
            try:
                rows.append(decode_record(entry, self._type))
                places.append(_place(entry))
            except RecordFailed as failure:
                await self._dead_letters.park(entry.event, self._stage, failure)
        if rows:
            await self._write(rows, places)
            self._on_written(rows)


class LetterWriter:
    """Reads a batch of the dead-letter topic and writes what it says, without the records in it.

    What is neither letter nor decision stays where it is, and is left out: `profilestream deadletters` names it.

    Args:
        log_id: name of the message log.
        archive: where the rows go.
    """

    def __init__(self, log_id: str, archive: Archive) -> None:
        self._log_id = log_id
        self._archive = archive

    async def __call__(self, batch: Sequence[Entry]) -> None:
        """Write a batch."""
        letters: list[ArchivedLetter] = []
        decisions: list[ArchivedDecision] = []
        for entry in batch:
            message = entry.event.message
            headers = header_items(message.headers)
            stored = _Stored(message.partition, message.offset, message.key, message.value, headers)
            try:
                read = read_entry(stored, self._log_id)
            except InvalidRecord as error:
                logger.warning("archive: dead letter %s[%d]@%d is none: %s", *_place(entry), error)
                continue
            if isinstance(read, Letter):
                tenant_id, user_id = read.user or ("", "")
                letters.append(
                    ArchivedLetter(
                        letter_id=read.letter_id,
                        tenant_id=tenant_id,
                        user_id=user_id,
                        why=read.why,
                        place=_place(entry),
                    )
                )
            else:
                decisions.append(ArchivedDecision(resolution=read, place=_place(entry)))
        await self._archive.write_letters(letters)
        await self._archive.write_decisions(decisions)


@dataclass(slots=True)
class _Stored:
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]
    timestamp: int = 0


def _place(entry: Entry) -> Place:
    message = entry.event.message
    return Place(message.topic, message.partition, message.offset)


def register(
    runtime: Runtime,
    archive: Archive,
    log_id: str,
    *,
    on_deltas: Callable[[Sequence[ProfileDelta]], None] = lambda _rows: None,
    on_events: Callable[[Sequence[FlushEvent]], None] = lambda _rows: None,
) -> None:
    """Add the archive agents to an application."""
    limits = runtime.settings.clickhouse
    deltas = BatchWriter("archive", ProfileDelta, archive.write_deltas, runtime.dead_letters, on_deltas)
    events = BatchWriter("archive", FlushEvent, archive.write_events, runtime.dead_letters, on_events)
    writers: tuple[tuple[str, str, WriteBatch], ...] = (
        ("archive deltas", runtime.topics.deltas, deltas),
        ("archive events", runtime.topics.events, events),
        ("archive letters", runtime.topics.dead_letters, LetterWriter(log_id, archive)),
    )
    for name, topic, writer in writers:
        lane = runtime.batches(
            name,
            writer,
            max_records=limits.batch_rows,
            max_seconds=limits.batch_seconds,
            contiguous=topic != runtime.topics.dead_letters,  # those of a user who is forgotten are deleted
        )
        runtime.agent(name.replace(" ", "-"), topic, lane.consume)
