"""The requests of Qdrant's REST interface that are served: their exact shape.

Every struct forbids fields that it does not name: an option that is not served is refused, never ignored,
because an ignored option is a wrong answer.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

Distance = Literal["Cosine", "Dot", "Euclid", "Manhattan"]
IndexType = Literal["keyword", "integer", "float", "bool", "datetime", "uuid"]
PointId = Annotated[int, msgspec.Meta(ge=0)] | UUID
Payload = dict[str, Any]
Filter = dict[str, Any]
"""Checked and translated by `streams.embedded.qdrant_filters`."""

Limit = Annotated[int, msgspec.Meta(ge=1)]
Offset = Annotated[int, msgspec.Meta(ge=0)]


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    pass


class VectorParams(_Request):
    """The one vector that each point of a collection has."""

    size: Annotated[int, msgspec.Meta(ge=1, le=65536)]
    distance: Distance


class CreateCollection(_Request):
    """``PUT /collections/{name}``."""

    vectors: VectorParams


class IndexParams(_Request):
    """A payload index with options."""

    type: IndexType
    is_tenant: bool | None = None


class CreateIndex(_Request):
    """``PUT /collections/{name}/index``."""

    field_name: Annotated[str, msgspec.Meta(min_length=1)]
    field_schema: IndexType | IndexParams


class PointRecord(_Request):
    """A point to be written."""

    id: PointId
    vector: list[float]
    payload: Payload | None = None


class Upsert(_Request):
    """``PUT /collections/{name}/points``."""

    points: list[PointRecord]


class Selection(_Request):
    """``POST /collections/{name}/points/delete``: ids or a filter, not both."""

    points: list[PointId] | None = None
    filter: Filter | None = None


class SetPayload(_Request):
    """``POST /collections/{name}/points/payload``: ids or a filter, not both."""

    payload: Payload
    points: list[PointId] | None = None
    filter: Filter | None = None


class Operation(_Request):
    """One step of a batch: exactly one of the fields."""

    upsert: Upsert | None = None
    set_payload: SetPayload | None = None
    delete: Selection | None = None


class Batch(_Request):
    """``POST /collections/{name}/points/batch``: carried out in order."""

    operations: list[Operation]


class PayloadSelector(_Request):
    """Which fields of the payload to return."""

    include: list[str] | None = None
    exclude: list[str] | None = None


WithPayload = bool | list[str] | PayloadSelector | None


class Retrieve(_Request):
    """``POST /collections/{name}/points``."""

    ids: list[PointId]
    with_payload: WithPayload = True
    with_vector: bool | None = False


class Nearest(_Request):
    """The vector that a query searches with."""

    nearest: list[float]


class SearchParams(_Request):
    """How to search; every search here is exact."""

    exact: bool | None = None


class QueryPoints(_Request):
    """``POST /collections/{name}/points/query``: nearest to a vector."""

    query: Nearest | list[float]
    filter: Filter | None = None
    limit: Limit | None = None
    offset: Offset | None = None
    score_threshold: float | None = None
    with_payload: WithPayload = None
    with_vector: bool | None = False
    params: SearchParams | None = None


class Scroll(_Request):
    """``POST /collections/{name}/points/scroll``: in order of ids."""

    filter: Filter | None = None
    limit: Limit | None = None
    offset: PointId | None = None
    with_payload: WithPayload = True
    with_vector: bool | None = False


class Count(_Request):
    """``POST /collections/{name}/points/count``; every count here is exact."""

    filter: Filter | None = None
    exact: bool | None = None
