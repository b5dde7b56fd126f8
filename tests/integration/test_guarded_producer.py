"""The producer of a process that has lost the right to write: what waits in it never leaves."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from aiokafka.errors import KafkaError

from streams.errors import DependencyDown
from streams.faust_app import PipelineProducer, create_app
from streams.settings import KafkaSettings, Settings
from streams.topics import Topics, ensure_topics
from tests.integration.dead_letter_support import records_on


async def test_a_record_that_waits_when_the_process_may_not_write_any_more_never_leaves(
    kafka: KafkaSettings, caplog: pytest.LogCaptureFixture
) -> None:
    topic = Topics.of(kafka).messages
    await ensure_topics(kafka)
    app = create_app(Settings(kafka=kafka), "group")

    def refuse() -> None:
        raise DependencyDown("it was suspended")

    producer = cast(PipelineProducer, app.producer)._new_producer()
    await producer.start()
    try:
        await producer.send_and_wait(topic, b"before", partition=0)
        waiting = await producer.send(topic, b"stale", partition=0)
        app.guard = refuse
        async with asyncio.timeout(10):
            with pytest.raises(KafkaError):
                await waiting
            with pytest.raises(KafkaError):
                await producer.send_and_wait(topic, b"after", partition=0)
    finally:
        async with asyncio.timeout(10):
            await producer.stop()
    assert [value for _, value, _, _ in await records_on(kafka, topic)] == [b"before"]
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
