"""`Outstanding`: what was emitted and has not yet reached the stores, for a stop that must leave nothing behind.

The embedded broker keeps nothing. Before it may stop, every batch that was sent must have ended and every delta
must be in ClickHouse and Qdrant. With a broker that survives, nobody needs to wait, and nothing is tracked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


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

    async def wait_empty(self) -> None:
        """Wait until nothing is outstanding."""
        await self._empty.wait()
