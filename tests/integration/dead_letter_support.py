"""Dead letters put on a broker by hand, and the commands about them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaConnectionError

from benchmarks.harness import command
from schemas.dead_letters import DeadLetterReason
from schemas.stages import StageName
from streams.dead_letter_store import DeadLetterStore
from streams.kafka import producer
from streams.letters import Letter
from streams.settings import KafkaSettings
from streams.spans import span
from streams.topics import Topics, ensure_topics

FAILED = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ODD = "a:b\x1b\n李"
"""A user id that is not made to be printed or split."""


def reason(kafka: KafkaSettings, stage: StageName, offset: int, partition: int = 0, **changes: Any) -> DeadLetterReason:
    """Return why the record at a place could not be processed."""
    topics = Topics.of(kafka)
    sources = {"window": topics.messages, "extract": topics.memos, "tag": topics.memos, "merge": topics.candidates}
    values = {
        "stage": stage,
        "reason": "invalid_record",
        "detail": "it is wrong",
        "topic": sources.get(stage, topics.flushes),
        "partition": partition,
        "offset": offset,
        "attempts": 1,
        "failed_at": FAILED,
    }
    return DeadLetterReason(**(values | changes))


class Park(Protocol):
    """Puts a letter on the topic."""

    async def __call__(
        self,
        why: DeadLetterReason,
        key: bytes | None,
        value: bytes | None = b"{}",
        headers: Iterable[tuple[str, bytes]] = (),
        timestamp: int = 1_700_000_000_000,
    ) -> None: ...


@asynccontextmanager
async def parking(kafka: KafkaSettings) -> AsyncIterator[Park]:
    """Give what puts letters on the topic of a broker."""
    await ensure_topics(kafka)
    async with producer(kafka) as client:

        async def park(
            why: DeadLetterReason,
            key: bytes | None,
            value: bytes | None = b"{}",
            headers: Iterable[tuple[str, bytes]] = (),
            timestamp: int = 1_700_000_000_000,
        ) -> None:
            await client.send_and_wait(
                Topics.of(kafka).dead_letters,
                value=value,
                key=key,
                partition=why.partition,
                timestamp_ms=timestamp,
                headers=[*headers, *why.headers()],
            )

        yield park


async def letters_on(kafka: KafkaSettings) -> list[Letter]:
    """Return the letters of a broker."""
    return (await (await DeadLetterStore.open(kafka)).read()).all()


async def records_on(kafka: KafkaSettings, topic: str, partition: int = 0) -> list[tuple[Any, ...]]:
    """Return key, value, headers and timestamp of every record of a partition."""
    async with span(kafka, TopicPartition(topic, partition)) as found:
        return [(one.key, one.value, one.headers, one.timestamp) async for one in found.records()]


async def deadletters(env: Mapping[str, str], *arguments: str, expect: Sequence[int] = (0,)) -> list[dict[str, Any]]:
    """Run ``profilestream deadletters`` and return the objects that it prints."""
    said = await command("deadletters", arguments[0], "--json", *arguments[1:], env=env, expect=expect)
    return [json.loads(line) for line in said.splitlines()]


class Cut:
    """A producer whose connection ends after it has sent so many records; the last one is sent."""

    def __init__(self, client: AIOKafkaProducer, records: int) -> None:
        self._client = client
        self._left = records

    async def send(self, *arguments: Any, **fields: Any) -> Any:
        if self._left == 0:
            raise KafkaConnectionError
        self._left -= 1
        return await self._client.send(*arguments, **fields)

    async def partitions_for(self, topic: str) -> Any:
        return await self._client.partitions_for(topic)

    async def send_and_wait(self, *arguments: Any, **fields: Any) -> Any:
        return await (await self.send(*arguments, **fields))
