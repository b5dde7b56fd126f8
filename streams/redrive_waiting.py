"""`RedriveWait`: what becomes of records that were sent again.

A flush ends with an event. A chat message has none of its own: it is taken once it is in a batch, for which its user's
window is closed, or once the worker has acknowledged it; one that still cannot be read is parked again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from schemas.codec import InvalidRecord, decode
from schemas.deltas import FlushEvent
from schemas.flushes import FlushBatch
from schemas.ids import message_id
from schemas.places import Place
from streams.control import control_message, send_with
from streams.dead_letter_store import DeadLetterStore
from streams.kafka import consumer, unavailable
from streams.letters import Letter, read_entry
from streams.partitioning import partition_for
from streams.redriving import Redriven, SentMessage
from streams.spans import following

_LOOK_EVERY: Final = 0.5
"""Seconds after which it is asked again how far the workers have come."""


class RedriveWait:
    """Waits for the ends of what is sent again; open it before that, with `open`.

    Attributes:
        events: ends of flushes, by the ids of the events.
        parked: chat messages that could not be read this time either, by where they lie, with the reason.
        taken: chat messages that could.
    """

    def __init__(self, store: DeadLetterStore, records: Any, workers: AIOKafkaConsumer, partitions: int) -> None:
        self.events: dict[str, FlushEvent] = {}
        self.parked: dict[Place, str] = {}
        self.taken: set[Place] = set()
        self._store = store
        self._records = records
        self._workers = workers
        self._partitions = partitions
        self._flushes: set[str] = set()
        self._messages: dict[Place, SentMessage] = {}
        self._ends: dict[Place, dict[TopicPartition, int]] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, store: DeadLetterStore, letters: Sequence[Letter], partitions: int) -> AsyncIterator[Self]:
        """Begin to listen, also to what came of an earlier run.

        Args:
            store: the dead letters.
            letters: some of which will be sent again; one at least.
            partitions: number of partitions of every topic.

        Raises:
            KafkaUnavailable: when the broker does not answer.
        """
        topics = store.topics
        places = [
            TopicPartition(topic, number)
            for topic in (topics.events, topics.flushes, topics.dead_letters)
            for number in range(partitions)
        ]
        since = min(letter.why.failed_at for letter in letters)
        async with AsyncExitStack() as stack:
            records = await stack.enter_async_context(following(store.kafka, places, since))
            workers = await stack.enter_async_context(consumer(store.kafka, group_id=store.kafka.group_id))
            workers.assign([TopicPartition(topics.messages, number) for number in range(partitions)])
            yield cls(store, records, workers, partitions)

    async def until_ended(self, sent: Iterable[Redriven], client: AIOKafkaProducer, seconds: float) -> bool:
        """Wait until all that was sent has ended, and return whether it has.

        Args:
            sent: what was.
            client: a started producer: it asks for the windows of chat messages to be closed.
            seconds: how long to wait at most.

        Raises:
            KafkaUnavailable: when the broker does not answer.
        """
        deadline = time.monotonic() + seconds
        for redriven in sent:
            if redriven.ends is not None:
                self._flushes.add(redriven.ends)
            if redriven.message is not None:
                self._messages[redriven.message.place] = redriven.message
        await self._close_windows(client)
        look_at = 0.0
        while not self._complete and (left := deadline - time.monotonic()) > 0:
            if time.monotonic() >= look_at:
                await self._look()
                look_at = time.monotonic() + _LOOK_EVERY
            try:
                async with asyncio.timeout(min(left, _LOOK_EVERY)):
                    self._take(await anext(self._records))
            except TimeoutError:
                pass
        return self._complete

    @property
    def _waiting(self) -> list[SentMessage]:
        return [sent for place, sent in self._messages.items() if place not in self.parked and place not in self.taken]

    @property
    def _complete(self) -> bool:
        return not self._waiting and self._flushes <= self.events.keys()

    async def _close_windows(self, client: AIOKafkaProducer) -> None:
        messages = [sent.message for sent in self._messages.values() if sent.message is not None]
        for tenant_id, user_id in {(message.tenant_id, message.user_id) for message in messages}:
            request = control_message("flush", tenant_id, user_id)
            await send_with(client, self._store.kafka, request, partition_for(request.key, self._partitions))

    async def _look(self) -> None:
        """Find the messages that the workers have acknowledged; what they sent because of them is on the topics."""
        topics = self._store.topics
        try:
            for sent in self._waiting:
                place = TopicPartition(topics.messages, sent.place.partition)
                if sent.place not in self._ends and (await self._workers.committed(place) or 0) > sent.place.offset:
                    outputs = [TopicPartition(topics.dead_letters, place.partition)]
                    self._ends[sent.place] = await self._records.end_offsets(outputs)
                ends = self._ends.get(sent.place)
                if ends and all([await self._records.position(output) >= end for output, end in ends.items()]):
                    self.taken.add(sent.place)
        except KafkaError as error:
            raise unavailable(self._store.kafka, error) from error

    def _take(self, record: Any) -> None:
        topics = self._store.topics
        try:
            if record.topic == topics.events:
                event = decode(record.value, FlushEvent)
                if event.event_id in self._flushes:
                    self.events[event.event_id] = event
            elif record.topic == topics.flushes:
                self._take_batch(decode(record.value, FlushBatch))
            else:
                self._take_letter(record)
        except InvalidRecord:
            return  # of another release

    def _take_batch(self, batch: FlushBatch) -> None:
        if batch.ref.lane != "memo":
            return  # a message that is read at once is in a window as well
        held = {message.message_id for message in batch.messages}
        user = (batch.ref.tenant_id, batch.ref.user_id)
        for place, (_, message) in self._messages.items():
            if message is None or (message.tenant_id, message.user_id) != user:
                continue
            if (message.message_id or message_id(self._store.log_id, place.partition, place.offset)) in held:
                self.taken.add(place)

    def _take_letter(self, record: Any) -> None:
        entry = read_entry(record, self._store.log_id)
        if isinstance(entry, Letter) and entry.why.stage == "window" and entry.why.log_id is None:
            place = Place(entry.why.topic, entry.why.partition, entry.why.offset)
            if place in self._messages:
                self.parked[place] = f"{entry.why.reason}: {entry.why.detail}"
