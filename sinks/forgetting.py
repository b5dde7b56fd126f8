"""Which flush events are of the time before their user was forgotten; every store goes by the same rule."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.deltas import FlushEvent


def without_forgotten_events(events: Iterable[FlushEvent], forgotten: Iterable[FlushEvent]) -> list[FlushEvent]:
    """Return the events that are left of a batch, in their order.

    Args:
        events: of any users.
        forgotten: those that say that their user is forgotten; they stay.
    """
    by_user: dict[tuple[str, str], list[FlushEvent]] = {}
    for end in forgotten:
        by_user.setdefault((end.flush.tenant_id, end.flush.user_id), []).append(end)

    def stays(event: FlushEvent) -> bool:
        ends = by_user.get((event.flush.tenant_id, event.flush.user_id), ())
        return not any(_is_before(event, end) for end in ends)

    return [event for event in events if stays(event)]


def _is_before(event: FlushEvent, end: FlushEvent) -> bool:
    """Whether an event is of the time before: offsets tell it in the same log, the clock between two."""
    if (event.flush.log_id, event.flush.partition) == (end.flush.log_id, end.flush.partition):
        return event.flush.last_offset < end.flush.last_offset
    return event.recorded_at <= end.recorded_at
