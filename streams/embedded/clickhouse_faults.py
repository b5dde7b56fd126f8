"""Faults that a test asks the embedded ClickHouse to commit; nothing over HTTP can ask for one."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

FaultKind = Literal["status", "delay", "drop_before", "drop_after", "truncate"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        kind: ``status`` answers with an HTTP status instead of running the statement; ``delay`` waits, then
            goes on; ``drop_before`` closes the connection instead of running it; ``drop_after`` runs it and
            closes the connection without an answer; ``truncate`` sends half of the answer.
        status: the HTTP status of ``status``.
        seconds: the wait of ``delay``.
        match: only statements that contain this text, whatever its case.
        times: how many statements it hits.
    """

    kind: FaultKind
    status: int = 503
    seconds: float = 0.0
    match: str = ""
    times: int = 1


class FaultPlan:
    """The faults still to come, in order; safe to use from several threads."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._lock = threading.Lock()
        self._pending: list[tuple[Fault, int]] = []
        self.add(*faults)

    def add(self, *faults: Fault) -> None:
        """Plan these faults after those already planned."""
        with self._lock:
            self._pending.extend((fault, fault.times) for fault in faults)

    def clear(self) -> None:
        """Forget every fault that has not happened yet."""
        with self._lock:
            self._pending.clear()

    def take(self, sql: bytes) -> Fault | None:
        """Return the first planned fault that concerns this statement, and use it up once."""
        lowered = sql.lower()
        with self._lock:
            for position, (fault, left) in enumerate(self._pending):
                if fault.match.lower().encode() in lowered:
                    if left > 1:
                        self._pending[position] = (fault, left - 1)
                    else:
                        del self._pending[position]
                    return fault
        return None

    @property
    def pending(self) -> int:
        """How many statements will still be hit."""
        with self._lock:
            return sum(left for _, left in self._pending)
