"""`VectorIndex`: one collection of Qdrant, a server or the embedded one, written and searched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Final, TypeVar

import httpx
import msgspec

from schemas.deltas import FlushEvent, ProfileDelta
from sinks.embeddings import Embedder, Vector
from sinks.errors import SinkRejected
from sinks.forgetting import without_forgotten_events
from sinks.sparse import sparse_passage, sparse_query
from sinks.vectors.errors import sink_errors
from sinks.vectors.layout import (
    DENSE,
    GRAPH,
    INDEXES,
    SPARSE,
    collection_name,
    dense_params,
    gists_before,
    not_newer,
    older_than,
    recorded_by,
    sparse_params,
    where,
)
from sinks.vectors.points import (
    ALL_KINDS,
    PROFILE_KINDS,
    SEARCHED_KINDS,
    Change,
    Stored,
    User,
    by_point,
    fold,
    gists,
    payload,
    rendering,
    user_of,
    user_point_id,
)
from sinks.vectors.qdrant import AsyncQdrantClient, UnexpectedResponse, models
from sinks.vectors.search import Retrieval, SimilarUser, VectorHit, question
from sinks.vectors.user_points import USERS_AT_ONCE, dense_of, renew_users
from sinks.vectors.writing import Operation, Point, upsert, write

Hit = TypeVar("Hit", VectorHit, SimilarUser)

_CONNECTIONS: Final = httpx.Limits(max_connections=None, max_keepalive_connections=10, keepalive_expiry=3.0)
"""By itself the client opens a connection for each request to a server on its own machine. One that was idle for longer
is not used again: Qdrant closes it after five seconds. They have no limit, since a request that is cancelled may leave
one behind that counts as in use until the client is closed."""

_POINTS_PER_REQUEST: Final = 64  # their JSON is made and read in the event loop


class VectorIndex:
    """Writes and searches one collection.

    Slots, facts and preferences have a point each, as long as they hold; so has each gist, a bullet of a flush's memo.
    A user has a point of their own, for finding users who are alike: the mean of the user's slots, facts and
    preferences. It is made anew from them after each change, as a sum that is added to would drift when a worker dies
    in between.

    The collection's name holds the embedder's name and dimension: another embedder has another collection. An alias,
    named as the beginning of the collection's name, tells which one is in use; only that one is searched.

    Every method may raise `SinkUnavailable` (worth trying again) or `SinkRejected` (not), and nothing else.
    """

    def __init__(
        self, *, url: str, embedder: Embedder, collection: str = "profiles", api_key: str = "", timeout: float = 30.0
    ) -> None:
        """Prepare a client; nothing is sent yet.

        Args:
            url: of Qdrant's REST interface.
            embedder: stays the caller's to close.
            collection: the alias, and the beginning of the collection's name.
            api_key: empty for a server without one.
            timeout: seconds a request may take, rounded up to whole ones.

        Attributes:
            guard: asked before each write of points; raises when this process may not write any more.
        """
        self.guard: Callable[[], None] = lambda: None
        self.alias = collection
        self.collection = collection_name(collection, embedder.name, embedder.dimension)
        self._url = url
        self._embedder = embedder
        self._client = AsyncQdrantClient(
            url=url,
            api_key=api_key or None,
            timeout=timeout,  # type: ignore[arg-type]  # annotated int, rounded up by the client
            check_compatibility=False,  # it would send a request from the constructor, blocking
            limits=_CONNECTIONS,
        )

    @property
    def embedder(self) -> Embedder:
        """What its vectors are made by."""
        return self._embedder

    async def open(self) -> None:
        """Create the collection and its payload indexes where they are missing.

        The first collection is taken into use at once; one that is made beside another, once it has been filled
        (`sinks.vectors.reindexing`).
        """
        with self._errors():
            if not await self._client.collection_exists(self.collection):
                await self._create()
            for field, schema in INDEXES.items():
                await self._client.create_payload_index(self.collection, field, field_schema=schema, wait=True)
            if await self._in_use() is None and not await self._others():
                await self._point_alias()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def ping(self) -> str:
        """Return the server's version."""
        with self._errors():
            return (await self._client.info()).version

    async def in_use(self) -> str | None:
        """Return the name of the collection that is searched, or None when none is yet."""
        with self._errors():
            return await self._in_use()

    async def take_into_use(self) -> None:
        """Have this collection searched from now on; readers change over at once, none finds nothing in between."""
        with self._errors():
            await self._point_alias()

    async def delete_collection(self, name: str) -> None:
        """Delete a collection with all that is in it, unless it is this one or does not exist."""
        if name != self.collection:
            with self._errors():
                await self._client.delete_collection(name)

    async def apply(self, deltas: Sequence[ProfileDelta]) -> None:
        """Bring the points of what changed up to date; all of it is durable when this returns.

        Where the store has the version of a delta or a later one already, nothing is written, so repeats and latecomers
        are harmless; only a point that was deleted since comes back, until the repeated deletion, which follows in the
        same order, deletes it again. The store compares once more when it writes: another worker may have come first
        since it was asked. A text that has not changed is not embedded again.

        A delta ``forget`` deletes all of its user's points with a version before its own, but the gists.
        """
        forgotten: dict[User, int] = {}
        for delta in deltas:
            if delta.op == "forget":
                forgotten[user_of(delta)] = max(delta.version, forgotten.get(user_of(delta), 0))
        if forgotten:
            await self._delete(older_than(forgotten))
        points = list(by_point(deltas, forgotten).items())
        changed = dict(forgotten)
        for start in range(0, len(points), _POINTS_PER_REQUEST):
            for user, version in await self._apply(dict(points[start : start + _POINTS_PER_REQUEST])):
                changed[user] = max(version, changed.get(user, 0))
        users = list(changed.items())
        for start in range(0, len(users), USERS_AT_ONCE):
            with self._errors():
                some = dict(users[start : start + USERS_AT_ONCE])
                await renew_users(self._client, self.collection, some, self.guard)

    async def apply_events(self, events: Sequence[FlushEvent]) -> None:
        """Write the gists of flushes; all of them are durable when this returns, and repeats are harmless.

        An event ``forgotten`` deletes its user's gists from before it.
        """
        ends = [event for event in events if event.outcome == "forgotten"]
        if ends:
            await self._delete(gists_before(ends))
        found: dict[str, dict[str, Any]] = {}
        for event in sorted(without_forgotten_events(events, ends), key=lambda event: event.recorded_at):
            found.update(gists(event))
        points = list(found.items())
        for start in range(0, len(points), _POINTS_PER_REQUEST):
            await self._apply_gists(dict(points[start : start + _POINTS_PER_REQUEST]))

    async def search(
        self,
        text: str,
        *,
        tenant_id: str,
        user_id: str | None = None,
        kind: str | None = None,
        topic: str | None = None,
        limit: int = 10,
        retrieval: Retrieval = "both",
    ) -> list[VectorHit]:
        """Find what means about the same, or shares the rarest words, in what is known in a tenant; best first.

        What neither comes up to the embedder's similarity floor nor shares a word is left out: fewer than `limit` hits,
        or none, is an answer.

        Args:
            text: what to look for.
            tenant_id: whose profiles.
            user_id: only this user's.
            kind: only ``slot``, ``fact``, ``preference`` or ``gist``.
            topic: only of this topic or category.
            limit: how many hits at most.
            retrieval: how to search.
        """
        await self._check_in_use()
        dense = await self._embedder.embed_query(text)
        sparse = await asyncio.to_thread(sparse_query, text)
        asked = question(
            dense,
            sparse,
            tenant_id=tenant_id,
            condition=where(
                kinds=SEARCHED_KINDS if kind is None else [kind], tenant_id=tenant_id, user_id=user_id, topic=topic
            ),
            floor=self._embedder.similarity_floor,
            limit=limit,
            retrieval=retrieval,
        )
        if asked is None:
            return []
        with self._errors():
            found = (await self._client.query_points(self.collection, **asked, with_payload=True)).points
            similarities = await self._similarities(dense, [point.id for point in found])
        return [self._hit(point, VectorHit, similarities.get(str(point.id), 0.0)) for point in found]

    async def similar_users(self, tenant_id: str, user_id: str, *, limit: int = 10) -> list[SimilarUser] | None:
        """Find the users of a tenant whose profiles are like this user's, best first.

        What lies below the embedder's similarity floor is left out. None when nothing is known of the user.
        """
        await self._check_in_use()
        own = user_point_id(tenant_id, user_id)
        with self._errors():
            stored = await self._client.retrieve(self.collection, [own], with_payload=False, with_vectors=[DENSE])
            if not stored:
                return None
            condition = where(kinds=["user"], tenant_id=tenant_id)
            condition.must_not = [models.HasIdCondition(has_id=[own])]
            found = await self._client.query_points(
                self.collection,
                query=dense_of(stored[0]),
                using=DENSE,
                query_filter=condition,
                limit=limit,
                score_threshold=self._embedder.similarity_floor,
                with_payload=True,
            )
        return [self._hit(point, SimilarUser, point.score) for point in found.points]

    async def count(
        self,
        tenant_id: str | None = None,
        user_id: str | None = None,
        *,
        kinds: Collection[str] = PROFILE_KINDS,
    ) -> int:
        """Count the points of these kinds of everyone, of a tenant or of a user."""
        with self._errors():
            condition = where(kinds=kinds, tenant_id=tenant_id, user_id=user_id)
            return (await self._client.count(self.collection, count_filter=condition, exact=True)).count

    async def holds_forgotten(self, deltas: Sequence[ProfileDelta], events: Sequence[FlushEvent]) -> bool:
        """Whether anything is from before these, each of which says that its user is forgotten."""
        conditions = [older_than({user_of(delta): delta.version for delta in deltas})] if deltas else []
        if events:
            conditions.append(gists_before(events))
        with self._errors():
            for condition in conditions:
                if (await self._client.scroll(self.collection, condition, limit=1, with_payload=False))[0]:
                    return True
        return False

    async def delete_user(self, tenant_id: str, user_id: str) -> int:
        """Delete every point of a user; return how many there were."""
        found = await self.count(tenant_id, user_id, kinds=ALL_KINDS)
        await self._delete(where(tenant_id=tenant_id, user_id=user_id))
        return found

    async def _create(self) -> None:
        try:
            await self._client.create_collection(
                self.collection,
                vectors_config=dense_params(self._embedder.dimension),
                sparse_vectors_config=sparse_params(),
                hnsw_config=GRAPH,
            )
        except UnexpectedResponse:
            # Another worker may have created it since.
            if not await self._client.collection_exists(self.collection):
                raise

    async def _in_use(self) -> str | None:
        aliases = (await self._client.get_aliases()).aliases
        return next((each.collection_name for each in aliases if each.alias_name == self.alias), None)

    async def _others(self) -> list[str]:
        """Return the collections of other embedders or layouts."""
        collections = (await self._client.get_collections()).collections
        beginning = f"{self.alias}-"
        return [each.name for each in collections if each.name.startswith(beginning) and each.name != self.collection]

    async def _point_alias(self) -> None:
        changes: list[models.AliasOperations] = []
        if await self._in_use() is not None:
            changes.append(models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self.alias)))
        created = models.CreateAlias(collection_name=self.collection, alias_name=self.alias)
        changes.append(models.CreateAliasOperation(create_alias=created))
        await self._client.update_collection_aliases(changes)

    async def _check_in_use(self) -> None:
        with self._errors():
            aliases = (await self._client.get_collection_aliases(self.collection)).aliases
        if not any(each.alias_name == self.alias for each in aliases):
            raise SinkRejected(
                f"collection {self.collection} is not in use yet, for it lacks what was known before: run "
                "`profilestream reindex`, which fills it and takes it into use"
            )

    async def _delete(self, condition: models.Filter) -> None:
        self.guard()
        with self._errors():
            selector = models.FilterSelector(filter=condition)
            await self._client.delete(self.collection, points_selector=selector, wait=True)

    async def _apply(self, by_id: Mapping[str, Sequence[ProfileDelta]]) -> list[tuple[User, int]]:
        """Compare with what is stored, embed what is new, and send everything as one request.

        Returns the users whose own vector has to be made anew, and the versions that they have come to. That includes
        those whose points are as they should be already: a worker may have died before it came to the user.
        """
        stored = await self._stored(by_id)
        deleted: dict[str, int] = {}
        renewed: dict[str, Change] = {}
        changed: dict[str, Change] = {}
        users: list[tuple[User, int]] = []
        for point, deltas in by_id.items():
            before = stored.get(point)
            newest = deltas[-1]
            if any(delta.op != "confirm" for delta in deltas) and (before is None or before.version <= newest.version):
                users.append((user_of(newest), newest.version))
            change = fold(before, deltas)
            if change is None:
                continue
            if newest.after is None:
                if before is not None:
                    deleted[point] = newest.version
            elif before is not None and before.text == newest.after:
                renewed[point] = change
            else:
                changed[point] = change
                users.append((user_of(newest), newest.version))
        operations: list[Operation] = [
            models.SetPayloadOperation(
                set_payload=models.SetPayload(payload=payload(change), filter=not_newer({point: change.delta.version}))
            )
            for point, change in renewed.items()
        ]
        if changed:
            texts = [rendering(change.delta) for change in changed.values()]
            written = await self._points(list(changed), texts, [payload(change) for change in changed.values()])
            unless = not_newer({point: change.delta.version for point, change in changed.items()})
            operations.append(upsert(written, unless))
        if deleted:
            operations.append(models.DeleteOperation(delete=models.FilterSelector(filter=not_newer(deleted))))
        if operations:
            self.guard()
            with self._errors():
                await write(self._client, self.collection, operations)
        return users

    async def _apply_gists(self, by_id: Mapping[str, dict[str, Any]]) -> None:
        with self._errors():
            stored = await self._client.retrieve(
                self.collection, list(by_id), with_payload=["recorded_at"], with_vectors=False
            )
        known = {str(point.id): datetime.fromisoformat((point.payload or {})["recorded_at"]) for point in stored}
        new = {
            point: fields
            for point, fields in by_id.items()
            if point not in known or known[point] < datetime.fromisoformat(fields["recorded_at"])
        }
        if not new:
            return
        points = await self._points(list(new), [fields["text"] for fields in new.values()], list(new.values()))
        unless = recorded_by({point: datetime.fromisoformat(fields["recorded_at"]) for point, fields in new.items()})
        self.guard()
        with self._errors():
            await write(self._client, self.collection, [upsert(points, unless)])

    async def _points(
        self, ids: Sequence[str], texts: Sequence[str], payloads: Sequence[Mapping[str, Any]]
    ) -> list[Point]:
        vectors = await self._embedder.embed_passages(texts)
        words = await asyncio.to_thread(lambda: [sparse_passage(text) for text in texts])
        return [
            Point(id=point, vector={DENSE: vector, SPARSE: sparse._asdict()}, payload=fields)
            for point, vector, sparse, fields in zip(ids, vectors, words, payloads, strict=True)
        ]

    async def _stored(self, points: Iterable[str]) -> dict[str, Stored]:
        with self._errors():
            found = await self._client.retrieve(
                self.collection, list(points), with_payload=["version", "text", "valid_from"], with_vectors=False
            )
        try:
            return {str(point.id): msgspec.convert(point.payload, Stored) for point in found}
        except msgspec.ValidationError as error:
            raise self._foreign(error) from error

    async def _similarities(self, vector: Vector, points: Sequence[models.ExtendedPointId]) -> dict[str, float]:
        """Return how near to a vector these points are: fused ranks do not tell it."""
        if not points:
            return {}
        condition = models.Filter(must=[models.HasIdCondition(has_id=list(points))])
        found = await self._client.query_points(
            self.collection,
            query=vector,
            using=DENSE,
            query_filter=condition,
            limit=len(points),
            search_params=models.SearchParams(exact=True),
        )
        return {str(point.id): point.score for point in found.points}

    def _hit(self, point: models.ScoredPoint, hit_type: type[Hit], score: float) -> Hit:
        try:
            return msgspec.convert({**(point.payload or {}), "score": score}, hit_type)
        except msgspec.ValidationError as error:
            raise self._foreign(error) from error

    def _foreign(self, error: msgspec.ValidationError) -> SinkRejected:
        return SinkRejected(
            f"collection {self.collection} at {self._url} has a point that is not of a profile ({error}): set "
            "qdrant.collection to a name of its own"
        )

    def _errors(self) -> AbstractContextManager[None]:
        """Turn what the client raises into the two errors of a sink."""
        return sink_errors(self._url, self.collection)
