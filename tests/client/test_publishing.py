"""`Client.publish`, `flush` and `forget`: on the right partition, in order, everything acknowledged or named."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaTimeoutError
from profilestream_client import (
    ChatMessage,
    Client,
    Connection,
    InvalidMessage,
    KafkaUnavailable,
    Published,
    PublishFailed,
    TopicMissing,
)
from profilestream_client.publishing import UNACKNOWLEDGED_LIMIT

from schemas.codec import decode
from schemas.messages import ChatMessage as ReadMessage
from streams.kafka import admin
from streams.partitioning import partition_for
from streams.settings import KafkaSettings
from streams.tail import tail
from streams.topics import Topics, ensure_topics
from tests.client.support import PARTITIONS, connection_to


def message(content: str, user: str = "ada", **changes) -> ChatMessage:
    return ChatMessage(**({"user_id": user, "role": "user", "content": content} | changes))


async def on_the_topic(kafka: KafkaSettings) -> dict[TopicPartition, list[ReadMessage]]:
    """Return what the pipeline reads, by partition; every record must have the key of its user."""
    found: dict[TopicPartition, list[ReadMessage]] = {}
    async for record in tail(kafka, Topics.of(kafka).messages):
        read = decode(record.value, ReadMessage)
        assert record.key == read.key
        found.setdefault(TopicPartition(record.topic, record.partition), []).append(read)
    return found


async def test_messages_come_in_the_partition_of_their_user_and_in_order(kafka: KafkaSettings) -> None:
    await ensure_topics(kafka)
    users = [f"user {number}" for number in range(20)] + ["安娜", "🦊", "a:b"]
    async with Client(connection_to(kafka)) as client:
        published = await client.publish(message(f"{turn}", user) for turn in range(10) for user in users)
    assert published == Published(acknowledged=230, refused=0)
    found = await on_the_topic(kafka)
    assert {place.partition for place in found} == set(range(PARTITIONS))
    for place, messages in found.items():
        assert {partition_for(each.key, PARTITIONS) for each in messages} == {place.partition}
    for user in users:
        said = [each.content for messages in found.values() for each in messages if each.user_id == user]
        assert said == [f"{turn}" for turn in range(10)]


async def test_messages_may_come_from_an_asynchronous_source(kafka: KafkaSettings) -> None:
    await ensure_topics(kafka)

    async def source() -> AsyncIterator[ChatMessage]:
        for turn in range(3):
            yield message(f"{turn}", session_id="s", message_id=f"m{turn}")

    async with Client(connection_to(kafka)) as client:
        assert await client.publish(source()) == Published(acknowledged=3, refused=0)
        assert await client.publish([]) == Published(acknowledged=0, refused=0)
    (messages,) = (await on_the_topic(kafka)).values()
    assert [(each.session_id, each.message_id) for each in messages] == [("s", f"m{turn}") for turn in range(3)]


async def test_progress_is_told_and_little_is_on_its_way_at_once(kafka: KafkaSettings) -> None:
    await ensure_topics(kafka)
    count = UNACKNOWLEDGED_LIMIT + 500 if not kafka.single_record_batches else 500
    ahead: list[int] = []
    told: list[int] = [0]

    def source() -> Iterator[ChatMessage]:
        for number in range(count):
            ahead.append(number - told[-1])
            yield message("x", f"user {number % 50}")

    async with Client(connection_to(kafka)) as client:
        await client.publish(source(), on_progress=told.append)
    assert told == sorted(set(told))
    assert told[-1] == count
    assert max(ahead) <= UNACKNOWLEDGED_LIMIT


async def test_a_message_that_cannot_be_processed_is_raised_after_those_before_it(kafka: KafkaSettings) -> None:
    await ensure_topics(kafka)
    async with Client(connection_to(kafka)) as client:
        with pytest.raises(InvalidMessage, match=r"message 2: `content` is missing or empty") as caught:
            await client.publish([message("0"), message("1"), message(" "), message("3")])
        assert caught.value.index == 2
        found = await on_the_topic(kafka)
        assert [each.content for each in next(iter(found.values()))] == ["0", "1"]


async def test_messages_that_cannot_be_processed_may_be_left_out(kafka: KafkaSettings) -> None:
    await ensure_topics(kafka)
    refused: list[InvalidMessage] = []
    async with Client(connection_to(kafka)) as client:
        published = await client.publish(
            [message("0"), message("1", tenant_id="a b"), message("2"), message("")], on_refused=refused.append
        )
    assert published == Published(acknowledged=2, refused=2)
    assert [each.index for each in refused] == [1, 3]
    (messages,) = (await on_the_topic(kafka)).values()
    assert [each.content for each in messages] == ["0", "2"]


async def test_control_events_follow_on_the_messages_of_their_user(kafka: KafkaSettings) -> None:
    await ensure_topics(kafka)
    async with Client(connection_to(kafka)) as client:
        await client.publish([message("hello", tenant_id="acme")])
        await client.flush("ada", tenant="acme")
        await client.forget("ada", tenant="acme")
    (messages,) = (await on_the_topic(kafka)).values()
    assert [(each.type, each.tenant_id, each.user_id) for each in messages] == [
        ("message", "acme", "ada"),
        ("flush", "acme", "ada"),
        ("forget", "acme", "ada"),
    ]


async def test_a_user_that_cannot_be_one_is_not_forgotten(kafka: KafkaSettings) -> None:
    await ensure_topics(kafka)
    async with Client(connection_to(kafka)) as client:
        with pytest.raises(InvalidMessage, match="user_id"):
            await client.forget("")
    assert await on_the_topic(kafka) == {}


async def test_a_topic_that_is_missing_is_said_and_not_made(kafka: KafkaSettings) -> None:
    async with Client(connection_to(kafka)) as client:
        with pytest.raises(TopicMissing, match=r"chat\.messages\.v1: the worker makes it"):
            await client.publish([message("0")])
    async with admin(kafka) as broker:
        assert Topics.of(kafka).messages not in await broker.list_topics()


async def test_a_broker_that_cannot_recognise_repeats_is_said(broker: str) -> None:
    settings = KafkaSettings(bootstrap_servers=broker, topic_prefix="recognised.", single_record_batches=True)
    await ensure_topics(settings)
    async with Client(Connection(bootstrap_servers=broker, topic_prefix="recognised.")) as client:
        with pytest.raises(KafkaUnavailable, match="idempotent=False"):
            await client.publish([message("0")])


async def test_what_the_broker_does_not_take_is_named_and_the_next_try_is_a_new_one(
    kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ensure_topics(kafka)
    async with Client(connection_to(kafka)) as client:
        await client.publish([message("0")])
        producer = client._producer
        assert producer is not None
        send = producer.send

        async def failing(topic: str, *, value: bytes, key: bytes):
            future = await send(topic, value=value, key=key)
            if b'"lost"' in value:
                await future
                future = asyncio.get_running_loop().create_future()
                future.set_exception(KafkaTimeoutError())
            return future

        monkeypatch.setattr(producer, "send", failing)
        with pytest.raises(PublishFailed, match="KafkaTimeoutError") as caught:
            await client.publish([message("1"), message("lost"), message("2"), message("lost"), message("3")])
        # Where the failure is seen while more is still being read, the rest is not sent.
        assert caught.value.unacknowledged[0] == 1
        assert set(caught.value.unacknowledged) <= {1, 3}
        assert 1 <= caught.value.acknowledged <= 3
        assert client._producer is None
        assert await client.publish([message("4")]) == Published(acknowledged=1, refused=0)
