"""`Publisher`: lines of JSON to the chat topic, every one checked first and every one acknowledged."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final, NamedTuple

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError

from schemas.codec import InvalidRecord, decode, encode
from schemas.messages import MAX_MESSAGE_BYTES, ChatMessage, decode_message, split_user_key
from streams.lines import Line, LineSplitter

_UNACKNOWLEDGED_LIMIT: Final = 10_000


class Refusal(NamedTuple):
    """A line that was not sent."""

    source: str
    line: int
    reason: str


class Publisher:
    """Sends chat messages from lines of JSON, as their original bytes under the key of their user.

    Messages of one user keep their order. A line that cannot be processed is refused and the rest goes on.

    Args:
        producer: started; whoever started it stops it.
        topic: the chat topic.
        on_refused: called for each line that is refused.
        tenant: for lines that name no tenant, in place of the default one.

    Attributes:
        sent: lines that the broker has acknowledged.
        messages: lines sent that are messages and no control events.
        refused: lines refused.
        flushed: users whose windows were closed by `flush_windows`.
    """

    def __init__(
        self,
        producer: AIOKafkaProducer,
        topic: str,
        *,
        on_refused: Callable[[Refusal], None],
        tenant: str | None = None,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._on_refused = on_refused
        self._tenant = tenant
        self._open: deque[tuple[asyncio.Future[object], str, int]] = deque()
        self._keys: set[bytes] = set()
        self.sent = 0
        self.messages = 0
        self.refused = 0
        self.flushed = 0

    @property
    def users(self) -> int:
        """How many users the messages belong to."""
        return len(self._keys)

    async def publish(
        self, source: str, chunks: AsyncIterator[bytes], on_read: Callable[[int], None] = lambda size: None
    ) -> None:
        """Send every line of a file and wait until the broker has acknowledged them all.

        Args:
            source: its name, for refusals.
            chunks: its content.
            on_read: called with the size of each chunk after its lines are handed to the producer.

        Raises:
            KafkaError: when the broker does not take what is sent.
            OSError: when the file cannot be read on.
        """
        splitter = LineSplitter(MAX_MESSAGE_BYTES)
        async for chunk in chunks:
            for line in splitter.feed(chunk):
                await self._publish(source, line)
            on_read(len(chunk))
        for line in splitter.finish():
            await self._publish(source, line)
        await self._settle(0)

    async def flush_windows(self) -> None:
        """Close the windows of all users seen so far, behind their messages.

        Raises:
            KafkaError: when the broker does not take what is sent.
        """
        futures = []
        for key in sorted(self._keys):
            tenant_id, user_id = split_user_key(key)
            event = ChatMessage(type="flush", tenant_id=tenant_id, user_id=user_id)
            futures.append(await self._producer.send(self._topic, value=encode(event), key=key))
        for future in futures:
            await future
            self.flushed += 1

    async def _publish(self, source: str, line: Line) -> None:
        if line.data is not None and not line.data.strip():
            return
        try:
            data, message = read_line(line, self._tenant)
            key = message.key
        except (InvalidRecord, UnicodeEncodeError) as error:
            self._refuse(source, line.number, str(error))
            return
        await self._send(source, line.number, key, data)
        self._keys.add(key)
        self.messages += message.type == "message"

    async def _send(self, source: str, number: int, key: bytes, data: bytes) -> None:
        try:
            future = await self._producer.send(self._topic, value=data, key=key)
        except MessageSizeTooLargeError as error:
            self._refuse(source, number, f"too large for Kafka: {error}")
            return
        self._open.append((future, source, number))
        await self._settle(_UNACKNOWLEDGED_LIMIT)

    async def _settle(self, limit: int) -> None:
        """Take in what is acknowledged, and wait until at most `limit` messages are not."""
        while self._open and (len(self._open) > limit or self._open[0][0].done()):
            future, source, number = self._open.popleft()
            try:
                await future
            except MessageSizeTooLargeError:
                self._refuse(source, number, "larger than the broker takes (its max.message.bytes)")
            else:
                self.sent += 1

    def _refuse(self, source: str, number: int, reason: str) -> None:
        self.refused += 1
        self._on_refused(Refusal(source, number, reason))


def read_line(line: Line, tenant: str | None = None) -> tuple[bytes, ChatMessage]:
    """Return what is sent for a line, and the message in it.

    Args:
        line: one that is not blank.
        tenant: of the message, where it names none, in place of the default one.

    Raises:
        InvalidRecord: when it cannot be processed; the message says why.
    """
    if line.data is None:
        raise InvalidRecord(f"{line.size} bytes are more than the {MAX_MESSAGE_BYTES} that a message may have")
    data = line.data if tenant is None else _with_tenant(line.data, tenant)
    return data, decode_message(data)


def _with_tenant(data: bytes, tenant: str) -> bytes:
    fields = decode(data, dict[str, msgspec.Raw])
    if "tenant_id" in fields:
        return data
    return msgspec.json.encode({"tenant_id": tenant, **fields})
