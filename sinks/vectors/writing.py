"""Points as they are written: their JSON is made here, everything else of a request is the client's.

The client's own models are checked number by number, walked through for texts that it could embed, and put into JSON
number by number again. With vectors that the embedder has just made that is six times the work, a tenth of a worker's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from pydantic import BaseModel

from sinks.embeddings import Vector
from sinks.vectors.qdrant import AsyncQdrantClient, models

Operation: TypeAlias = models.UpdateOperation | dict[str, Any]
"""One write of a request: one of the client's, or what `upsert` returns."""


class Point(msgspec.Struct, frozen=True):
    """A point to be written.

    Attributes:
        id: a UUID.
        vector: its vectors by name; a sparse one as its ``indices`` and ``values``.
        payload: its fields, of JSON's types.
    """

    id: str
    vector: Mapping[str, Vector | Mapping[str, Any]]
    payload: Mapping[str, Any]


def upsert(points: Sequence[Point], unless: models.Filter) -> dict[str, Any]:
    """Return the operation that writes points; one that is there already is replaced only where `unless` holds."""
    return {"upsert": {"points": points, "update_filter": _raw(unless)}}


async def write(client: AsyncQdrantClient, collection: str, operations: Sequence[Operation]) -> None:
    """Carry out operations in their order, as one request; all of it is durable when this returns.

    Raises what the client does when the server refuses or does not answer.

    Raises:
        ValueError: when a text is no Unicode, or the answer is not Qdrant's.
    """
    body = {"operations": [_raw(each) if isinstance(each, BaseModel) else each for each in operations]}
    answer = await client.http.client.request(
        type_=dict[str, Any],
        method="POST",
        url="/collections/{collection_name}/points/batch",
        path_params={"collection_name": collection},
        params={"wait": "true"},
        headers={"Content-Type": "application/json"},
        content=msgspec.json.encode(body),
    )
    if not isinstance(answer.get("result"), list):
        raise ValueError("the answer has no result")


def _raw(model: BaseModel) -> msgspec.Raw:
    return msgspec.Raw(model.model_dump_json(exclude_unset=True, exclude_none=True).encode())
