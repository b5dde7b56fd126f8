"""`Join`: collects the answers of a flush's branches until all of them are there.

The parts that wait are unacknowledged records in the merge's ledger, so nothing needs to be stored: after a crash
they are read again, and the mark in the profile's record settles what had been applied already.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from schemas.flushes import Branch, FlushRef
from schemas.stages import Candidates
from streams.ledger import Entry


@dataclass(slots=True)
class Parts:
    """The answers of one flush that have come so far, each with its open record."""

    answers: dict[Branch, Candidates] = field(default_factory=dict)
    entries: dict[Branch, Entry] = field(default_factory=dict)

    @property
    def flush(self) -> FlushRef:
        """Heading of the flush."""
        return next(iter(self.answers.values())).flush


class Join:
    """Parts by flush; not thread-safe."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], Parts] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, entry: Entry, answer: Candidates) -> Parts | None:
        """Add an answer; returns all of them when it is the last one missing, None otherwise.

        A branch that answers twice, as it may after a crash, counts once: the first answer stands.
        """
        parts = self._waiting.setdefault(_name(answer.flush), Parts())
        parts.answers.setdefault(answer.branch, answer)
        parts.entries.setdefault(answer.branch, entry)
        if len(parts.answers) < len(answer.flush.branches):
            return None
        return parts

    def holds(self, entry: Entry, answer: Candidates) -> bool:
        """Whether this very record is the one that waits for its flush."""
        parts = self._waiting.get(_name(answer.flush))
        return parts is not None and parts.entries.get(answer.branch) is entry

    def take(self, flush: FlushRef) -> tuple[Entry, ...]:
        """Forget a flush that has ended and return the records that waited for it."""
        parts = self._waiting.pop(_name(flush), None)
        return tuple(parts.entries.values()) if parts else ()

    def clear(self) -> None:
        """Forget everything."""
        self._waiting.clear()


def _name(flush: FlushRef) -> tuple[str, str]:
    return flush.flush_id, flush.attempt
