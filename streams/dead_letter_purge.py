"""`purge`: takes the dead letters of a user who is forgotten off their topic.

Kafka deletes only from the beginning of a partition. So what belongs to others is written again, behind everything
else, and then all up to the former end is deleted. A record that is parked meanwhile lies behind that end. Ended in
between, letters are there twice, and a letter that is there twice is one (`streams.letters`).

Two users may be forgotten at once, by two workers. Nothing of a third is lost then, because each deletes only what it
has seen and written again. But one could write again what the other has just removed. The other has deleted before, so
the partition begins elsewhere than it did: what is there in none but one's own copies is then taken off as well.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    PolicyViolationError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
)
from aiokafka.structs import RecordMetadata

from schemas.codec import InvalidRecord
from schemas.dead_letters import Resolution
from schemas.flushes import FlushRef
from schemas.messages import split_user_key
from streams.dead_letter_store import DeadLetterStore
from streams.forgotten_letters import came_before
from streams.kafka import KafkaUnavailable, admin, producer, unavailable
from streams.letters import Letter, Stored, read_content, read_entry
from streams.settings import KafkaSettings
from streams.spans import Span, span
from streams.topics import ensure_topics

logger = logging.getLogger(__name__)

_told: Final[set[str]] = set()
"""Topics of which it was logged that the broker deletes nothing there."""

_PATIENCE: Final = 120.0
"""Seconds after which a partition that others never leave alone is given up. It is gone through once at least."""

_PAUSE: Final = 0.5
"""Seconds, at the most, that are left to another purge of the partition to come to its end; doubled each time."""

_LONGEST_PAUSE: Final = 8.0
"""Seconds beyond which that pause does not grow."""

_What = tuple[str, str] | bytes
"""What a record is, wherever it lies: id and decision of a letter, or a hash of what is neither."""

_CANNOT: Final = (
    ClusterAuthorizationFailedError,
    IncompatibleBrokerVersion,
    PolicyViolationError,
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
)
"""Errors that mean that this client will never be let delete records."""


Removing = Callable[[Collection[str]], Awaitable[None]]
"""Is told the ids of letters that are about to be removed, also more than once."""


async def _nobody_is_told(_ids: Collection[str]) -> None:
    pass


async def purge(
    kafka: KafkaSettings, key: bytes, before: FlushRef | None = None, removing: Removing = _nobody_is_told
) -> int:
    """Remove the dead letters of a user and return how many there were.

    The letters and decisions of others stay as they are, also those that are written meanwhile. A broker that deletes
    no records, for want of the ability or of this client's permission, gets them marked as forgotten instead.

    Args:
        kafka: where the broker is.
        key: of the user.
        before: heading under which the user is forgotten: letters of what came onto the log after it stay.
        removing: told which letters go, before they do.

    Raises:
        InvalidRecord: when that is no user's key.
        KafkaUnavailable: when the broker does not answer, or others write and delete all the time; it is safe to call
            this again.
    """
    user = split_user_key(key)
    partitions = await ensure_topics(kafka)
    store = await DeadLetterStore.open(kafka)

    def is_theirs(letter: Letter, record: Stored) -> bool:
        if letter.user != user:
            return False
        return before is None or came_before(letter, read_content(record), before, store.log_id, store.topics.messages)

    removed: set[str] = set()
    for number in range(partitions):
        place = TopicPartition(store.topics.dead_letters, number)
        removed |= await _Purge(store, place, key, is_theirs, removing).run()
    return len(removed)


class _Purge:
    """The work on one partition."""

    def __init__(
        self,
        store: DeadLetterStore,
        place: TopicPartition,
        key: bytes,
        is_theirs: Callable[[Letter, Stored], bool],
        removing: Removing,
    ) -> None:
        self._store = store
        self._place = place
        self._key = key
        self._is_theirs = is_theirs
        self._removing = removing
        self._removed_by_others: set[_What] = set()

    async def run(self) -> set[str]:
        """Remove what is the user's and return the ids of the letters."""
        removed: set[str] = set()
        pause = _PAUSE
        give_up_at = time.monotonic() + _PATIENCE
        while True:
            async with span(self._store.kafka, self._place) as now:
                theirs, marked = await self._find(now)
                if not theirs and not self._removed_by_others:
                    return removed
                removed |= theirs.keys()
                await self._removing(theirs.keys())
                if not await self._may_delete(now.begin):
                    await self._mark([letter for id_, letter in theirs.items() if id_ not in marked])
                    return removed
                copies = await self._write_again(now, theirs.keys())
            alone = await self._begins_at(now.begin)
            if alone:
                await self._delete(now.end)
                self._removed_by_others.clear()
            else:
                self._removed_by_others |= await self._only_in(copies)
            if time.monotonic() >= give_up_at:
                raise KafkaUnavailable(
                    f"partition {self._place.partition} of {self._place.topic} is written and deleted from by others "
                    "all the time: try again later"
                )
            if not alone:
                await asyncio.sleep(random.uniform(0, pause))
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _find(self, now: Span) -> tuple[dict[str, Letter], set[str]]:
        """Return the user's letters by their ids, and the ids of those that are marked as forgotten."""
        theirs: dict[str, Letter] = {}
        marked: set[str] = set()
        async for record in now.records():
            entry = _read(record, self._store.log_id)
            if isinstance(entry, Letter):
                if self._is_theirs(entry, record):
                    theirs[entry.letter_id] = entry
            elif entry is not None and entry.decision == "forgotten":
                marked.add(entry.letter_id)
        return theirs, marked

    async def _write_again(self, now: Span, theirs: Collection[str]) -> dict[int, _What]:
        """Write what belongs to others once more; returns where.

        Of what is there twice, one is written.
        """
        written: dict[_What, Awaitable[RecordMetadata]] = {}
        try:
            async with producer(self._store.kafka) as client:
                async for record in now.records():
                    what = self._what(record)
                    if what not in written and self._is_to_be_kept(record, what, theirs):
                        written[what] = await _send(client, self._place, record)
                places = await asyncio.gather(*written.values())
        except KafkaError as error:
            raise unavailable(self._store.kafka, error) from error
        return {place.offset: what for place, what in zip(places, written, strict=True)}

    def _is_to_be_kept(self, record: Stored, what: _What, theirs: Collection[str]) -> bool:
        if what in self._removed_by_others:
            return False
        return record.key != self._key if isinstance(what, bytes) else what[0] not in theirs

    def _what(self, record: Stored) -> _What:
        entry = _read(record, self._store.log_id)
        if entry is None:
            return hashlib.sha256(repr((record.key, record.value, record.headers)).encode()).digest()
        return entry.letter_id, "parked" if isinstance(entry, Letter) else entry.decision

    async def _begins_at(self, offset: int) -> bool:
        async with span(self._store.kafka, self._place) as now:
            return now.begin == offset

    async def _only_in(self, copies: Mapping[int, _What]) -> set[_What]:
        """Return what is nowhere but in these copies."""
        while True:
            async with span(self._store.kafka, self._place) as now:
                elsewhere = {self._what(record) async for record in now.records() if record.offset not in copies}
            if await self._begins_at(now.begin):
                return set(copies.values()) - elsewhere

    async def _may_delete(self, begin: int) -> bool:
        """Find out by deleting what is not there, because what is written again before a refusal is there twice."""
        refusal: KafkaError | None = None
        async with admin(self._store.kafka) as client:
            for _ in range(2):
                try:
                    await client.delete_records({self._place: RecordsToDelete(begin)})
                except KafkaConnectionError as error:
                    # The embedded broker hangs up on this request and on no other.
                    refusal = error
                    await self._answers(client)
                except _CANNOT as error:
                    refusal = error
                    break
                except KafkaError as error:
                    raise unavailable(self._store.kafka, error) from error
                else:
                    return True
        if self._place.topic not in _told:
            _told.add(self._place.topic)
            # The embedded broker never does, and whoever runs it can do nothing about it.
            level = logging.INFO if self._store.kafka.single_record_batches else logging.WARNING
            said = "the broker deletes no records of %s (%s): letters of users who are forgotten are only marked"
            logger.log(level, said, self._place.topic, refusal)
        return False

    async def _answers(self, client: AIOKafkaAdminClient) -> None:
        try:
            await client.describe_cluster()
        except KafkaError as error:
            raise unavailable(self._store.kafka, error) from error

    async def _delete(self, end: int) -> None:
        async with admin(self._store.kafka) as client:
            try:
                await client.delete_records({self._place: RecordsToDelete(end)})
            except KafkaError as error:
                raise unavailable(self._store.kafka, error) from error

    async def _mark(self, letters: Iterable[Letter]) -> None:
        now = datetime.now(UTC)
        async with producer(self._store.kafka) as client:
            await self._store.resolve(
                client,
                [
                    (
                        letter,
                        Resolution(
                            letter_id=letter.letter_id,
                            decision="forgotten",
                            reason="its user is forgotten",
                            resolved_at=now,
                        ),
                    )
                    for letter in letters
                ],
            )


def _read(record: Stored, log_id: str) -> Letter | Resolution | None:
    try:
        return read_entry(record, log_id)
    except InvalidRecord:
        return None


async def _send(client: AIOKafkaProducer, place: TopicPartition, record: Stored) -> Awaitable[RecordMetadata]:
    sent: Awaitable[RecordMetadata] = await client.send(
        place.topic,
        value=record.value,
        key=record.key,
        partition=place.partition,
        timestamp_ms=record.timestamp,
        headers=list(record.headers),
    )
    return sent
