"""Waiting for a worker: how many there are, and what becomes of the messages that a flush stands behind.

The window agent sends nothing for a flush that closes no window. So what was open is found from the other side: of the
user's messages before the flush, those that the workers have not acknowledged are in a window, or in a batch that is
on its way. Each is found again in a batch on the flush topic, or in a dead letter.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from schemas.codec import InvalidRecord, decode
from schemas.dead_letters import DeadLetterReason
from schemas.deltas import FlushEvent
from schemas.flushes import FlushBatch, FlushRef
from schemas.messages import ChatMessage, decode_message
from schemas.places import Place
from streams.kafka import MEMBERS, admin, consumer, unavailable
from streams.settings import KafkaSettings
from streams.spans import following, span
from streams.topics import Topics

_LOOK_EVERY: Final = 0.5
"""Seconds without a record after which it is asked how far the workers have come."""

_CLOCKS_APART: Final = timedelta(minutes=1)
"""Between publishers, who date the messages, and workers, who date the batches."""


async def worker_count(kafka: KafkaSettings) -> int | None:
    """Return how many workers are in the consumer group, None where the broker does not say.

    One that was killed counts until its session ends (`kafka.session_timeout`).

    Raises:
        KafkaUnavailable: when the broker does not answer.
    """
    async with admin(kafka) as client:
        try:
            answers = await client.describe_consumer_groups([kafka.group_id])
        except KafkaError:
            return None
    groups = [group for answer in answers for group in answer.groups]
    if any(group[0] for group in groups):
        return None
    return sum(len(group[MEMBERS]) for group in groups)


@dataclass(slots=True)
class FlushWait:
    """What becomes of a user's messages before a flush.

    Attributes:
        flush: where the request lies.
        user: whose: tenant and user.
        waiting: offsets of the user's messages before it that were not acknowledged when it was sent.
        asked_before: offset of the request before this one, as far as it was not acknowledged either; otherwise -1.
        since: before any of their batches was sent.
        batches: headings of the batches that hold them, by flush id.
        events: ends of these, likewise.
        parked: offsets of those that the window agent could not send, with the reason.
        passed: whether the workers have acknowledged everything up to the request, and all batches are known.
    """

    flush: Place
    user: tuple[str, str]
    waiting: set[int]
    asked_before: int
    since: datetime
    batches: dict[str, FlushRef] = field(default_factory=dict)
    events: dict[str, FlushEvent] = field(default_factory=dict)
    parked: dict[int, str] = field(default_factory=dict)
    passed: bool = False

    @property
    def closed_window(self) -> bool:
        """Whether the request has closed a window: otherwise none was open, or all is not known yet."""
        return any(
            ref.lane == "memo" and ref.trigger == "flush" and ref.last_offset > self.asked_before
            for ref in self.batches.values()
        )

    @property
    def accounted(self) -> bool:
        """Whether it is known where each of the messages is."""
        left = self.waiting - self.parked.keys()
        sent = max((ref.last_offset for ref in self.batches.values() if ref.lane == "memo"), default=-1)
        return self.passed or not left or max(left) <= sent

    @property
    def complete(self) -> bool:
        """Whether all that holds them has ended."""
        return self.accounted and self.batches.keys() <= self.events.keys()

    def ended(self) -> Iterator[tuple[FlushRef, FlushEvent | None]]:
        """Give the batches, the oldest first, with their ends as far as they have come."""
        for flush_id, ref in self.batches.items():
            yield ref, self.events.get(flush_id)

    def take(self, record: Any, topics: Topics) -> None:
        """Take in a record of the flush topic, of the events or of the dead letters."""
        try:
            if record.topic == topics.flushes:
                self._take_batch(decode(record.value, FlushBatch).ref)
            elif record.topic == topics.events:
                event = decode(record.value, FlushEvent)
                if self._concerns(event.flush):
                    self.events.setdefault(event.flush.flush_id, event)
            else:
                why = DeadLetterReason.from_headers(record.headers)
                if why.topic == self.flush.topic and why.stage == "window" and why.offset in self.waiting:
                    self.parked[why.offset] = why.detail
        except (InvalidRecord, KeyError, ValueError):
            return  # of another release, or a decision about a dead letter

    def _take_batch(self, ref: FlushRef) -> None:
        if self._concerns(ref):
            self.batches.setdefault(ref.flush_id, ref)

    def _concerns(self, ref: FlushRef) -> bool:
        if (ref.tenant_id, ref.user_id) != self.user or ref.partition != self.flush.partition or ref.redrive:
            return False
        return any(ref.first_offset <= offset <= ref.last_offset for offset in self.waiting)


async def wait_for_flush(kafka: KafkaSettings, request: ChatMessage, flush: Place, seconds: float) -> FlushWait:
    """Wait until what a flush closed has ended; the result says whether all has.

    Args:
        kafka: where the broker is.
        request: the flush, which was sent.
        flush: where it lies.
        seconds: how long to wait at most. Where nothing was open that is known at once.

    Raises:
        KafkaUnavailable: when the broker does not answer.
    """
    deadline = time.monotonic() + seconds
    topics = Topics.of(kafka)
    async with _group(kafka, flush) as workers:
        wait = await _waiting_messages(kafka, request, flush, await _acknowledged(kafka, workers, flush))
        if wait.complete:
            return wait
        places = [TopicPartition(name, flush.partition) for name in (topics.flushes, topics.events)]
        places.append(TopicPartition(topics.dead_letters, flush.partition))
        async with following(kafka, places, wait.since) as records:
            end = None
            while not wait.complete and (left := deadline - time.monotonic()) > 0:
                try:
                    async with asyncio.timeout(min(left, _LOOK_EVERY)):
                        record = await anext(records)
                except TimeoutError:
                    if end is None and await _acknowledged(kafka, workers, flush) > flush.offset:
                        end = await _end(kafka, records, places[0])  # what they sent was on the topic by then
                    elif end is not None:
                        wait.passed = await records.position(places[0]) >= end
                else:
                    wait.take(record, topics)
    return wait


@asynccontextmanager
async def _group(kafka: KafkaSettings, flush: Place) -> AsyncIterator[AIOKafkaConsumer]:
    """Open a client that asks what the workers have acknowledged, without being one of them."""
    async with consumer(kafka, group_id=kafka.group_id) as client:
        client.assign([TopicPartition(flush.topic, flush.partition)])
        yield client


async def _acknowledged(kafka: KafkaSettings, workers: AIOKafkaConsumer, flush: Place) -> int:
    try:
        return await workers.committed(TopicPartition(flush.topic, flush.partition)) or 0
    except KafkaError as error:
        raise unavailable(kafka, error) from error


async def _end(kafka: KafkaSettings, client: AIOKafkaConsumer, place: TopicPartition) -> int:
    try:
        return int((await client.end_offsets([place]))[place])
    except KafkaError as error:
        raise unavailable(kafka, error) from error


async def _waiting_messages(kafka: KafkaSettings, request: ChatMessage, flush: Place, start: int) -> FlushWait:
    """Read the messages that are not acknowledged, and keep those of the user; a forget has dropped those before it."""
    found: dict[int, int] = {}
    asked_before = -1
    if start < flush.offset:
        async with span(kafka, TopicPartition(flush.topic, flush.partition), flush.offset) as before:
            async for record in before.records(start):
                try:
                    message = decode_message(record.value)
                except InvalidRecord:
                    continue
                if message.key != request.key:
                    continue
                if message.type == "message":
                    found[record.offset] = record.timestamp
                    continue
                asked_before = record.offset
                if message.type == "forget":
                    found.clear()
    now = datetime.now(UTC)
    oldest = min([now, *(datetime.fromtimestamp(max(moment, 0) / 1000, UTC) for moment in found.values())])
    return FlushWait(
        flush,
        user=(request.tenant_id, request.user_id),
        waiting=set(found),
        asked_before=asked_before,
        since=oldest - _CLOCKS_APART,
    )
