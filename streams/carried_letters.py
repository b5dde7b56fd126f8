"""`carried_letters`: dead letters, and what was decided about them, outlive the embedded broker, which keeps nothing.

A file of the data directory holds them from one start to the next. There they are written to the new broker's topic,
and each says which log its record was on: so its id stays, and with it the decisions about it. While the broker runs
the file follows the topic, a moment later, also where letters go because their user is forgotten.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from schemas.codec import InvalidRecord
from schemas.dead_letters import LOG_ID_HEADER, Resolution
from streams.dead_letter_store import DeadLetterStore
from streams.embedded.child import ServiceFailed
from streams.forgotten_letters import Forgotten, came_before, headings
from streams.kafka import KafkaUnavailable, producer, unavailable
from streams.letters import Letter, Stored, read_content, read_entry
from streams.settings import KafkaSettings
from streams.spans import following
from streams.tail import tail
from streams.topics import Topics, TopicsError, ensure_topics

FILE_NAME: Final = "dead-letters.jsonl"

_SETTLE: Final = 1.0
"""Seconds after which what is parked or decided is in the file, at the earliest: more may be on its way."""

_SHARE: Final = 0.1
"""Of the time, how much may go into writing the file, where there are many letters."""

_PAUSE: Final = 5.0
"""Seconds between two tries where the broker or the disk does not take part."""

logger = logging.getLogger(__name__)


class _Kept(msgspec.Struct, kw_only=True):
    """A record of the topic, a line of the file; bytes are in base64.

    Attributes:
        log_id: name of the log that a letter's record was on.
        partition: likewise, and where the record lay.
        offset: where it lay.
        timestamp: of the record, in milliseconds since the epoch.
        key: like the other two as it was.
        value: likewise.
        headers: likewise.
    """

    log_id: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


@dataclass(slots=True)
class Carried:
    """What `carried_letters` has done.

    Attributes:
        open: open letters that the file holds, once the block was left.
    """

    open: int = 0


@asynccontextmanager
async def carried_letters(data_dir: Path, kafka: KafkaSettings, forgotten: Forgotten) -> AsyncIterator[Carried]:
    """Put the letters of the last run on the topic, and keep those that there are until the end of the block.

    A block that ends with an exception keeps its letters too, as far as the broker still answers.

    Args:
        data_dir: where the file is.
        kafka: a broker that holds nothing yet.
        forgotten: says whose letters are not to come back.

    Raises:
        ServiceFailed: when the file cannot be read, or written at the end.
        KafkaUnavailable: when the broker does not answer.
        TopicsError: when its topics are not as they must be.
    """
    file = data_dir / FILE_NAME
    await _put_back(file, kafka, forgotten)
    carried = Carried()
    following_topic = asyncio.create_task(_keep_up(file, kafka))
    try:
        try:
            yield carried
        finally:
            following_topic.cancel()
            await asyncio.gather(following_topic, return_exceptions=True)
    except BaseException:
        try:
            carried.open = await _keep(file, kafka)
        except (KafkaUnavailable, ServiceFailed) as error:
            logger.error("%s", error)
        raise
    carried.open = await _keep(file, kafka)


async def _put_back(file: Path, kafka: KafkaSettings, forgotten: Forgotten) -> None:
    kept = await asyncio.to_thread(_read, file)
    if not kept:
        return
    partitions = await ensure_topics(kafka)
    topics = Topics.of(kafka)
    gone = await _of_forgotten_users(kept, topics, forgotten)
    try:
        async with producer(kafka) as client:
            for record in kept:
                entry = _entry(record)
                if entry is None or entry.letter_id in gone:
                    continue
                headers = record.headers
                if isinstance(entry, Letter) and entry.why.log_id is None:
                    headers = [*headers, (LOG_ID_HEADER, record.log_id.encode())]
                await client.send_and_wait(
                    topics.dead_letters,
                    value=record.value,
                    key=record.key,
                    partition=record.partition % partitions,
                    timestamp_ms=record.timestamp,
                    headers=headers,
                )
    except KafkaError as error:
        raise unavailable(kafka, error) from error


async def _of_forgotten_users(kept: Iterable[_Kept], topics: Topics, forgotten: Forgotten) -> set[str]:
    """Return the ids of letters whose users were forgotten since: their `up` did not come to an orderly stop."""
    letters = [(entry, record) for record in kept if isinstance(entry := _entry(record), Letter)]
    ends = await headings(forgotten, (letter for letter, _ in letters))
    return {
        letter.letter_id
        for letter, record in letters
        if letter.user in ends
        and came_before(letter, read_content(record), ends[letter.user], record.log_id, topics.messages)
    }


async def _keep_up(file: Path, kafka: KafkaSettings) -> None:
    """Keep what there is whenever something was parked or decided, for ever."""
    while True:
        try:
            await _keep_as_it_comes(file, kafka)
        except (KafkaUnavailable, KafkaError, ServiceFailed, TopicsError) as error:
            logger.warning("%s; trying again", error)
            await asyncio.sleep(_PAUSE)


async def _keep_as_it_comes(file: Path, kafka: KafkaSettings) -> None:
    topic = Topics.of(kafka).dead_letters
    places = [TopicPartition(topic, number) for number in range(await ensure_topics(kafka))]
    records: Any
    async with following(kafka, places) as records:
        await _keep(file, kafka)
        while True:
            await anext(records)
            await asyncio.sleep(_SETTLE)
            while await records.getmany(timeout_ms=0):
                pass
            begun = time.monotonic()
            await _keep(file, kafka)
            await asyncio.sleep((time.monotonic() - begun) / _SHARE)


async def _keep(file: Path, kafka: KafkaSettings) -> int:
    """Write the letters and decisions that stand to the file, and return how many letters are open."""
    store = await DeadLetterStore.open(kafka)
    letters = (await store.read()).all()
    gone = {letter.letter_id for letter in letters if letter.state == "forgotten"}
    kept: list[_Kept] = []
    async with aclosing(tail(kafka, store.topics.dead_letters)) as records:
        async for record in records:
            entry = _entry_of(record, store.log_id)
            # Where a message was about to be sent to is a place of the log that ends now.
            begun = isinstance(entry, Resolution) and entry.decision == "redriving"
            if entry is not None and entry.letter_id not in gone and not begun:
                kept.append(
                    _Kept(
                        log_id=store.log_id,
                        partition=record.partition,
                        offset=record.offset,
                        timestamp=record.timestamp,
                        key=record.key,
                        value=record.value,
                        headers=list(record.headers),
                    )
                )
    writing = asyncio.ensure_future(asyncio.to_thread(_write, file, kept))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.wait({writing})  # before somebody else writes what is newer
        raise
    except OSError as error:
        raise ServiceFailed(
            f"the dead letters cannot be kept in {file}: {error.strerror}; it holds those of before"
        ) from error
    return sum(letter.state == "open" for letter in letters)


def _entry(record: _Kept) -> Letter | Resolution | None:
    return _entry_of(record, record.log_id)


def _entry_of(record: Stored, log_id: str) -> Letter | Resolution | None:
    try:
        return read_entry(record, log_id)
    except InvalidRecord:
        return None


def _read(file: Path) -> list[_Kept]:
    try:
        with file.open("rb") as lines:
            return [msgspec.json.decode(line, type=_Kept) for line in lines]
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError) as error:
        raise ServiceFailed(
            f"the dead letters of the last run in {file} cannot be read ({error}): mend the file, or move it away to "
            "start without them"
        ) from error


def _write(file: Path, kept: Iterable[_Kept]) -> None:
    """Replace the file as a whole, for its user alone to read; on return it is on the disk."""
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
    try:
        with open(descriptor, "wb") as lines:
            for record in kept:
                lines.write(msgspec.json.encode(record) + b"\n")
            lines.flush()
            os.fsync(lines.fileno())
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
