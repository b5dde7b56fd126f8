"""`publish`: messages to the chat topic, every one checked first and every one acknowledged."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError, UnknownError

from profilestream_client.connection import Connection, find_topic, in_words, start
from profilestream_client.errors import InvalidMessage, KafkaUnavailable, PublishFailed
from profilestream_client.records import ChatMessage, encode_message, user_key

UNACKNOWLEDGED_LIMIT: Final = 10_000
"""Messages that may be on their way at once."""

_BATCH_BYTES: Final = 128 * 1024
_LINGER_MS: Final = 5

Messages = Iterable[ChatMessage] | AsyncIterable[ChatMessage]


class Published(NamedTuple):
    """What became of the messages.

    Attributes:
        acknowledged: how many the broker has.
        refused: how many could not have been processed and were not sent.
    """

    acknowledged: int
    refused: int


def producer_options(connection: Connection) -> dict[str, Any]:
    """Return the keyword arguments of a producer whose sends are acknowledged by all replicas.

    The key decides the partition, by the hash of Kafka's Java client.
    """
    options = connection.options() | {"acks": "all"}
    if not connection.idempotent:
        return options | {"max_batch_size": 1}
    return options | {"enable_idempotence": True, "max_batch_size": _BATCH_BYTES, "linger_ms": _LINGER_MS}


async def open_producer(connection: Connection) -> AIOKafkaProducer:
    """Start a producer for the topic of messages, which must be there.

    Raises:
        KafkaUnavailable: when the broker does not answer, or cannot do what is asked of it.
        TopicMissing: when it has no such topic.
    """
    await find_topic(connection, connection.messages_topic)
    producer = AIOKafkaProducer(**producer_options(connection))
    try:
        await start(connection, producer, producer.stop)
    except KafkaUnavailable as error:
        if connection.idempotent and isinstance(error.__cause__, UnknownError):
            raise KafkaUnavailable(
                f"Kafka at {','.join(connection.servers)} does not start an idempotent producer, which the broker of "
                "`profilestream up` does not know: connect with Client.local(), or with Connection(idempotent=False)"
            ) from error.__cause__
        raise
    return producer


async def publish(
    producer: AIOKafkaProducer,
    topic: str,
    messages: Messages,
    on_progress: Callable[[int], None] | None,
    on_refused: Callable[[InvalidMessage], None] | None,
) -> Published:
    """Send messages and wait until the broker has them all; the arguments are those of `Client.publish`."""
    run = _Run(producer, topic, on_progress)
    refused = index = 0
    async for message in _each(messages):
        try:
            key, value = _checked(index, message)
        except InvalidMessage as error:
            if on_refused is None:
                await run.settle(0)
                raise
            on_refused(error)
            refused += 1
        else:
            await run.send(index, key, value)
        index += 1
    await run.settle(0)
    return Published(run.acknowledged, refused)


class _Run:
    """Messages on their way, in their order."""

    def __init__(self, producer: AIOKafkaProducer, topic: str, on_progress: Callable[[int], None] | None) -> None:
        self._producer = producer
        self._topic = topic
        self._on_progress = on_progress
        self._open: deque[tuple[int, asyncio.Future[object]]] = deque()
        self.acknowledged = 0

    async def send(self, index: int, key: bytes, value: bytes) -> None:
        try:
            future = await self._producer.send(self._topic, value=value, key=key)
        except KafkaError as error:
            raise await self._failure(error, also=(index,)) from error
        self._open.append((index, future))
        await self.settle(UNACKNOWLEDGED_LIMIT)

    async def settle(self, limit: int) -> None:
        """Take in what is acknowledged, and wait until at most `limit` messages are not."""
        before = self.acknowledged
        while self._open and (len(self._open) > limit or self._open[0][1].done()):
            try:
                await self._open[0][1]
            except KafkaError as error:
                raise await self._failure(error) from error
            self._open.popleft()
            self.acknowledged += 1
        if self._on_progress is not None and self.acknowledged > before:
            self._on_progress(self.acknowledged)

    async def _failure(self, error: KafkaError, also: tuple[int, ...] = ()) -> PublishFailed:
        ends = await asyncio.gather(*(future for _, future in self._open), return_exceptions=True)
        failed = [index for (index, _), end in zip(self._open, ends, strict=True) if isinstance(end, BaseException)]
        self.acknowledged += len(ends) - len(failed)
        self._open.clear()
        return PublishFailed(f"Kafka did not take the next: {in_words(error)}", self.acknowledged, (*failed, *also))


def _checked(index: int, message: ChatMessage) -> tuple[bytes, bytes]:
    try:
        value = encode_message(message)
    except ValueError as error:
        raise InvalidMessage(index, str(error)) from error
    return user_key(message.tenant_id, message.user_id), value


async def _each(messages: Messages) -> AsyncIterator[ChatMessage]:
    if isinstance(messages, AsyncIterable):
        async for message in messages:
            yield message
    else:
        for message in messages:
            yield message
