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
    """Parameters of a vector that each point of a collection has."""

    size: Annotated[int, msgspec.Meta(ge=1, le=65536)]
    distance: Distance


class SparseVectorParams(_Request):
    """Parameters of a sparse vector that a point may have; ``idf`` multiplies each number by its place's rarity."""

    modifier: Literal["none", "idf"] | None = None


class HnswConfig(_Request, omit_defaults=True):
    """Of the graphs that a collection is searched with: edges of a point over all points, and in each tenant's own."""

    m: Annotated[int, msgspec.Meta(ge=0)] | None = None
    payload_m: Annotated[int, msgspec.Meta(ge=0)] | None = None


class CreateCollection(_Request, omit_defaults=True):
    """``PUT /collections/{name}``; `vectors` is one without a name, or several by their names."""

    vectors: dict[str, Any]
    sparse_vectors: dict[str, SparseVectorParams] | None = None
    hnsw_config: HnswConfig | None = None

    @property
    def dense(self) -> dict[str, VectorParams]:
        """The vectors by name; the name of one without is empty.

        Raises:
            msgspec.ValidationError: when they are no parameters of vectors.
        """
        if "size" in self.vectors:
            return {"": msgspec.convert(self.vectors, VectorParams)}
        return msgspec.convert(self.vectors, dict[str, VectorParams])


class IndexParams(_Request):
    """A payload index with options."""

    type: IndexType
    is_tenant: bool | None = None


class CreateIndex(_Request):
    """``PUT /collections/{name}/index``."""

    field_name: Annotated[str, msgspec.Meta(min_length=1)]
    field_schema: IndexType | IndexParams


class SparseVector(_Request):
    """The numbers of a vector that are not 0, and their places."""

    indices: list[Annotated[int, msgspec.Meta(ge=0, lt=2**32)]]
    values: list[float]


class PointRecord(_Request):
    """A point to be written: its vector without a name, or its vectors by name."""

    id: PointId
    vector: list[float] | dict[str, list[float] | SparseVector]
    payload: Payload | None = None


class Upsert(_Request):
    """``PUT /collections/{name}/points``; a point that exists is replaced only where the filter is true of it."""

    points: list[PointRecord]
    update_filter: Filter | None = None


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


WithVector = bool | list[str] | None
"""All vectors of a point, none, or those of these names."""


class Retrieve(_Request):
    """``POST /collections/{name}/points``."""

    ids: list[PointId]
    with_payload: WithPayload = True
    with_vector: WithVector = False


class Rrf(_Request):
    """Reciprocal rank fusion: a hit's score is the sum of 1 / (k + rank)."""

    k: Annotated[int, msgspec.Meta(ge=1)] = 2
    weights: list[float] | None = None


class QueryForm(_Request):
    """What a query orders points by: exactly one of the fields."""

    nearest: list[float] | SparseVector | None = None
    fusion: Literal["rrf"] | None = None
    rrf: Rrf | None = None


QueryBy = QueryForm | list[float]


class IdfCorpus(_Request):
    """The points in which the rarity of places is counted."""

    corpus: Filter


class SearchParams(_Request):
    """How to search; every search here is exact."""

    exact: bool | None = None
    idf: IdfCorpus | Literal["global"] | None = None


class Prefetch(_Request):
    """A search whose hits a query fuses with those of others."""

    query: QueryBy
    using: str | None = None
    filter: Filter | None = None
    params: SearchParams | None = None
    score_threshold: float | None = None
    limit: Limit | None = None


class QueryPoints(_Request):
    """``POST /collections/{name}/points/query``: nearest to a vector, or several such searches fused."""

    query: QueryBy
    prefetch: list[Prefetch] | Prefetch | None = None
    using: str | None = None
    filter: Filter | None = None
    limit: Limit | None = None
    offset: Offset | None = None
    score_threshold: float | None = None
    with_payload: WithPayload = None
    with_vector: WithVector = False
    params: SearchParams | None = None


class Scroll(_Request):
    """``POST /collections/{name}/points/scroll``: in order of ids."""

    filter: Filter | None = None
    limit: Limit | None = None
    offset: PointId | None = None
    with_payload: WithPayload = True
    with_vector: WithVector = False


class Count(_Request):
    """``POST /collections/{name}/points/count``; every count here is exact."""

    filter: Filter | None = None
    exact: bool | None = None


class CreateAlias(_Request):
    """Give a collection an alias, also one that another had."""

    collection_name: str
    alias_name: str


class DeleteAlias(_Request):
    """Take an alias away."""

    alias_name: str


class RenameAlias(_Request):
    """Give an alias another name."""

    old_alias_name: str
    new_alias_name: str


class AliasAction(_Request):
    """One change of the aliases: exactly one of the fields."""

    create_alias: CreateAlias | None = None
    delete_alias: DeleteAlias | None = None
    rename_alias: RenameAlias | None = None


class ChangeAliases(_Request):
    """``POST /collections/aliases``: all of it is carried out, or nothing."""

    actions: list[AliasAction]
