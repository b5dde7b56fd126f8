"""`park_late`: what was published while a broker that keeps nothing was being stopped becomes dead letters.

Its worker has closed the windows by then and reads no more, and the broker takes messages to its end. Dead letters
outlive it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from streams.dead_letters import DeadLetters
from streams.errors import RecordFailed
from streams.kafka import consumer, producer, unavailable
from streams.lanes import STOPPED
from streams.records import Message
from streams.sender import Outgoing, delivered
from streams.settings import KafkaSettings
from streams.spans import span
from streams.topics import Topics

_FAILURE: Final = RecordFailed(STOPPED, "it was published while the broker was being stopped")


@dataclass(slots=True)
class _Message:
    """A record, with its timestamp in seconds as `streams.records.Message` has it."""

    topic: str
    partition: int
    offset: int
    timestamp: float
    key: bytes | None
    value: bytes | None
    headers: Any
    generation_id: int = 0


@dataclass(slots=True)
class _Event:
    message: Message

    def ack(self) -> bool:
        """Acknowledge nothing: no consumer group has read it."""
        return False


class _Direct:
    """Sends with a producer that is no part of an application."""

    def __init__(self, client: AIOKafkaProducer) -> None:
        self._client = client

    async def send(self, record: Outgoing) -> None:
        """Send a record; see `streams.sender.Sender.send`."""
        timestamp = None if record.timestamp is None else round(record.timestamp * 1000)
        await delivered(
            lambda: self._client.send_and_wait(
                record.topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                timestamp_ms=timestamp,
                headers=list(record.headers),
            ),
            record.topic,
        )


async def park_late(kafka: KafkaSettings, read_up_to: Mapping[int, int], now: Callable[[], datetime]) -> int:
    """Park what lies on the chat topic behind these offsets, and return how much that was.

    Args:
        kafka: where the broker is.
        read_up_to: for each partition the offset after the last record that was taken; 0 where it is missing.
        now: the wall clock.

    Raises:
        KafkaUnavailable: when the broker does not answer.
        DependencyDown: when it does not take the letters.
    """
    names = Topics.of(kafka)
    parked = 0
    try:
        async with producer(kafka) as client:
            letters = DeadLetters(_Direct(client), names.dead_letters, now)
            places = [TopicPartition(names.messages, number) for number in await client.partitions_for(names.messages)]
            for place in await _unread(kafka, places, read_up_to):
                async with span(kafka, place) as left:
                    async for record in left.records(read_up_to.get(place.partition, 0)):
                        await letters.park(_Event(_of(record)), "window", _FAILURE)
                        parked += 1
    except KafkaError as error:
        raise unavailable(kafka, error) from error
    return parked


async def _unread(
    kafka: KafkaSettings, places: Sequence[TopicPartition], read_up_to: Mapping[int, int]
) -> list[TopicPartition]:
    async with consumer(kafka) as client:
        ends = await client.end_offsets(places)
    return [place for place in places if ends[place] > read_up_to.get(place.partition, 0)]


def _of(record: Any) -> _Message:
    return _Message(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp / 1000,
        key=record.key,
        value=record.value,
        headers=record.headers,
    )
