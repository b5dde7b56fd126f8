"""Derived identifiers: the same input always has the same id, so that a repeat is recognised as one.

No id here depends on a clock, a random number or the text of a model.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID, uuid5

_NAMESPACE: Final = UUID("0b0f6a4e-6c58-5f0c-9d52-2f6f3f0c7a11")
_SEPARATOR: Final = "\x1f"


def derive(kind: str, *parts: str | int) -> str:
    """Return the UUID (text form) that belongs to these parts, and to no others of that kind.

    A separator inside a part is escaped, so that ``("a", "b")`` and ``("a\\x1fb",)`` differ.
    """
    escaped = (str(part).replace("\\", "\\\\").replace(_SEPARATOR, "\\s") for part in parts)
    return str(uuid5(_NAMESPACE, _SEPARATOR.join((kind, *escaped))))


def flush_id(
    log_id: str, tenant_id: str, user_id: str, lane: str, partition: int, first_offset: int, last_offset: int
) -> str:
    """Id of the flush batch that holds these messages: the same messages always make the same id.

    `log_id` names the message log whose offsets these are (see `schemas.flushes.FlushRef`): offsets of a
    rebuilt cluster start at 0 again and must not be taken for the old ones.
    """
    return derive("flush", log_id, tenant_id, user_id, lane, partition, first_offset, last_offset)


def event_id(flush: str, attempt: str = "") -> str:
    """Id of the one `FlushEvent` of a flush; sent again from the dead letters, it ends again (`FlushRef.attempt`)."""
    return derive("event", flush, attempt) if attempt else derive("event", flush)


def delta_id(flush: str, index: int, attempt: str = "") -> str:
    """Id of the delta at position `index` (from 0) among those of a flush; `attempt` as for `event_id`."""
    return derive("delta", flush, index, attempt) if attempt else derive("delta", flush, index)


def letter_id(log_id: str, topic: str, partition: int, offset: int, stage: str) -> str:
    """Id of the dead letter that a stage made of the record at this place: parked twice, it is one letter."""
    return derive("letter", log_id, topic, partition, offset, stage)


def slot_id(tenant_id: str, user_id: str, kind: str, topic: str, sub_topic: str) -> str:
    """Id of a profile slot; also the id of its point in the vector store, so a later value overwrites it."""
    return derive("slot", tenant_id, user_id, kind, topic, sub_topic)


def fact_id(flush: str, number: int) -> str:
    """Id of the fact that a flush brought at position `number`; it stays when the fact's text is replaced."""
    return derive("fact", flush, number)


def preference_id(flush: str, number: int) -> str:
    """Id of the preference that a flush brought at position `number`; likewise."""
    return derive("preference", flush, number)


def message_id(log_id: str, partition: int, offset: int) -> str:
    """Id of a message that came without one: its place in the log."""
    return f"{log_id}:{partition}:{offset}"
