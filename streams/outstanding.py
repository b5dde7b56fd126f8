"""`Outstanding`: what was emitted and has not yet reached the stores, for a stop that must leave nothing behind.

The embedded broker keeps nothing. Before it may stop, every batch that was sent must have ended and every delta
must be in ClickHouse and Qdrant. With a broker that survives, nobody needs to wait, and nothing is tracked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from schemas.deltas import FlushEvent
from schemas.flushes import FlushRef


class Outstanding:
    """A set of names that must disappear; not thread-safe."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._names)

    def add(self, names: Iterable[str]) -> None:
        """Begin to wait for these."""
        self._names.update(names)
        if self._names:
            self._empty.clear()

    def remove(self, names: Iterable[str]) -> None:
        """They have arrived; names that were never added are ignored."""
        self._names.difference_update(names)
        if not self._names:
            self._empty.set()

    def count(self, store: str) -> int:
        """Return how many of the names are of a store."""
        return sum(name.startswith(f"{store} ") for name in self._names)

    async def wait_empty(self) -> None:
        """Wait until nothing is outstanding."""
        await self._empty.wait()


class OpenFlushes:
    """The flushes whose end one store has not got yet; each is outstanding until then."""

    def __init__(self, store: str, outstanding: Outstanding) -> None:
        """Start with none.

        Args:
            store: name of the store, unlike that of any other.
            outstanding: what they are counted in.
        """
        self._store = store
        self._outstanding = outstanding
        self._open: dict[tuple[str, str], dict[str, int]] = {}

    def add(self, ref: FlushRef) -> None:
        """Begin to wait for the end of a flush."""
        self._outstanding.add([self._name(ref.flush_id)])
        if ref.lane != "forget":
            self._open.setdefault((ref.tenant_id, ref.user_id), {})[ref.flush_id] = ref.last_offset

    def ended(self, events: Iterable[FlushEvent]) -> None:
        """The store has these; of a user who is forgotten, all flushes before have ended too."""
        for event in events:
            self._outstanding.remove(map(self._name, self._ended_by(event.flush)))

    def _ended_by(self, ref: FlushRef) -> list[str]:
        user = (ref.tenant_id, ref.user_id)
        flushes = self._open.get(user, {})
        ended = [ref.flush_id]
        if ref.lane == "forget":
            ended += [flush_id for flush_id, last_offset in flushes.items() if last_offset <= ref.last_offset]
        for flush_id in ended:
            flushes.pop(flush_id, None)
        if not flushes:
            self._open.pop(user, None)
        return ended

    def _name(self, flush_id: str) -> str:
        return f"{self._store} flush {flush_id}"
