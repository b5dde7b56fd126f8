"""`tail`: the records of a topic from its start, read without a consumer group, to its end or for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from streams.kafka import admin, consumer, unavailable
from streams.settings import KafkaSettings

_POLL: Final = 0.5
"""Seconds without a record that, behind the known end, mean the end."""
_SILENCE: Final = 15.0
"""Seconds without a record that, before the known end, mean that the broker is gone."""


async def tail(
    kafka: KafkaSettings, topic: str, *, from_start: bool = True, follow: bool = False
) -> AsyncGenerator[Any, None]:
    """Yield the records (`aiokafka.ConsumerRecord`) of every partition of a topic.

    Those of one partition come in their order. A topic that does not exist has no records; to follow it means to
    wait for it.

    Args:
        kafka: where the broker is.
        topic: full name.
        from_start: begin with the oldest record there is, otherwise with the next.
        follow: go on with records as they are written, instead of stopping at the end.

    Raises:
        KafkaUnavailable: when the broker does not answer. While following, the connection is made again instead.
    """
    partitions = await _partitions(kafka, topic, wait=follow)
    if not partitions:
        return
    async with consumer(kafka) as client:
        try:
            # Asked first: the broker would answer after the fetch that begins with an assignment.
            end: dict[TopicPartition, int] = {} if follow else await client.end_offsets(partitions)
            client.assign(partitions)
            await (client.seek_to_beginning if from_start else client.seek_to_end)(*partitions)
        except KafkaError as error:
            raise unavailable(kafka, error) from error
        last = time.monotonic()
        while True:
            batches = await client.getmany(*partitions, timeout_ms=round(_POLL * 1000))
            for records in batches.values():
                for record in records:
                    yield record
            if batches:
                last = time.monotonic()
            elif not follow:
                # Behind the end that the broker named there may be more: the embedded one names it too low.
                if await _reached(client, end):
                    return
                if time.monotonic() - last > _SILENCE:
                    raise unavailable(kafka)


async def _partitions(kafka: KafkaSettings, topic: str, *, wait: bool) -> list[TopicPartition]:
    async with admin(kafka) as client:
        while True:
            try:
                topics: Sequence[dict[str, Any]] = await client.describe_topics()  # naming one could create it
            except KafkaError as error:
                raise unavailable(kafka, error) from error
            found = next((one for one in topics if one["topic"] == topic), None)
            if found is not None or not wait:
                numbers = [] if found is None else [one["partition"] for one in found["partitions"]]
                return [TopicPartition(topic, number) for number in sorted(numbers)]
            await asyncio.sleep(_POLL)


async def _reached(client: AIOKafkaConsumer, end: dict[TopicPartition, int]) -> bool:
    try:
        async with asyncio.timeout(_SILENCE):
            return all([await client.position(partition) >= offset for partition, offset in end.items()])
    except TimeoutError:
        return False
