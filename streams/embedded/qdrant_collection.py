"""A collection on disk, a shard of Qdrant Edge. Every call blocks; one thread at a time may call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec
import qdrant_edge as edge

from streams.embedded import qdrant_requests as requests
from streams.embedded.qdrant_filters import to_filter
from streams.embedded.qdrant_queries import from_vectors, optional_filter, payload_selector, to_query, to_vectors

_DEFAULT_LIMIT: Final = 10  # as Qdrant's own, like those of the graphs
_GRAPH_M: Final = 16
_GRAPH_EF: Final = 100
_GRAPH_THRESHOLD: Final = 10_000
_COMPLETED: Final = {"operation_id": 0, "status": "completed"}
_INDEX_TYPES: Final[dict[requests.IndexType, Any]] = {
    "keyword": edge.PayloadSchemaType.Keyword,
    "integer": edge.PayloadSchemaType.Integer,
    "float": edge.PayloadSchemaType.Float,
    "bool": edge.PayloadSchemaType.Bool,
    "datetime": edge.PayloadSchemaType.Datetime,
    "uuid": edge.PayloadSchemaType.Uuid,
}


class EngineError(Exception):
    """A request that cannot be carried out.

    Attributes:
        status: the HTTP status that Qdrant gives it.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Collection:
    """One collection: requests in, results as Qdrant puts them in ``result``.

    An update that returned is in the engine's write-ahead log: it survives the death of the process.
    """

    def __init__(self, path: Path) -> None:
        described = (path / "collection.json").read_bytes()
        try:
            self.params = msgspec.json.decode(described, type=requests.CreateCollection)
        except msgspec.ValidationError:  # of a release that wrote the parameters of the only vector
            self.params = requests.CreateCollection(vectors=msgspec.json.decode(described))
        self._shard = edge.EdgeShard.load(str(path / "shard"))

    @staticmethod
    def create(path: Path, params: requests.CreateCollection) -> None:
        """Make an empty collection in a directory that does not exist yet.

        Raises:
            msgspec.ValidationError: when the parameters of its vectors are none.
        """
        vectors = {
            name: edge.EdgeVectorParams(size=each.size, distance=getattr(edge.Distance, each.distance))
            for name, each in params.dense.items()
        }
        sparse = {
            name: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf if each.modifier == "idf" else None)
            for name, each in (params.sparse_vectors or {}).items()
        }
        path.mkdir()
        (path / "collection.json").write_bytes(msgspec.json.encode(params))
        (path / "shard").mkdir()
        config = edge.EdgeConfig(vectors=vectors, sparse_vectors=sparse or None, hnsw_config=_graph(params.hnsw_config))
        edge.EdgeShard.create(str(path / "shard"), config).close()

    def flush(self) -> None:
        """Write everything to disk, so that the log need not be replayed."""
        self._shard.flush()

    def close(self) -> None:
        """Flush and release the files."""
        self._shard.flush()
        self._shard.close()

    def info(self) -> dict[str, Any]:
        """Describe the collection; what it was not created with are the engine's defaults."""
        info = self._shard.info()
        graph = _graph(self.params.hnsw_config)
        return {
            "status": "green",
            "optimizer_status": "ok",
            "points_count": info.points_count,
            "indexed_vectors_count": info.indexed_vectors_count,
            "segments_count": info.segments_count,
            "config": {
                "params": {"vectors": self.params.vectors, "sparse_vectors": self.params.sparse_vectors},
                "hnsw_config": {
                    "m": graph.m,
                    "ef_construct": graph.ef_construct,
                    "full_scan_threshold": graph.full_scan_threshold,
                    "payload_m": graph.payload_m,
                },
                "optimizer_config": {
                    "deleted_threshold": 0.2,
                    "vacuum_min_vector_number": 1000,
                    "default_segment_number": 0,
                    "flush_interval_sec": 5,
                },
            },
            "payload_schema": {name: _index_info(index) for name, index in info.payload_schema.items()},
        }

    def create_index(self, request: requests.CreateIndex) -> dict[str, Any]:
        """Index a payload field; doing so again changes nothing."""
        wanted = request.field_schema
        if isinstance(wanted, str):
            schema = _INDEX_TYPES[wanted]
        elif wanted.type == "keyword":
            schema = edge.KeywordIndexParams(is_tenant=wanted.is_tenant)
        elif wanted.is_tenant is None:
            schema = _INDEX_TYPES[wanted.type]
        else:
            raise EngineError(400, f"Wrong input: is_tenant is not served for {wanted.type} indexes")
        with engine_errors():
            self._shard.update(edge.UpdateOperation.create_field_index(request.field_name, schema))
        return _COMPLETED

    def upsert(self, request: requests.Upsert) -> dict[str, Any]:
        """Write points; those with the same ids are replaced."""
        with engine_errors():
            points = [edge.Point(point.id, to_vectors(point.vector), point.payload or {}) for point in request.points]
            condition = None if request.update_filter is None else to_filter(request.update_filter)
            self._shard.update(edge.UpdateOperation.upsert_points(points, condition=condition))
        return _COMPLETED

    def set_payload(self, request: requests.SetPayload) -> dict[str, Any]:
        """Set these fields of the payload; the others stay."""
        with engine_errors():
            chosen = _chosen(request.points, request.filter)
            if isinstance(chosen, list):
                operation = edge.UpdateOperation.set_payload(chosen, request.payload)
            else:
                operation = edge.UpdateOperation.set_payload_by_filter(chosen, request.payload)
            self._shard.update(operation)
        return _COMPLETED

    def delete(self, request: requests.Selection) -> dict[str, Any]:
        """Delete points; ids that do not exist are ignored."""
        with engine_errors():
            chosen = _chosen(request.points, request.filter)
            if isinstance(chosen, list):
                operation = edge.UpdateOperation.delete_points(chosen)
            else:
                operation = edge.UpdateOperation.delete_points_by_filter(chosen)
            self._shard.update(operation)
        return _COMPLETED

    def batch(self, request: requests.Batch) -> list[dict[str, Any]]:
        """Carry out updates in order, up to the first that fails."""
        for step in request.operations:
            if sum(part is not None for part in (step.upsert, step.set_payload, step.delete)) != 1:
                raise EngineError(400, "Wrong input: each operation is one of upsert, set_payload, delete")
        results = []
        for step in request.operations:
            if step.upsert is not None:
                results.append(self.upsert(step.upsert))
            elif step.set_payload is not None:
                results.append(self.set_payload(step.set_payload))
            elif step.delete is not None:
                results.append(self.delete(step.delete))
        return results

    def retrieve(self, request: requests.Retrieve) -> list[dict[str, Any]]:
        """Read points by id; those that do not exist are left out."""
        with engine_errors():
            found = self._shard.retrieve(
                list(request.ids),
                with_payload=payload_selector(request.with_payload, default=True),
                with_vector=request.with_vector or False,
            )
        return [_record(point) for point in found]

    def query(self, request: requests.QueryPoints) -> dict[str, Any]:
        """Search the nearest points, or fuse several such searches, best first."""
        with engine_errors():
            found = self._shard.query(to_query(request))
        return {"points": [_record(point) | {"version": point.version, "score": point.score} for point in found]}

    def scroll(self, request: requests.Scroll) -> dict[str, Any]:
        """Read points in order of their ids, a page at a time."""
        with engine_errors():
            found, following = self._shard.scroll(
                edge.ScrollRequest(
                    limit=request.limit or _DEFAULT_LIMIT,
                    offset=request.offset,
                    filter=optional_filter(request.filter),
                    with_payload=payload_selector(request.with_payload, default=True),
                    with_vector=request.with_vector or False,
                )
            )
        return {"points": [_record(point) for point in found], "next_page_offset": following}

    def count(self, request: requests.Count) -> dict[str, Any]:
        """Count points."""
        with engine_errors():
            counted = self._shard.count(edge.CountRequest(exact=True, filter=optional_filter(request.filter)))
        return {"count": counted}


@contextmanager
def engine_errors() -> Iterator[None]:
    """Give an error of the engine the status that Qdrant gives it."""
    try:
        yield
    except EngineError:
        raise
    except (TypeError, ValueError) as error:
        raise EngineError(400, f"Wrong input: {error}") from error
    except Exception as error:  # the engine raises plain exceptions, told apart by their text only
        message = str(error)
        if message.startswith("No point with id"):
            raise EngineError(404, f"Not found: {message}") from error
        if message.startswith("Service "):
            raise EngineError(500, message) from error
        raise EngineError(400, f"Wrong input: {message}") from error


def _chosen(
    points: list[requests.PointId] | None, condition: requests.Filter | None
) -> list[int | UUID | str] | edge.Filter:
    if points is not None and condition is None:
        return list(points)
    if condition is not None and points is None:
        return to_filter(condition)
    raise EngineError(400, "Wrong input: give either points or filter")


def _record(point: Any) -> dict[str, Any]:
    return {"id": point.id, "payload": point.payload, "vector": from_vectors(point.vector)}


def _graph(wanted: requests.HnswConfig | None) -> edge.HnswIndexConfig:
    """Return the settings of the graphs; the engine keeps them, and searches exactly as long as none is built."""
    wanted = wanted or requests.HnswConfig()
    return edge.HnswIndexConfig(
        m=_GRAPH_M if wanted.m is None else wanted.m,
        ef_construct=_GRAPH_EF,
        full_scan_threshold=_GRAPH_THRESHOLD,
        payload_m=wanted.payload_m,
    )


def _index_info(index: Any) -> dict[str, Any]:
    kind = next(name for name, schema in _INDEX_TYPES.items() if schema == index.data_type)
    described: dict[str, Any] = {"data_type": kind, "points": index.points}
    if kind == "keyword" and index.params is not None:
        described["params"] = {"type": kind, "is_tenant": index.params.is_tenant}
    return described
