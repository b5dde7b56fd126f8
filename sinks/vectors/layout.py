"""How a collection is laid out: its name, its two vectors, the graph of each tenant, the indexes of its payload."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Final

from schemas.deltas import FlushEvent
from sinks.vectors.points import ALL_KINDS, User
from sinks.vectors.qdrant import models

DENSE: Final = "dense"
SPARSE: Final = "sparse"

_LAYOUT: Final = 2
"""Part of a collection's name: points of another layout are never mixed with these."""

_KEYWORD: Final = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD)
INDEXES: Final[Mapping[str, models.KeywordIndexParams | models.PayloadSchemaType]] = {
    "tenant_id": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    **dict.fromkeys(("user_id", "kind", "topic", "sub_topic", "tags", "log_id"), _KEYWORD),
    **dict.fromkeys(("version", "partition", "last_offset"), models.PayloadSchemaType.INTEGER),
    **dict.fromkeys(("valid_from", "said_at", "recorded_at"), models.PayloadSchemaType.DATETIME),
}
"""Every field that is filtered by: a server may refuse to filter by what has no index."""

GRAPH: Final = models.HnswConfigDiff(m=0, payload_m=16)
"""No graph over everybody, which no query would use, but one for each tenant."""


def collection_name(prefix: str, embedder: str, dimension: int) -> str:
    """Return the name of the collection that holds the vectors of this embedder."""
    return f"{prefix}-{embedder}-{dimension}-{_LAYOUT}"


def dense_params(dimension: int) -> dict[str, models.VectorParams]:
    """Return the parameters of the vectors of meaning."""
    return {DENSE: models.VectorParams(size=dimension, distance=models.Distance.COSINE)}


def sparse_params() -> dict[str, models.SparseVectorParams]:
    """Return the parameters of the vectors of words, each word weighted by its rarity."""
    return {SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)}


def where(*, kinds: Collection[str] = ALL_KINDS, **fields: str | None) -> models.Filter:
    """Return the filter for points of these kinds whose fields are as named; None leaves a field open."""
    must: list[models.Condition] = [
        models.FieldCondition(key=field, match=models.MatchValue(value=value))
        for field, value in fields.items()
        if value is not None
    ]
    if set(kinds) != set(ALL_KINDS):
        must.append(models.FieldCondition(key="kind", match=models.MatchAny(any=sorted(kinds))))
    return models.Filter(must=must)


def of_users(users: Iterable[User], kinds: Collection[str]) -> models.Filter:
    """Return the filter for points of these kinds of any of these users."""
    return models.Filter(
        should=[where(tenant_id=tenant_id, user_id=user_id) for tenant_id, user_id in users], must=[where(kinds=kinds)]
    )


def older_than(versions: Mapping[User, int]) -> models.Filter:
    """Return the filter for what users have from before a version; gists have no version that tells."""
    older: list[models.Condition] = [
        models.Filter(
            must=[
                where(tenant_id=tenant_id, user_id=user_id),
                models.FieldCondition(key="version", range=models.Range(lt=version)),
            ]
        )
        for (tenant_id, user_id), version in versions.items()
    ]
    return models.Filter(should=older, must_not=[where(kinds=["gist"])])


def not_newer(versions: Mapping[str, int]) -> models.Filter:
    """Return the filter for these points with at most these versions."""
    return _each({point: _at_most("version", models.Range(lte=version)) for point, version in versions.items()})


def recorded_by(times: Mapping[str, datetime]) -> models.Filter:
    """Return the filter for these points where they were recorded no later than that."""
    return _each({point: _at_most("recorded_at", models.DatetimeRange(lte=time)) for point, time in times.items()})


def _at_most(field: str, bound: models.Range | models.DatetimeRange) -> models.FieldCondition:
    return models.FieldCondition(key=field, range=bound)


def _each(conditions: Mapping[str, models.FieldCondition]) -> models.Filter:
    """Return the filter for these points, each where its own condition holds."""
    return models.Filter(
        should=[
            models.Filter(must=[models.HasIdCondition(has_id=[point]), condition])
            for point, condition in conditions.items()
        ]
    )


def gists_before(forgotten: Iterable[FlushEvent]) -> models.Filter:
    """Return the filter for gists from before users were forgotten.

    Offsets tell what came before in the same log, the clock between two, as in the archive.
    """
    return models.Filter(should=[_gists_before(event) for event in forgotten])


def _gists_before(event: FlushEvent) -> models.Filter:
    flush = event.flush
    same_log = models.Filter(
        must=[
            models.FieldCondition(key="log_id", match=models.MatchValue(value=flush.log_id)),
            models.FieldCondition(key="partition", match=models.MatchValue(value=flush.partition)),
        ]
    )
    before = models.Filter(
        must=[same_log, models.FieldCondition(key="last_offset", range=models.Range(lt=flush.last_offset))]
    )
    earlier = models.Filter(
        must=[models.FieldCondition(key="recorded_at", range=models.DatetimeRange(lte=event.recorded_at))],
        must_not=[same_log],
    )
    return models.Filter(
        must=[where(kinds=["gist"], tenant_id=flush.tenant_id, user_id=flush.user_id)], should=[before, earlier]
    )
