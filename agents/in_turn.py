"""`InTurn`: lets a message of lane ``facts`` be read only when the one before it has been merged.

Two messages of one user may come within a second. Read side by side, the second would not be set against what the
first has stated: a repeat would not be seen as one, nor a contradiction.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from msgspec.structs import replace

from schemas.flushes import FlushBatch
from schemas.profiles import ProfileState

logger = logging.getLogger(__name__)

_LONGEST: Final = 300.0


class Profiles(Protocol):
    """Where profiles are kept."""

    def read(self, key: bytes) -> ProfileState | None:
        """Return a user's record."""
        ...


class InTurn:
    """Waits for the merge of earlier messages.

    Args:
        profiles: the table that the merge writes.
        longest: seconds after which a message is read all the same: what it waits for may never be merged, as when no
            broker takes it.
    """

    def __init__(self, profiles: Profiles, longest: float = _LONGEST) -> None:
        self._profiles = profiles
        self._longest = longest
        self._waiting: dict[bytes, set[asyncio.Event]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def applied(self, key: bytes) -> None:
        """Say that a user's record has changed."""
        for changed in self._waiting.get(key, ()):
            changed.set()

    async def wait(self, key: bytes, batch: FlushBatch) -> None:
        """Return once the user's record has what came before this batch, or it has waited for too long."""
        changed = asyncio.Event()
        self._waiting.setdefault(key, set()).add(changed)
        try:
            async with asyncio.timeout(self._longest):
                while not self._is_its_turn(self._profiles.read(key), batch):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            logger.warning(
                "facts: an earlier message of this user has not been merged within %.0f s: going on", self._longest
            )
        finally:
            self._waiting[key].discard(changed)
            if not self._waiting[key]:
                del self._waiting[key]

    def _is_its_turn(self, state: ProfileState | None, batch: FlushBatch) -> bool:
        if batch.after is None or batch.ref.redrive:
            return True
        before = replace(batch.ref, first_offset=batch.after, last_offset=batch.after)
        return state is not None and state.has_applied(before)
