"""`Sender`: produces records and returns when the broker has them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aiokafka.errors import (
    InvalidTimestampError,
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
)
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


TIMESTAMP_REFUSED: Final = "timestamp_refused"
"""Reason of a record whose timestamp is further ahead than the topic allows (``message.timestamp.after.max.ms``)."""


class Sends(Protocol):
    """Something that produces records."""

    async def send(self, record: Outgoing) -> None:
        """Produce a record; returns when the broker has it.

        Raises:
            RecordFailed: when no other try will help.
            DependencyDown: when the broker did not take it.
        """
        ...


class Produce(Protocol):
    """Hands a record to the producer."""

    def __call__(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int,
        timestamp: float | None,
        headers: list[tuple[str, bytes]] | None,
    ) -> Awaitable[Awaitable[Any]]:
        """Enqueue a record; what this returns is done when the broker has it."""
        ...


async def delivered(send: Callable[[], Awaitable[Any]], what: str) -> None:
    """Await a send, and name its failure.

    Raises:
        RecordFailed: the record is too large, or its timestamp too far ahead; no other try will help.
        DependencyDown: the broker did not take it.
    """
    try:
        await send()
    except (KafkaError, ProducerSendError, TimeoutError, ConnectionError) as error:
        # What the client raises while a record is enqueued comes wrapped by Faust, what it raises later does not.
        cause = error.__cause__ if isinstance(error, ProducerSendError) and error.__cause__ else error
        if isinstance(cause, MessageSizeTooLargeError | RecordListTooLargeError):
            raise RecordFailed("record_too_large", f"{what} is larger than the broker takes: {cause}") from error
        if isinstance(cause, InvalidTimestampError):
            raise RecordFailed(TIMESTAMP_REFUSED, f"the broker does not take the timestamp of {what}") from error
        raise DependencyDown(f"Kafka did not take {what}: {type(cause).__name__}: {cause}") from error


class Sender:
    """Produces records.

    Args:
        produce: hands one to the producer.
        guard: raises when this process may not write.
    """

    def __init__(self, produce: Produce, guard: Callable[[], None] = lambda: None) -> None:
        self._produce = produce
        self._guard = guard

    async def send(self, *records: Outgoing) -> None:
        """Produce records, in this order, and return when the broker has all of them.

        Raises:
            RecordFailed: one of them is too large, or its timestamp too far ahead.
            DependencyDown: the broker did not take one; the others may have been taken: sending all of them again is
                harmless, since their ids are derived.
        """

        self._guard()

        async def send_all() -> None:
            # Enqueued one after the other, which keeps their order; delivered together.
            pending = [
                await self._produce(
                    record.topic,
                    record.key,
                    record.value,
                    partition=record.partition,
                    timestamp=record.timestamp,
                    headers=list(record.headers) or None,
                )
                for record in records
            ]
            await asyncio.gather(*pending)

        await delivered(send_all, f"a record for {records[0].topic}" if records else "nothing")
