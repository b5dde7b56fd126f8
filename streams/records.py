"""The parts of Faust's events that the machinery uses, as protocols: unit tests need no Faust."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple, Protocol


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Message(Protocol):
    """A record as it was read from Kafka; `timestamp` is in seconds since the epoch."""

    topic: str
    partition: int
    offset: int
    timestamp: float
    key: bytes | None
    value: bytes | None
    headers: Any
    generation_id: int


class Event(Protocol):
    """A record in a Faust stream, acknowledged by hand."""

    message: Message

    def ack(self) -> bool:
        """Tell Faust that the record is processed, so that its offset may be committed."""
        ...


EventStream = AsyncIterator[Event]
"""The events of a topic, none of which is acknowledged by being taken."""


class Source(Protocol):
    """What the machinery asks of the running application about its events."""

    def is_current(self, event: Event) -> bool:
        """Whether the event belongs to the present assignment and records are flowing."""
        ...

    def crash(self, reason: Exception) -> None:
        """End the application, because going on could lose a record; what is not acknowledged is read again."""
        ...


def header_items(headers: Any) -> list[tuple[str, bytes]]:
    """Return Kafka headers as a list, whether Faust hands them over as a list, a mapping or None."""
    if not headers:
        return []
    if isinstance(headers, Mapping):
        return list(headers.items())
    return [(str(name), value) for name, value in headers]
