"""The vector index: one point in Qdrant for each profile slot, found by meaning, replaced by later deltas."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import msgspec
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from schemas.deltas import ProfileDelta
from schemas.ids import slot_id
from schemas.messages import AwareDatetime
from sinks.embeddings import Embedder
from sinks.errors import SinkRejected, SinkUnavailable

_POINTS_PER_REQUEST: Final = 64  # the client writes their JSON in the event loop: some milliseconds
_INDEXES: Final[dict[str, models.KeywordIndexParams]] = {
    "tenant_id": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    **{
        field: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD) for field in ("user_id", "kind", "topic")
    },
}


class VectorHit(msgspec.Struct, frozen=True, kw_only=True):
    """A profile slot that a search found.

    Attributes:
        text: the slot's value.
        score: cosine similarity to the query, at most 1; comparable only within one embedder.
        version: the profile's version that set the value.
        said_at: when the newest message behind the value was written.
    """

    user_id: str
    kind: str
    topic: str
    sub_topic: str
    text: str
    score: float
    version: int
    said_at: AwareDatetime


class VectorIndex:
    """Writes and searches profile slots in one collection of Qdrant, a server or the embedded one.

    The collection's name ends with the embedder's name and dimension: another embedder has another collection.
    Every method may raise `SinkUnavailable` (worth trying again) or `SinkRejected` (not), and nothing else.
    """

    def __init__(
        self, *, url: str, embedder: Embedder, collection: str = "profiles", api_key: str = "", timeout: float = 30.0
    ) -> None:
        """Prepare a client; nothing is sent yet.

        Args:
            url: of Qdrant's REST interface.
            embedder: stays the caller's to close.
            collection: beginning of the collection's name.
            api_key: empty for a server without one.
            timeout: seconds a request may take, rounded up to whole ones.
        """
        self.collection = f"{collection}-{embedder.name}-{embedder.dimension}"
        self._url = url
        self._embedder = embedder
        self._client = AsyncQdrantClient(
            url=url,
            api_key=api_key or None,
            timeout=timeout,  # type: ignore[arg-type]  # annotated int, rounded up by the client
            check_compatibility=False,  # it would send a request from the constructor, blocking
        )

    async def open(self) -> None:
        """Create the collection and its payload indexes where they are missing."""
        async with self._errors():
            if not await self._client.collection_exists(self.collection):
                await self._create()
            for field, schema in _INDEXES.items():
                await self._client.create_payload_index(self.collection, field, field_schema=schema, wait=True)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def ping(self) -> str:
        """Return the server's version."""
        async with self._errors():
            return (await self._client.info()).version

    async def apply(self, deltas: Sequence[ProfileDelta]) -> None:
        """Bring the points of the changed slots up to date; all of it is durable when this returns.

        For each slot the delta with the highest version counts. Where the store has that version or a later
        one already, nothing is written, so repeats and latecomers are harmless; only a slot that was deleted
        since comes back, until the repeated deletion, which follows in the same order, deletes it again.
        A value that has not changed is not embedded again.
        """
        newest: dict[str, ProfileDelta] = {}
        for delta in deltas:
            point = slot_id(delta.tenant_id, delta.user_id, delta.kind, delta.topic, delta.sub_topic)
            if point not in newest or newest[point].version < delta.version:
                newest[point] = delta
        points = list(newest.items())
        for start in range(0, len(points), _POINTS_PER_REQUEST):
            await self._apply(dict(points[start : start + _POINTS_PER_REQUEST]))

    async def search(
        self, text: str, *, tenant_id: str, user_id: str | None = None, topic: str | None = None, limit: int = 10
    ) -> list[VectorHit]:
        """Find the slots of a tenant that are nearest in meaning, best first.

        What lies below the embedder's similarity floor is left out: fewer than `limit` hits, or none, is an
        answer.
        """
        vector = await self._embedder.embed_query(text)
        async with self._errors():
            found = await self._client.query_points(
                self.collection,
                query=vector,
                query_filter=_where(tenant_id=tenant_id, user_id=user_id, topic=topic),
                limit=limit,
                score_threshold=self._embedder.similarity_floor,
                with_payload=True,
            )
        return [self._hit(point) for point in found.points]

    async def count(self, tenant_id: str | None = None, user_id: str | None = None) -> int:
        """Count the slots of everyone, of a tenant or of a user."""
        async with self._errors():
            condition = _where(tenant_id=tenant_id, user_id=user_id)
            return (await self._client.count(self.collection, count_filter=condition, exact=True)).count

    async def delete_user(self, tenant_id: str, user_id: str) -> int:
        """Delete every slot of a user; return how many there were."""
        found = await self.count(tenant_id, user_id)
        async with self._errors():
            selector = models.FilterSelector(filter=_where(tenant_id=tenant_id, user_id=user_id))
            await self._client.delete(self.collection, points_selector=selector, wait=True)
        return found

    async def _create(self) -> None:
        vectors = models.VectorParams(size=self._embedder.dimension, distance=models.Distance.COSINE)
        try:
            await self._client.create_collection(self.collection, vectors_config=vectors)
        except UnexpectedResponse:
            # Another worker may have created it since.
            if not await self._client.collection_exists(self.collection):
                raise

    async def _apply(self, newest: dict[str, ProfileDelta]) -> None:
        """Compare with what is stored, embed what is new, and send everything as one request."""
        async with self._errors():
            stored = await self._client.retrieve(
                self.collection, list(newest), with_payload=["version", "text"], with_vectors=False
            )
        present = {str(point.id): point.payload or {} for point in stored}
        deleted: list[models.ExtendedPointId] = []
        renewed: dict[str, ProfileDelta] = {}
        changed: dict[str, ProfileDelta] = {}
        for point, delta in newest.items():
            before = present.get(point)
            if before is not None and before.get("version", 0) >= delta.version:
                continue
            if delta.after is None:
                if before is not None:
                    deleted.append(point)
            elif before is not None and before.get("text") == delta.after:
                renewed[point] = delta
            else:
                changed[point] = delta
        vectors = await self._embedder.embed_passages([_rendering(delta) for delta in changed.values()])
        operations: list[models.UpdateOperation] = [
            models.SetPayloadOperation(set_payload=models.SetPayload(payload=_payload(delta), points=[point]))
            for point, delta in renewed.items()
        ]
        if changed:
            points = [
                models.PointStruct(id=point, vector=vector, payload=_payload(delta))
                for (point, delta), vector in zip(changed.items(), vectors, strict=True)
            ]
            operations.append(models.UpsertOperation(upsert=models.PointsList(points=points)))
        if deleted:
            operations.append(models.DeleteOperation(delete=models.PointIdsList(points=deleted)))
        if operations:
            async with self._errors():
                await self._client.batch_update_points(self.collection, operations, wait=True)

    def _hit(self, point: models.ScoredPoint) -> VectorHit:
        try:
            return msgspec.convert({**(point.payload or {}), "score": point.score}, VectorHit)
        except msgspec.ValidationError as error:
            raise SinkRejected(
                f"point {point.id} in collection {self.collection} at {self._url} is not a profile slot ({error}):"
                " set qdrant.collection to a name of its own"
            ) from error

    @asynccontextmanager
    async def _errors(self) -> AsyncIterator[None]:
        """Turn what the client raises into the two errors of a sink."""
        server = f"Qdrant at {self._url}"
        try:
            yield
        except ResourceExhaustedResponse as error:
            raise SinkUnavailable(
                f"{server} is too busy ({error}): it is asked again", float(error.retry_after_s)
            ) from error
        except ResponseHandlingException as error:
            if isinstance(error.source, httpx.TransportError):
                cause = type(error.source).__name__
                raise SinkUnavailable(
                    f"{server} does not answer ({cause}): is it running, and is qdrant.url right?"
                ) from error
            raise SinkRejected(f"{server} does not answer like Qdrant: check qdrant.url") from error
        except UnexpectedResponse as error:
            raise self._refusal(error) from error
        except QdrantException as error:  # too busy as well, with a wait that the client cannot read
            raise SinkUnavailable(f"{server} is too busy ({error}): it is asked again") from error
        except (ValueError, AssertionError) as error:  # an answer that is not JSON, or has no result in it
            raise SinkRejected(f"{server} does not answer like Qdrant: check qdrant.url") from error

    def _refusal(self, error: UnexpectedResponse) -> SinkUnavailable | SinkRejected:
        status = error.status_code or 0
        told = f"Qdrant at {self._url} answered {status} ({_reason(error)})"
        if status in {408, 429} or status >= 500:
            return SinkUnavailable(f"{told}: it is asked again")
        if status == 404:
            return SinkUnavailable(f"{told}: a worker creates collection {self.collection} when it starts")
        if status in {401, 403}:
            return SinkRejected(f"{told}: check qdrant.api_key")
        return SinkRejected(f"{told}: check qdrant.url and that collection {self.collection} is only used by us")


def _rendering(delta: ProfileDelta) -> str:
    """Put a slot into words for the embedder: "basic info city: Hangzhou".

    The names say what the value is about: "29" alone is an age as well as a shoe size. They are fixed parts of
    the point's id, so the vector depends on the value alone.
    """
    name = f"{delta.topic} {delta.sub_topic}".replace("_", " ")
    return f"{name}: {delta.after}"


def _payload(delta: ProfileDelta) -> dict[str, Any]:
    payload: dict[str, Any] = msgspec.to_builtins(
        {
            "tenant_id": delta.tenant_id,
            "user_id": delta.user_id,
            "kind": delta.kind,
            "topic": delta.topic,
            "sub_topic": delta.sub_topic,
            "text": delta.after,
            "version": delta.version,
            "evidence": delta.evidence,
            "said_at": delta.said_at,
            "recorded_at": delta.recorded_at,
        }
    )
    return payload


def _where(**fields: str | None) -> models.Filter:
    return models.Filter(
        must=[
            models.FieldCondition(key=field, match=models.MatchValue(value=value))
            for field, value in fields.items()
            if value is not None
        ]
    )


def _reason(error: UnexpectedResponse) -> str:
    """Return the server's own words, on one line."""
    try:
        words = str(error.structured()["status"]["error"])
    except (ValueError, KeyError, TypeError):
        words = error.reason_phrase
    return " ".join(words.split())[:300]
