"""`Sender`: sends the traffic at its pace, and knows of every record when it was sent and where it is."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from aiokafka import AIOKafkaProducer

from benchmarks.load.pace import Pace
from benchmarks.load.traffic import Message
from schemas.codec import encode
from schemas.messages import ChatMessage, split_user_key

_UNACKNOWLEDGED: Final = 10_000
_YIELD_EVERY: Final = 100
"""Messages after which others have their turn, where the producer's queue gives them none."""

_TICK: Final = 0.02
"""Seconds in which messages that are due are sent together: one by one they would cost the broker and this process as
much as all that is made of them costs the workers, which are on the same processors."""

_NONE: Final = -1.0


class _Sent:
    """What is known of the records of one partition, by offset; of what is not known, -1."""

    def __init__(self) -> None:
        self.moments = array("d")
        self.followers = array("q")

    def add(self, offset: int, moment: float) -> None:
        missing = offset + 1 - len(self.moments)
        if missing > 0:
            self.moments.extend([_NONE] * missing)
            self.followers.extend([-1] * missing)
        self.moments[offset] = moment


class Sender:
    """Sends messages, and at the end an event for each user that closes their window.

    Args:
        producer: started.
        topic: the chat topic.

    Attributes:
        acknowledged: messages that the broker has, control events not counted.
        began: when the first message was sent, in seconds since the epoch.
        ended: when the last one was acknowledged.
    """

    def __init__(self, producer: AIOKafkaProducer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._partitions: dict[int, _Sent] = {}
        self._last: dict[bytes, tuple[int, int]] = {}
        self._open: deque[tuple[asyncio.Future[Any], bytes]] = deque()
        self.acknowledged = 0
        self.began = 0.0
        self.ended = 0.0

    async def send(self, messages: Sequence[Message], pace: Pace) -> None:
        """Send all of them, and wait until the broker has them.

        Raises:
            KafkaError: when it does not take them.
        """
        begun = time.monotonic()
        self.began = time.time()
        for position, message in enumerate(messages):
            wait = begun + pace.due(position, len(messages)) - time.monotonic()
            if wait > 0:
                await self._settle(_UNACKNOWLEDGED)
                await asyncio.sleep(max(wait, _TICK))
            elif position % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
            self._open.append((await self._send(message.key, message.value), message.key))
            await self._settle(_UNACKNOWLEDGED)
        await self._settle(0)
        self.ended = time.time()

    async def close_windows(self) -> None:
        """Close the windows of all users to whom something was sent.

        Raises:
            KafkaError: when the broker does not take the events.
        """
        events = []
        for key in sorted(self._last):
            tenant_id, user_id = split_user_key(key)
            event = ChatMessage(type="flush", tenant_id=tenant_id, user_id=user_id)
            events.append(await self._send(key, encode(event)))
        for event_sent in events:
            await event_sent

    @property
    def users(self) -> int:
        """How many users messages were sent to."""
        return len(self._last)

    def sent_at(self, partition: int, offset: int) -> float | None:
        """Return when a message was sent, by the timestamp of its record, or None when it is not known yet."""
        sent = self._partitions.get(partition)
        if sent is None or not 0 <= offset < len(sent.moments) or sent.moments[offset] == _NONE:
            return None
        return sent.moments[offset]

    def following(self, partition: int, offset: int) -> int | None:
        """Return the offset of the next message of the same user, or None when there is none."""
        sent = self._partitions.get(partition)
        if sent is None or not 0 <= offset < len(sent.followers) or sent.followers[offset] < 0:
            return None
        return sent.followers[offset]

    async def _send(self, key: bytes, value: bytes) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = await self._producer.send(self._topic, key=key, value=value)
        return future

    async def _settle(self, limit: int) -> None:
        """Take in what is acknowledged, and wait until at most `limit` messages are not."""
        while self._open and (len(self._open) > limit or self._open[0][0].done()):
            future, key = self._open.popleft()
            record = await future
            self._partitions.setdefault(record.partition, _Sent()).add(record.offset, record.timestamp / 1000)
            before = self._last.get(key)
            if before is not None:
                self._partitions[before[0]].followers[before[1]] = record.offset
            self._last[key] = (record.partition, record.offset)
            self.acknowledged += 1
