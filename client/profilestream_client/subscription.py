"""`Subscription`: an asynchronous iterator of profile deltas, and where it is."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from types import TracebackType
from typing import Any, Final, Literal, Self

from aiokafka import AIOKafkaConsumer, ConsumerStoppedError, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from aiokafka.partitioner import murmur2

from profilestream_client.closing import close_whole
from profilestream_client.connection import Connection, Topic, find_topic, start
from profilestream_client.errors import PositionLost
from profilestream_client.position import Position
from profilestream_client.records import ProfileDelta, decode_delta, unify, user_key
from profilestream_client.versions import Gap, Versions

logger = logging.getLogger(__name__)

StartAt = Literal["beginning", "end"] | datetime | Position
OnGap = Callable[[Gap], Awaitable[None] | None]

_POLL_MS: Final = 500
_POLL_RECORDS: Final = 500
_SILENT_POLLS: Final = 30
"""Polls without a record that, before the known end, mean that the broker is gone."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which deltas are given out; None stands for any.

    Attributes:
        tenant: of the tenant with this id.
        user: of the user with this id; needs a tenant, within which it is unique.
        kind: of this kind.
        topic: of this topic of slots, or category of facts and preferences.
    """

    tenant: str | None = None
    user: str | None = None
    kind: str | None = None
    topic: str | None = None

    @cached_property
    def key(self) -> bytes | None:
        """Kafka key of the user; None where there are several."""
        return None if self.tenant is None or self.user is None else user_key(self.tenant, self.user)

    @cached_property
    def _tenant_prefix(self) -> bytes:
        return b"" if self.tenant is None else user_key(self.tenant, "")

    def takes_key(self, key: bytes | None) -> bool:
        """Whether deltas with this Kafka key may be wanted."""
        return key == self.key if self.key is not None else (key or b"").startswith(self._tenant_prefix)

    def takes(self, delta: ProfileDelta) -> bool:
        """Whether a delta of a wanted user is wanted."""
        return self.kind in {None, delta.kind} and (self.topic is None or unify(self.topic) == delta.topic)


def partition_for(key: bytes, partitions: int) -> int:
    """Return the partition of a key, as Kafka's Java client chooses it."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


class Subscription:
    """Profile deltas, one after the other; `Client.subscribe` makes it.

    It is opened by ``async with``, or by the first step of the iteration, and holds a connection until it is closed: by
    leaving the block, by `aclose`, or with its client. It is for one task at a time.

    Raises, while it is iterated:
        KafkaUnavailable: the broker does not answer when it is opened, or refuses this client.
        TopicMissing: there is no topic of deltas.
        PositionLost: the topic does not hold the position, or does not any more.

    Attributes:
        unreadable: records of the topic so far that are no deltas; each is logged.
    """

    def __init__(
        self,
        connection: Connection,
        wanted: Filter,
        *,
        start_at: StartAt,
        follow: bool,
        on_gap: OnGap | None,
        on_closed: Callable[[Subscription], None],
    ) -> None:
        if isinstance(start_at, datetime) and start_at.tzinfo is None:
            raise ValueError("start_at has no offset from UTC")
        self.unreadable = 0
        self._connection = connection
        self._wanted = wanted
        self._key = wanted.key
        self._start_at = start_at
        self._follow = follow
        self._on_gap = on_gap
        self._on_closed = on_closed
        self._versions = Versions(complete=start_at == "beginning")
        self._consumer: AIOKafkaConsumer | None = None
        self._closed = False
        self._topic: Topic | None = None
        self._offsets: dict[int, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._buffer: deque[Any] = deque()
        self._silent_polls = 0

    @property
    def position(self) -> Position:
        """The place behind the delta given out last: a subscription that starts there goes on with the next one.

        Raises:
            RuntimeError: before the subscription is opened.
        """
        if self._topic is None:
            raise RuntimeError("the subscription is not open yet")
        return Position(log_id=self._topic.log_id, topic=self._topic.name, offsets=dict(self._offsets))

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ProfileDelta:
        if self._consumer is None and not self._closed:
            await self._open()
        while True:
            while self._buffer:
                record = self._buffer[0]
                delta = self._delta(record)
                if delta is not None and (gap := self._versions.gap(delta)) is not None:
                    await self._tell(gap)
                # Nothing is awaited from here on: what is cancelled above comes again.
                self._buffer.popleft()
                self._offsets[record.partition] = record.offset + 1
                if delta is not None:
                    self._versions.note(delta)
                    if self._wanted.takes(delta):
                        return delta
            if not await self._fetch():
                await self.aclose()
                raise StopAsyncIteration

    async def aclose(self) -> None:
        """Disconnect; the iteration ends, the position stays."""
        self._closed = True
        self._on_closed(self)
        self._buffer.clear()
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await close_whole(consumer.stop())

    def _delta(self, record: Any) -> ProfileDelta | None:
        """Return what a record holds if it is of a user that is wanted and not a repeat."""
        if not self._wanted.takes_key(record.key):
            return None
        try:
            delta = decode_delta(record.value)
        except ValueError as error:
            self.unreadable += 1
            logger.warning("%s[%d]@%d holds no delta: %s", record.topic, record.partition, record.offset, error)
            return None
        return None if self._versions.repeats(delta) else delta

    async def _tell(self, gap: Gap) -> None:
        if self._on_gap is None:
            logger.warning(
                "deltas of %s:%s do not follow on each other: version %d was expected, %d came",
                *(gap.tenant_id, gap.user_id, gap.expected, gap.found),
            )
        elif inspect.isawaitable(waiting := self._on_gap(gap)):
            await waiting

    async def _fetch(self) -> bool:
        """Fill the buffer, with nothing if nothing came in time; False when the end is reached."""
        consumer = self._consumer
        if consumer is None or (not self._follow and await self._ended(consumer)):
            return False
        await asyncio.sleep(0)  # a long backlog must not keep other tasks waiting
        try:
            batches = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_POLL_RECORDS)
        except ConsumerStoppedError:
            return False
        except OffsetOutOfRangeError as error:
            raise PositionLost("the topic's records at the position are removed") from error
        except KafkaError as error:
            raise self._connection.unavailable(error) from error
        self._silent_polls = 0 if batches else self._silent_polls + 1
        for place, records in batches.items():
            self._buffer.extend(each for each in records if self._follow or each.offset < self._ends[place])
        return True

    async def _ended(self, consumer: AIOKafkaConsumer) -> bool:
        """Whether, with nothing left to give out, every partition is where it ended when it was opened.

        The last offsets of one may hold no record: what counts is how far it is read.
        """
        for place, end in self._ends.items():
            self._offsets[place.partition] = min(await consumer.position(place), end)
        if all(self._offsets[place.partition] == end for place, end in self._ends.items()):
            return True
        if self._silent_polls >= _SILENT_POLLS:
            raise self._connection.unavailable(TimeoutError())
        return False

    async def _open(self) -> None:
        topic = await find_topic(self._connection, self._connection.deltas_topic)
        numbers = range(topic.partitions) if self._key is None else [partition_for(self._key, topic.partitions)]
        places = [TopicPartition(topic.name, number) for number in numbers]
        consumer = AIOKafkaConsumer(
            **self._connection.options(),
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
        )
        await start(self._connection, consumer, consumer.stop)
        try:
            consumer.assign(places)
            self._ends = await consumer.end_offsets(places)
            offsets = await self._first_offsets(consumer, topic, places)
            for place, offset in offsets.items():
                consumer.seek(place, offset)
        except (KafkaError, TimeoutError) as error:
            await close_whole(consumer.stop())
            raise self._connection.unavailable(error) from error
        except BaseException:
            await close_whole(consumer.stop())
            raise
        self._offsets = {place.partition: offset for place, offset in offsets.items()}
        self._topic, self._consumer = topic, consumer

    async def _first_offsets(
        self, consumer: AIOKafkaConsumer, topic: Topic, places: list[TopicPartition]
    ) -> dict[TopicPartition, int]:
        match self._start_at:
            case "end":
                return self._ends
            case datetime() as moment:
                milliseconds = max(0, round(moment.timestamp() * 1000))
                found = await consumer.offsets_for_times(dict.fromkeys(places, milliseconds))
                # A broker that has nothing so late says so with nothing, or with no timestamp.
                return {
                    place: each.offset if each is not None and each.timestamp >= 0 else self._ends[place]
                    for place, each in found.items()
                }
            case Position() as position:
                return self._resumed(position, topic, await consumer.beginning_offsets(places))
            case _:
                beginnings: dict[TopicPartition, int] = await consumer.beginning_offsets(places)
                return beginnings

    def _resumed(
        self, position: Position, topic: Topic, beginnings: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return the offsets of a position; partitions that it knows nothing of are read from their beginning."""
        if (position.log_id, position.topic) != (topic.log_id, topic.name):
            raise PositionLost(
                f"the position is one of {position.topic} in the Kafka cluster {position.log_id}, and this is "
                f"{topic.name} in {topic.log_id}"
            )
        offsets = {place: position.offsets.get(place.partition, first) for place, first in beginnings.items()}
        for place, offset in offsets.items():
            if not beginnings[place] <= offset <= self._ends[place]:
                raise PositionLost(
                    f"partition {place.partition} of {topic.name} holds offsets {beginnings[place]} to "
                    f"{self._ends[place]}, and the position is at {offset}"
                )
        return offsets
