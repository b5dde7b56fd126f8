"""`park_late`: what is on the chat topic behind what a worker has taken becomes dead letters, untouched."""

from __future__ import annotations

from datetime import UTC, datetime

from schemas.messages import user_key
from streams.kafka import producer
from streams.late_messages import park_late
from streams.settings import KafkaSettings
from streams.topics import Topics, ensure_topics
from tests.integration.dead_letter_support import letters_on, records_on

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ADA = user_key("default", "ada")


async def test_what_was_not_taken_is_parked_as_it_came(kafka: KafkaSettings) -> None:
    topics = Topics.of(kafka)
    await ensure_topics(kafka)
    async with producer(kafka) as client:
        for partition, value in ((0, b"taken"), (0, b"taken"), (0, b"late 0"), (1, b"late 1"), (1, b"late 2")):
            await client.send_and_wait(
                topics.messages, value, ADA, partition, timestamp_ms=1_700_000_000_000, headers=[("own", b"x")]
            )
    assert await park_late(kafka, {0: 2}, lambda: NOW) == 3
    left = await letters_on(kafka)
    assert sorted(
        (letter.why.stage, letter.why.reason, letter.why.partition, letter.why.offset) for letter in left
    ) == [
        ("window", "stopped", 0, 2),
        ("window", "stopped", 1, 0),
        ("window", "stopped", 1, 1),
    ]
    found = [record for number in (0, 1) for record in await records_on(kafka, topics.dead_letters, number)]
    assert sorted((key, value) for key, value, _, _ in found) == [(ADA, b"late 0"), (ADA, b"late 1"), (ADA, b"late 2")]
    assert await park_late(kafka, {0: 3, 1: 2}, lambda: NOW) == 0
