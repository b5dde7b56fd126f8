"""The points that stand for users: each the mean of the user's slots, facts and preferences."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from sinks.embeddings import Vector
from sinks.vectors.layout import DENSE, not_newer, of_users
from sinks.vectors.points import PROFILE_KINDS, User, mean, user_payload, user_point_id
from sinks.vectors.qdrant import AsyncQdrantClient, models
from sinks.vectors.writing import Point, upsert, write

POINTS_OF_A_USER: Final = 128
"""Points that a user's own vector is the mean of, at the most."""

USERS_AT_ONCE: Final = 32

_POINTS_PER_PAGE: Final = 128  # the client reads their JSON in the event loop: some milliseconds


async def renew_users(
    client: AsyncQdrantClient, collection: str, users: Mapping[User, int], guard: Callable[[], None]
) -> None:
    """Make the points of users from those of their slots, facts and preferences, or delete them with the last of these.

    Of a user with more than `POINTS_OF_A_USER` they are made of that many, the first in the order of ids, which are as
    good as random: a sample that stays the same while others come and go.

    Between reading and writing a process may be suspended, and another go on in its place: it is asked again whether it
    may write, and a point that was made of a later version stays as it is.

    Args:
        client: of the store.
        collection: where the points are.
        users: and the version that each has come to; `USERS_AT_ONCE` at the most, since all of their points are held
            at once.
        guard: raises when this process may not write.
    """
    found = await _items(client, collection, users)
    made: list[Point] = []
    gone: dict[str, int] = {}
    versions: dict[str, int] = {}
    means = await asyncio.to_thread(_means, found)
    for user, items in found.items():
        point = user_point_id(*user)
        if not items:
            gone[point] = users[user]
            continue
        versions[point] = max(users[user], *((item.payload or {})["version"] for item in items))
        fields = user_payload(user, versions[point])
        made.append(Point(id=point, vector={DENSE: means[user]}, payload=fields))
    if gone:
        guard()
        await client.delete(collection, models.FilterSelector(filter=not_newer(gone)), wait=True)
    if made:
        guard()
        await write(client, collection, [upsert(made, not_newer(versions))])


def _means(found: Mapping[User, Sequence[models.Record]]) -> dict[User, Vector]:
    return {user: mean([dense_of(item) for item in items]) for user, items in found.items() if items}


async def _items(client: AsyncQdrantClient, collection: str, users: Iterable[User]) -> dict[User, list[models.Record]]:
    found: dict[User, list[models.Record]] = {user: [] for user in users}
    offset: models.ExtendedPointId | None = None
    while short := [user for user, items in found.items() if len(items) < POINTS_OF_A_USER]:
        page, offset = await client.scroll(
            collection,
            scroll_filter=of_users(short, PROFILE_KINDS),
            limit=_POINTS_PER_PAGE,
            offset=offset,
            with_payload=["tenant_id", "user_id", "version"],
            with_vectors=[DENSE],
        )
        for point in page:
            fields = point.payload or {}
            items = found[fields["tenant_id"], fields["user_id"]]
            if len(items) < POINTS_OF_A_USER:
                items.append(point)
        if offset is None:
            break
    return found


def dense_of(point: models.Record) -> Vector:
    """Return the vector of a point that was read with its vectors.

    Raises:
        ValueError: when it has no named ones.
    """
    vectors = point.vector
    if not isinstance(vectors, dict):
        raise ValueError(f"point {point.id} has no named vectors")
    return vectors[DENSE]  # type: ignore[return-value]  # the union of all kinds of vectors
