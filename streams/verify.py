"""`verify_profiles`: whether the deltas in the archive, folded, make the profiles that the workers keep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Final, Protocol

from schemas.codec import decode
from schemas.profiles import Profile, ProfileState
from streams.settings import KafkaSettings
from streams.tail import tail
from streams.topics import Topics

_LOOKS: Final = 4
_BETWEEN_LOOKS: Final = 2.0  # seconds: what was under way at the first look has arrived by the last

User = tuple[str, str]
"""Tenant and user."""


class Profiles(Protocol):
    """The archive."""

    def profiles(self) -> AsyncIterator[ProfileState]:
        """Give the profile of every user, folded from the deltas."""
        ...

    async def profile(self, tenant_id: str, user_id: str) -> Profile:
        """Return the profile of one user, likewise."""
        ...


async def verify_profiles(
    archive: Profiles, kafka: KafkaSettings, *, progress: Callable[[int], None] = lambda _users: None
) -> tuple[int, list[tuple[str, str, str]]]:
    """Compare the archive with the table of profiles, user by user.

    Args:
        archive: whose deltas are folded.
        kafka: the broker that has the table's changelog.
        progress: told the number of users compared so far.

    Returns:
        The number of users, and those who differ: tenant, user, and a few words that say in what.

    Raises:
        KafkaUnavailable: when the broker does not answer.
    """
    table = await profiles_table(kafka)
    users = set(table)
    suspects: dict[User, str] = {}
    seen = 0
    async for state in archive.profiles():
        user = (state.profile.tenant_id, state.profile.user_id)
        users.add(user)
        if difference := _difference(state.profile, table.pop(user, None)):
            suspects[user] = difference
        seen += 1
        progress(seen)
    for user, profile in table.items():
        if difference := _difference(None, profile):
            suspects[user] = difference
    for _ in range(_LOOKS - 1):
        if not suspects:
            break
        await asyncio.sleep(_BETWEEN_LOOKS)
        suspects = await _again(archive, kafka, suspects)
    return len(users), [(*user, difference) for user, difference in sorted(suspects.items())]


async def _again(archive: Profiles, kafka: KafkaSettings, suspects: dict[User, str]) -> dict[User, str]:
    table = await profiles_table(kafka)
    found = {user: _difference(await archive.profile(*user), table.get(user)) for user in suspects}
    return {user: difference for user, difference in found.items() if difference}


async def profiles_table(kafka: KafkaSettings) -> dict[User, Profile]:
    """Return the profiles that the workers keep, from the changelog of their table.

    Raises:
        KafkaUnavailable: when the broker does not answer.
    """
    found: dict[User, Profile] = {}
    async with aclosing(tail(kafka, Topics.of(kafka).profiles_changelog)) as records:
        async for record in records:
            if record.value is not None:
                profile = decode(record.value, ProfileState).profile
                found[profile.tenant_id, profile.user_id] = profile
    return found


def _difference(archived: Profile | None, kept: Profile | None) -> str | None:
    """Say in what two profiles of a user differ; one that nothing was ever written to is as good as none."""
    if archived == kept or not any(profile is not None and profile.version for profile in (archived, kept)):
        return None
    if kept is None or archived is None:
        return "it is in the archive only" if kept is None else "it is in the table of profiles only"
    if archived.version != kept.version:
        return f"version {archived.version} in the archive, {kept.version} in the table of profiles"
    parts = ("slots", "facts", "replaced_facts", "preferences", "tags")
    unequal = [name for name in parts if getattr(archived, name) != getattr(kept, name)]
    return f"version {kept.version} of both, with different {' and '.join(unequal) or 'contents'}"
