"""Control events: records of the chat topic that ask for something to be done about a user."""

from __future__ import annotations

from typing import Literal
from uuid import uuid4

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from schemas.codec import InvalidRecord, encode
from schemas.messages import ChatMessage, decode_message
from schemas.places import Place
from streams.kafka import producer, unavailable
from streams.partitioning import partition_for
from streams.settings import KafkaSettings
from streams.topics import Topics, ensure_topics


def control_message(kind: Literal["flush", "forget"], tenant_id: str, user_id: str) -> ChatMessage:
    """Return a request about a user.

    Raises:
        InvalidRecord: when those are not ids of a tenant and a user; the message says what is wrong.
    """
    request = ChatMessage(type=kind, tenant_id=tenant_id, user_id=user_id, message_id=f"{kind}-{uuid4()}")
    try:
        decode_message(encode(request))
    except UnicodeEncodeError as error:
        raise InvalidRecord("an id is not UTF-8") from error
    return request


async def send_control(kafka: KafkaSettings, request: ChatMessage) -> Place:
    """Send a request and return where it lies; it is behind all messages that were acknowledged before.

    Raises:
        KafkaUnavailable: when the broker does not answer; nothing is known of the request then.
        TopicsError: when its topics are not as they must be.
    """
    partition = partition_for(request.key, await ensure_topics(kafka))
    async with producer(kafka) as client:
        return await send_with(client, kafka, request, partition)


async def send_with(client: AIOKafkaProducer, kafka: KafkaSettings, request: ChatMessage, partition: int) -> Place:
    """Send a request with a started producer, into its user's partition; likewise.

    Raises:
        KafkaUnavailable: when the broker does not answer.
    """
    topic = Topics.of(kafka).messages
    try:
        sent = await client.send_and_wait(topic, value=encode(request), key=request.key, partition=partition)
    except KafkaError as error:
        raise unavailable(kafka, error) from error
    return Place(sent.topic, sent.partition, sent.offset)
