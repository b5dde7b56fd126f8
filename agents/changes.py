"""`Changes`: what a flush does to a profile, collected within the limits that a record must keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from agents.processor import SlotName
from schemas.deltas import Operation
from schemas.profiles import Profile
from schemas.stages import Candidate, Dropped, ModelCall

SEPARATOR: Final = "; "
"""Between the items of a slot that holds several."""

MAX_SLOT_CHARACTERS: Final = 16_000
"""A slot is not extended beyond this: every record that holds it must stay within what the broker takes."""

MAX_PROFILE_BYTES: Final = 4_000_000
"""Nothing is added to a profile beyond this, as JSON: the same reason."""

MAX_CHANGED_BYTES: Final = 2_000_000
"""What the changes of one flush may hold, before and after together, as JSON: the same reason."""

_SLOT_BYTES: Final = 500
"""What a slot takes beside its value."""


@dataclass(slots=True)
class Change:
    """One change of one slot, before it has a version.

    Attributes:
        candidate: the value that led to it.
        before: the slot's value before, or None.
        after: the value then, or None when the slot is emptied.
        added: only what is new.
        reason: why, for people.
        hits: the slot's count of given content after it; None counts by the operation.
        said_at: when the newest evidence was written; None takes it from the candidate's.
    """

    candidate: Candidate
    op: Operation
    before: str | None
    after: str | None
    added: str | None
    reason: str
    hits: int | None = None
    said_at: datetime | None = None

    @property
    def slot(self) -> SlotName:
        """The slot that it changes."""
        return self.candidate.topic, self.candidate.sub_topic


class Changes:
    """The changes of one flush in their order, and what was dropped and asked on the way.

    Attributes:
        made: the changes.
        dropped: what could not be used, with the reason.
        calls: the model calls that were made.
    """

    def __init__(self, profile: Profile) -> None:
        self.made: list[Change] = []
        self.dropped: list[Dropped] = []
        self.calls: list[ModelCall] = []
        self._values = {slot.key: slot.value for slot in profile.slots}
        self._profile_bytes = sum(_SLOT_BYTES + _size(value) for value in self._values.values())
        self._changed_bytes = 0

    @property
    def values(self) -> Mapping[SlotName, str]:
        """The values of all slots after the changes so far."""
        return self._values

    def make(self, change: Change) -> None:
        """Take a change, unless it would make a record larger than the broker takes: then it is dropped and counted."""
        reason = self._objection([change])
        if reason is None:
            self._take(change)
        else:
            self.drop(reason, change.candidate)

    def make_all(self, changes: Sequence[Change]) -> bool:
        """Take changes that belong together, all of them or none; returns whether they were taken."""
        if self._objection(changes) is not None:
            return False
        for change in changes:
            self._take(change)
        return True

    def _objection(self, changes: Sequence[Change]) -> str | None:
        growth = sum(map(_growth, changes))
        if any(len(change.after or "") > MAX_SLOT_CHARACTERS and _growth(change) > 0 for change in changes):
            return "slot_full"
        if growth > 0 and self._profile_bytes + growth > MAX_PROFILE_BYTES:
            return "profile_full"
        if self._changed_bytes + sum(map(_changed, changes)) > MAX_CHANGED_BYTES:
            return "flush_full"
        return None

    def _take(self, change: Change) -> None:
        self._changed_bytes += _changed(change)
        self._profile_bytes += _growth(change)
        self.made.append(change)
        if change.after is None:
            self._values.pop(change.slot, None)
        else:
            self._values[change.slot] = change.after

    def drop(self, reason: str, candidate: Candidate, why: str = "") -> None:
        """Count a candidate that changes nothing."""
        detail = f"{candidate.topic}/{candidate.sub_topic}: {candidate.memo}" + (f" ({why})" if why else "")
        self.dropped.append(Dropped(stage="merge", reason=reason, detail=detail[:200]))


def _size(text: str | None) -> int:
    return 0 if text is None else len(text.encode())


def _changed(change: Change) -> int:
    return _size(change.before) + _size(change.after) + _size(change.added)


def _growth(change: Change) -> int:
    before = 0 if change.before is None else _SLOT_BYTES + _size(change.before)
    after = 0 if change.after is None else _SLOT_BYTES + _size(change.after)
    return after - before
