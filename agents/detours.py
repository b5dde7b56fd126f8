"""Records that took a detour: moved to their user's partition, or sent again from the dead letters.

Such a record comes later than those that were written after it, and one that was moved may come twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from agents.moved import MOVED_HEADER, Origin, merged
from schemas.dead_letters import REDRIVE_HEADER
from schemas.windows import Asked, Forgotten, WindowState
from streams.records import Message, header_items

_DETOURS: Final = frozenset({MOVED_HEADER, REDRIVE_HEADER})


def is_second_copy(
    origin: Origin | None, message: Message, log_id: str, state: WindowState | None, windowed: Iterable[Origin | None]
) -> bool:
    """Whether a moved record, or one behind it, has come before: its worker died before moves were acknowledged.

    Args:
        origin: where it was written first.
        message: the record.
        log_id: name of the message log.
        state: what is remembered of its user.
        windowed: where the messages in the user's open window were first.
    """
    if origin is None:
        return False
    state = state or WindowState()
    if state.forgotten is not None and is_at(state.forgotten, Origin(log_id, message.partition, message.offset)):
        return False  # the first copy, read again: the word to forget may not have been sent
    return origin.offset <= merged(state.moved, windowed).get(origin.place, -1)


def was_forgotten(headers: Any, origin: Origin | None, written: datetime, state: WindowState | None) -> bool:
    """Whether a record took a detour and was written before its user was forgotten.

    Of what was written to one partition the offsets say so, of other partitions the times, by the clocks of the
    publishers. What came onto its partition only after the request was read was not written before it.

    Args:
        headers: of the record.
        origin: where it was moved from, if it was.
        written: when it was written first.
        state: what is remembered of its user.
    """
    forgotten = state.forgotten if state is not None else None
    if forgotten is None or _DETOURS.isdisjoint(dict(header_items(headers))):
        return False
    if origin is None:
        return any(written <= asked.at for asked in forgotten.asked.values())
    known = origin.log_id == forgotten.log_id and origin.partition < len(forgotten.ends)
    came_later = known and origin.offset >= forgotten.ends[origin.partition]
    return any(
        origin.offset < asked.offset if place == origin.place else written <= asked.at and not came_later
        for place, asked in forgotten.asked.items()
    )


def forgotten_by(
    request: Origin, at: datetime, here: Origin, ends: Sequence[int], before: Forgotten | None
) -> Forgotten:
    """Return what is remembered after a further request to forget the user.

    Args:
        request: where it was written first.
        at: when.
        here: where it lies.
        ends: where each partition of the chat topic ends now.
        before: what was remembered.
    """
    asked = dict(before.asked) if before else {}
    earlier = asked.get(request.place)
    # A later request by a slower clock takes nothing back.
    asked[request.place] = Asked(offset=request.offset, at=max(at, earlier.at) if earlier else at)
    return Forgotten(log_id=here.log_id, partition=here.partition, offset=here.offset, asked=asked, ends=tuple(ends))


def is_at(forgotten: Forgotten, here: Origin) -> bool:
    """Whether the last request to forget a user lies here."""
    return Origin(forgotten.log_id, forgotten.partition, forgotten.offset) == here
