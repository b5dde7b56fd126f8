"""Parts of partitions read without a consumer group: `span`, what there is now, and `following`, what comes."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from streams.kafka import consumer, unavailable
from streams.settings import KafkaSettings

_POLL: Final = 0.5
_SILENCE: Final = 15.0
"""Seconds without a record that, before the end, mean that the broker is gone."""


class Span:
    """A part of a partition; `span` opens it.

    Attributes:
        place: the partition.
        begin: offset of the oldest record that is there.
        end: offset behind the newest, when the span was opened; or where it was to end.
    """

    def __init__(
        self, client: AIOKafkaConsumer, kafka: KafkaSettings, place: TopicPartition, begin: int, end: int
    ) -> None:
        self.place = place
        self.begin = begin
        self.end = end
        self._client = client
        self._kafka = kafka

    async def records(self, start: int = 0) -> AsyncGenerator[Any, None]:
        """Yield the records (`aiokafka.ConsumerRecord`) from `start` on, or from the oldest that is still there.

        Raises:
            KafkaUnavailable: when the broker does not answer.
        """
        start = max(start, self.begin)
        if start >= self.end:
            return
        self._client.seek(self.place, start)
        last = time.monotonic()
        while True:
            batch = (await self._client.getmany(self.place, timeout_ms=round(_POLL * 1000))).get(self.place, [])
            for record in batch:
                if record.offset >= self.end:
                    return
                yield record
            # The last offsets may hold no record: behind them is the end all the same.
            if await self._client.position(self.place) >= self.end:
                return
            if batch:
                last = time.monotonic()
            elif time.monotonic() - last > _SILENCE:
                raise unavailable(self._kafka)


@asynccontextmanager
async def span(kafka: KafkaSettings, place: TopicPartition, end: int | None = None) -> AsyncIterator[Span]:
    """Open a partition as it is now.

    Args:
        kafka: where the broker is.
        place: the partition.
        end: the offset before which to end, where a record is known to be; otherwise behind the newest.

    Raises:
        KafkaUnavailable: when the broker does not answer.
    """
    async with consumer(kafka) as client:
        try:
            # Asked first: the broker would answer after the fetch that begins with an assignment.
            if end is None:
                end = (await client.end_offsets([place]))[place]
            begin = (await client.beginning_offsets([place]))[place]
            client.assign([place])
        except KafkaError as error:
            raise unavailable(kafka, error) from error
        yield Span(client, kafka, place, begin, end)


@asynccontextmanager
async def following(
    kafka: KafkaSettings, places: Iterable[TopicPartition], since: datetime | None = None
) -> AsyncIterator[AIOKafkaConsumer]:
    """Give the records of these partitions as they come, for ever; what is written once this is open is among them.

    Args:
        kafka: where the broker is.
        places: the partitions.
        since: begin with the records of that time, by their own timestamps.

    Raises:
        KafkaUnavailable: when the broker does not answer.
    """
    async with consumer(kafka) as client:
        try:
            client.assign(list(places))
            await client.seek_to_end()
            if since is not None:
                moment = round(since.timestamp() * 1000)
                found = await client.offsets_for_times(dict.fromkeys(client.assignment(), moment))
                for place, offset in found.items():
                    if offset is not None:
                        client.seek(place, offset.offset)
        except KafkaError as error:
            raise unavailable(kafka, error) from error
        yield client
