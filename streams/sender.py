"""`Sender`: produces records and returns when the broker has them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from aiokafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError
from faust.exceptions import ProducerSendError

from streams.errors import DependencyDown, RecordFailed


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to be produced; `timestamp` in seconds since the epoch, or None for now."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int
    headers: Sequence[tuple[str, bytes]] = field(default=())
    timestamp: float | None = None


class Channel(Protocol):
    """A Faust topic, as far as it is produced to."""

    def send(
        self,
        *,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp: float | None,
        headers: Any,
    ) -> Awaitable[Awaitable[Any]]:
        """Hand a record to the producer; what it returns is done when the broker has the record."""
        ...


async def delivered(send: Callable[[], Awaitable[Any]], what: str) -> None:
    """Await a send, and name its failure.

    Raises:
        RecordFailed: the record is too large; no other try will help.
        DependencyDown: the broker did not take it.
    """
    try:
        await send()
    except (KafkaError, ProducerSendError, TimeoutError, ConnectionError) as error:
        # What the client raises while a record is enqueued comes wrapped by Faust, what it raises later does not.
        cause = error.__cause__ if isinstance(error, ProducerSendError) and error.__cause__ else error
        if isinstance(cause, MessageSizeTooLargeError | RecordListTooLargeError):
            raise RecordFailed("record_too_large", f"{what} is larger than the broker takes: {cause}") from error
        raise DependencyDown(f"Kafka did not take {what}: {type(cause).__name__}: {cause}") from error


class Sender:
    """Produces to the application's topics."""

    def __init__(self, channels: Mapping[str, Channel]) -> None:
        self._channels = channels

    async def send(self, *records: Outgoing) -> None:
        """Produce records, in this order, and return when the broker has all of them.

        Raises:
            RecordFailed: one of them is too large.
            DependencyDown: the broker did not take one; the others may have been taken: sending all of them again is
                harmless, since their ids are derived.
        """

        async def send_all() -> None:
            # Enqueued one after the other, which keeps their order; delivered together.
            pending = [
                await self._channels[record.topic].send(
                    key=record.key,
                    value=record.value,
                    partition=record.partition,
                    timestamp=record.timestamp,
                    headers=list(record.headers) or None,
                )
                for record in records
            ]
            await asyncio.gather(*pending)

        await delivered(send_all, f"a record for {records[0].topic}" if records else "nothing")
