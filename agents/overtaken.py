"""`overtaken`: changes of a flush that was sent again, where the profile has moved on since.

Such a flush merges in as of its own time: what was said before the present value was cannot replace or remove it. It
is recorded, and the value stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from agents.changes import SEPARATOR, Change
from agents.processor import SlotName
from schemas.profiles import Profile, Retraction


@dataclass(frozen=True, slots=True)
class _Present:
    """What a slot holds after the changes so far, when that was said, and how often."""

    value: str
    said_at: datetime
    hits: int


def overtaken(
    changes: Iterable[Change],
    profile: Profile,
    occurred: Mapping[str, datetime],
    retracted: Iterable[Retraction] = (),
) -> list[Change]:
    """Return the changes with those that come too late turned into records of themselves.

    Args:
        changes: as the merge decided them.
        profile: before them.
        retracted: slots whose value was taken back before them.
        occurred: when each message of the flush was written, by its id.
    """
    slots = {slot.key: _Present(slot.value, slot.said_at, slot.update_hits) for slot in profile.slots}
    gone = {(each.topic, each.sub_topic): each.said_at for each in retracted}
    made: list[Change] = []
    for change in changes:
        said_at = max(occurred[message_id] for message_id in change.candidate.evidence)
        made.append(_as_of(said_at, change, slots.get(change.slot), gone.get(change.slot)))
        _take(made[-1], said_at, slots)
    return made


def _as_of(said_at: datetime, change: Change, present: _Present | None, gone: datetime | None) -> Change:
    if present is None:
        if gone is None or said_at >= gone:
            return change
        late = f"came late: said on {said_at:%Y-%m-%d}, before the value was taken back"
        return Change(change.candidate, "overtaken", None, None, change.candidate.memo, f"{late}: {change.reason}", 0)
    if said_at >= present.said_at:
        return _on(present.value, change)
    late = f"came late: said on {said_at:%Y-%m-%d}, before the present value"
    if change.op in {"append", "confirm"}:
        return replace(_on(present.value, change), reason=f"{change.reason} ({late})")
    value = present.value
    reason = f"{late}: {change.reason}"
    return Change(change.candidate, "overtaken", value, value, change.candidate.memo, reason, present.hits)


def _on(present: str, change: Change) -> Change:
    """Return a change as it is on what earlier ones have left, which may be more than the merge had thought."""
    if change.before == present:
        return change
    match change.op:
        case "append":
            return replace(change, before=present, after=present + SEPARATOR + (change.added or ""))
        case "confirm":
            return replace(change, before=present, after=present)
        case "add":
            return replace(change, op="update", before=present)
        case _:
            return replace(change, before=present)


def _take(change: Change, said_at: datetime, slots: dict[SlotName, _Present]) -> None:
    known = slots.get(change.slot)
    if change.after is None:
        slots.pop(change.slot, None)
    elif known is None:
        slots[change.slot] = _Present(change.after, said_at, 1)
    elif change.op != "overtaken":
        slots[change.slot] = _Present(change.after, max(said_at, known.said_at), known.hits + 1)
