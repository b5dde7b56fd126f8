"""Filling a collection from the archive, for another embedding model or after the store was lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Protocol

from schemas.deltas import FlushEvent, ProfileDelta
from sinks.vectors.index import VectorIndex

_EVERYTHING: Final = 2**62
_USERS_AT_ONCE: Final = 4  # while one user's texts are embedded, what others need is read and written


class Archive(Protocol):
    """What a collection is filled from; its methods may raise `SinkUnavailable` or `SinkRejected`."""

    def users(self) -> AsyncIterator[list[tuple[str, str]]]:
        """Give every user (tenant, user), a page at a time."""
        ...

    async def history(self, tenant_id: str, user_id: str, *, limit: int = ...) -> list[ProfileDelta]:
        """Return a user's newest deltas, oldest of them first."""
        ...

    async def events(self, tenant_id: str, user_id: str, limit: int = ...) -> Sequence[FlushEvent]:
        """Return a user's newest flush events, oldest of them first."""
        ...


async def reindex(archive: Archive, index: VectorIndex, progress: Callable[[int], None] = lambda _users: None) -> int:
    """Fill a collection with all that the archive knows, then take it into use; return how many users there are.

    Every point is written by the rules by which a worker writes it, so a worker may write to the same collection
    meanwhile, and what is there already is not embedded again: cut short anywhere, it is resumed by running it again.
    What the archive gets after its user's turn is left to the workers, which therefore should have this embedder
    already.

    Args:
        archive: what to fill it from.
        index: of the collection, which is created when missing.
        progress: told the number of users done so far.

    Raises:
        SinkUnavailable: when one of the stores does not answer; worth running again.
        SinkRejected: when one refuses.
    """
    await index.open()
    done = 0
    async for users in archive.users():
        for start in range(0, len(users), _USERS_AT_ONCE):
            some = users[start : start + _USERS_AT_ONCE]
            await asyncio.gather(*(_fill(archive, index, *user) for user in some))
            done += len(some)
            progress(done)
    await index.take_into_use()
    return done


async def _fill(archive: Archive, index: VectorIndex, tenant_id: str, user_id: str) -> None:
    await index.apply(await archive.history(tenant_id, user_id, limit=_EVERYTHING))
    await index.apply_events(await archive.events(tenant_id, user_id, limit=_EVERYTHING))
