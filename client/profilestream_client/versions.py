"""`Versions`: recognises deltas that are sent again and versions that are missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from profilestream_client.records import ProfileDelta

REMEMBERED_USERS: Final = 1_000_000
REMEMBERED_DELTAS: Final = 100_000
"""How many of each are remembered, the newest; a worker sends again only what it sent last."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A user's deltas do not follow on each other: a profile made from them is not what the pipeline has.

    Attributes:
        tenant_id: tenant of the user.
        user_id: the user.
        expected: the version that should have come.
        found: the one that came. Lower than expected, the numbering began anew.
    """

    tenant_id: str
    user_id: str
    expected: int
    found: int


class _Seen(NamedTuple):
    first: int
    last: int


class Versions:
    """What a subscription has seen of each user.

    Args:
        complete: whether it began at the very first delta, so that each user's first version is 1. Otherwise the
            version that comes first is taken as it is.
        users: how many to remember.
        deltas: likewise.
    """

    def __init__(self, *, complete: bool, users: int = REMEMBERED_USERS, deltas: int = REMEMBERED_DELTAS) -> None:
        self._complete = complete
        self._max_users = users
        self._max_deltas = deltas
        self._users: dict[tuple[str, str], _Seen] = {}
        self._deltas: dict[str, None] = {}

    def repeats(self, delta: ProfileDelta) -> bool:
        """Whether this delta has been noted before."""
        return delta.delta_id in self._deltas

    def gap(self, delta: ProfileDelta) -> Gap | None:
        """Return what is wrong with the version of a delta that has not been noted yet; None if it is as it should be.

        The delta that forgets a user may leave versions out.
        """
        seen = self._users.get((delta.tenant_id, delta.user_id))
        if seen is None and not self._complete:
            return None
        if seen is not None and delta.version < seen.first:
            return None  # sent again from before the subscription began
        expected = seen.last + 1 if seen else 1
        if delta.version == expected or (delta.op == "forget" and delta.version > expected):
            return None
        return Gap(delta.tenant_id, delta.user_id, expected, delta.version)

    def note(self, delta: ProfileDelta) -> None:
        """Remember a delta as given out."""
        self._deltas[delta.delta_id] = None
        if len(self._deltas) > self._max_deltas:
            del self._deltas[next(iter(self._deltas))]
        user = (delta.tenant_id, delta.user_id)
        seen = self._users.pop(user, None)
        if seen is None:
            seen = _Seen(1 if self._complete else delta.version, delta.version)
        elif delta.version >= seen.first:
            seen = _Seen(seen.first, delta.version)
        self._users[user] = seen
        if len(self._users) > self._max_users:
            del self._users[next(iter(self._users))]
            self._complete = False
