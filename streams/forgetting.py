"""Having a user forgotten, as far as Kafka goes: the request, the delta that answers it, what topics still hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from aiokafka import TopicPartition
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from schemas.codec import InvalidRecord, decode
from schemas.deltas import ProfileDelta
from schemas.ids import delta_id, flush_id
from schemas.messages import ChatMessage
from streams.control import control_message, send_with
from streams.kafka import admin, cluster_id, producer
from streams.partitioning import partition_for
from streams.settings import KafkaSettings
from streams.spans import following
from streams.topics import Topics, ensure_topics


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A topic whose records stay until the broker removes them.

    Attributes:
        topic: its name.
        retention_ms: how long it keeps a record; negative for ever, None where the broker does not say.
        compacted: whether it keeps the last record of each user, and those before it only for a time.
    """

    topic: str
    retention_ms: int | None
    compacted: bool


def forget_request(tenant_id: str, user_id: str) -> ChatMessage:
    """Return a request to forget a user.

    Raises:
        InvalidRecord: when those are not ids of a tenant and a user; the message says what is wrong.
    """
    return control_message("forget", tenant_id, user_id)


async def forget(kafka: KafkaSettings, request: ChatMessage, seconds: float) -> ProfileDelta | None:
    """Send a request to forget a user and return the delta that says it is done.

    Args:
        kafka: where the broker is.
        request: made by `forget_request`.
        seconds: how long to wait for a worker; after that None is returned, and the request stays on its topic.

    Raises:
        KafkaUnavailable: when the broker does not answer; nothing is known of the request then.
        TopicsError: when its topics are not as they must be.
    """
    partitions = await ensure_topics(kafka)
    topics = Topics.of(kafka)
    log_id = kafka.log_id or await cluster_id(kafka)
    partition = partition_for(request.key, partitions)
    async with following(kafka, [TopicPartition(topics.deltas, partition)]) as deltas, producer(kafka) as client:
        sent = await send_with(client, kafka, request, partition)
        flush = flush_id(log_id, request.tenant_id, request.user_id, "forget", partition, sent.offset, sent.offset)
        try:
            async with asyncio.timeout(seconds):
                return await _found(deltas, delta_id(flush, 0))
        except TimeoutError:
            return None


async def _found(records: AsyncIterator[Any], wanted: str) -> ProfileDelta:
    while True:
        record = await anext(records)
        try:
            delta = decode(record.value, ProfileDelta)
        except InvalidRecord:
            continue
        if delta.delta_id == wanted:
            return delta


async def kept_topics(kafka: KafkaSettings) -> list[Kept]:
    """Return the topics from which nothing is removed when a user is forgotten, and how long they keep a record.

    Raises:
        KafkaUnavailable: when the broker does not answer.
    """
    topics = Topics.of(kafka)
    names = [name for name in topics.all() if name != topics.dead_letters]
    async with admin(kafka) as client:
        try:
            answers = await client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in names])
        except KafkaError:
            answers = []  # it does not let this client know
    configs = {
        name: {entry[0]: entry[1] for entry in entries}
        for answer in answers
        for code, _, _, name, entries in answer.resources
        if not code
    }
    return [_kept(name, configs.get(name, {})) for name in names]


def _kept(topic: str, config: dict[str, str | None]) -> Kept:
    retention = config.get("retention.ms")
    return Kept(
        topic=topic,
        retention_ms=None if retention is None else int(retention),
        compacted="compact" in (config.get("cleanup.policy") or ""),
    )
