"""`came_before`: whether a dead letter is of the time before its user was forgotten, and `headings`, when that was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from schemas.codec import InvalidRecord, decode
from schemas.dead_letters import REDRIVE_HEADER
from schemas.deltas import FlushEvent
from schemas.flushes import FlushRef
from streams.letters import Content, Letter, User

Forgotten = Callable[[Iterable[User]], Awaitable[Sequence[FlushEvent]]]
"""Returns for each of these users who was forgotten the last event that says so."""


async def headings(forgotten: Forgotten, letters: Iterable[Letter]) -> dict[User, FlushRef]:
    """Return the headings under which users of these letters were forgotten last."""
    events = await forgotten({letter.user for letter in letters if letter.user is not None})
    return {(event.flush.tenant_id, event.flush.user_id): event.flush for event in events}


class _Headed(msgspec.Struct):
    """The heading of a flush, under either of the names that records have for it."""

    ref: FlushRef | None = None
    flush: FlushRef | None = None


def came_before(letter: Letter, content: Content, forgotten: FlushRef, log_id: str, messages: str) -> bool:
    """Whether the record in a letter is of what was said before its user was to be forgotten.

    Args:
        letter: the letter.
        content: the record.
        forgotten: heading under which the user is forgotten.
        log_id: name of the message log that the letter lies on.
        messages: name of the chat topic.
    """
    why = letter.why
    written_before = content.timestamp <= forgotten.closed_at.timestamp() * 1000
    place = (why.log_id or log_id, why.partition)
    if why.topic == messages and place == (forgotten.log_id, forgotten.partition):
        # One that was sent again lies behind what was written after it.
        sent_again = REDRIVE_HEADER in dict(content.headers)
        return why.offset < forgotten.last_offset or (sent_again and written_before)
    headed = _Headed()
    if why.topic != messages:  # what an application wrote is no heading, whatever its fields are called
        with suppress(InvalidRecord):
            headed = decode(content.value, _Headed)
    flush = headed.ref or headed.flush
    if flush is None:
        return written_before
    if (flush.log_id, flush.partition) == (forgotten.log_id, forgotten.partition):
        return flush.last_offset < forgotten.last_offset
    return flush.closed_at <= forgotten.closed_at
