"""Collections on disk, each a shard of Qdrant Edge. Every call blocks; one thread at a time may call."""

from __future__ import annotations

import fcntl
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final
from uuid import UUID, uuid4

import msgspec
import qdrant_edge as edge

from streams.embedded import qdrant_requests as requests
from streams.embedded.qdrant_filters import FilterRefused, to_filter
from streams.embedded.serving import PathUnusable

_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}")
_DEFAULT_LIMIT: Final = 10  # as Qdrant's own
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
        self.params = msgspec.json.decode((path / "collection.json").read_bytes(), type=requests.VectorParams)
        self._shard = edge.EdgeShard.load(str(path / "shard"))

    @staticmethod
    def create(path: Path, params: requests.VectorParams) -> None:
        """Make an empty collection in a directory that does not exist yet."""
        path.mkdir()
        (path / "collection.json").write_bytes(msgspec.json.encode(params))
        vectors = edge.EdgeVectorParams(size=params.size, distance=getattr(edge.Distance, params.distance))
        (path / "shard").mkdir()
        edge.EdgeShard.create(str(path / "shard"), edge.EdgeConfig(vectors=vectors)).close()

    def flush(self) -> None:
        """Write everything to disk, so that the log need not be replayed."""
        self._shard.flush()

    def close(self) -> None:
        """Flush and release the files."""
        self._shard.flush()
        self._shard.close()

    def info(self) -> dict[str, Any]:
        """Describe the collection; the index settings are the engine's defaults."""
        info = self._shard.info()
        return {
            "status": "green",
            "optimizer_status": "ok",
            "points_count": info.points_count,
            "indexed_vectors_count": info.indexed_vectors_count,
            "segments_count": info.segments_count,
            "config": {
                "params": {"vectors": {"size": self.params.size, "distance": self.params.distance}},
                "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000},
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
        with _engine_errors():
            self._shard.update(edge.UpdateOperation.create_field_index(request.field_name, schema))
        return _COMPLETED

    def upsert(self, request: requests.Upsert) -> dict[str, Any]:
        """Write points; those with the same ids are replaced."""
        with _engine_errors():
            points = [edge.Point(point.id, point.vector, point.payload or {}) for point in request.points]
            self._shard.update(edge.UpdateOperation.upsert_points(points))
        return _COMPLETED

    def set_payload(self, request: requests.SetPayload) -> dict[str, Any]:
        """Set these fields of the payload; the others stay."""
        with _engine_errors():
            chosen = _chosen(request.points, request.filter)
            if isinstance(chosen, list):
                operation = edge.UpdateOperation.set_payload(chosen, request.payload)
            else:
                operation = edge.UpdateOperation.set_payload_by_filter(chosen, request.payload)
            self._shard.update(operation)
        return _COMPLETED

    def delete(self, request: requests.Selection) -> dict[str, Any]:
        """Delete points; ids that do not exist are ignored."""
        with _engine_errors():
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
        with _engine_errors():
            found = self._shard.retrieve(
                list(request.ids),
                with_payload=_payload_selector(request.with_payload, default=True),
                with_vector=bool(request.with_vector),
            )
        return [_record(point) for point in found]

    def query(self, request: requests.QueryPoints) -> dict[str, Any]:
        """Search the nearest points, best first."""
        vector = request.query.nearest if isinstance(request.query, requests.Nearest) else request.query
        with _engine_errors():
            found = self._shard.query(
                edge.QueryRequest(
                    limit=request.limit or _DEFAULT_LIMIT,
                    offset=request.offset,
                    query=edge.Query.Nearest(vector),
                    filter=_optional_filter(request.filter),
                    score_threshold=request.score_threshold,
                    with_payload=_payload_selector(request.with_payload, default=False),
                    with_vector=bool(request.with_vector),
                )
            )
        return {"points": [_record(point) | {"version": point.version, "score": point.score} for point in found]}

    def scroll(self, request: requests.Scroll) -> dict[str, Any]:
        """Read points in order of their ids, a page at a time."""
        with _engine_errors():
            found, following = self._shard.scroll(
                edge.ScrollRequest(
                    limit=request.limit or _DEFAULT_LIMIT,
                    offset=request.offset,
                    filter=_optional_filter(request.filter),
                    with_payload=_payload_selector(request.with_payload, default=True),
                    with_vector=bool(request.with_vector),
                )
            )
        return {"points": [_record(point) for point in found], "next_page_offset": following}

    def count(self, request: requests.Count) -> dict[str, Any]:
        """Count points."""
        with _engine_errors():
            counted = self._shard.count(edge.CountRequest(exact=True, filter=_optional_filter(request.filter)))
        return {"count": counted}


class Engine:
    """All collections of a data directory, which it owns until `close`.

    A collection is made in, and removed from, a directory whose name starts with a dot, and renamed in
    between: after the death of the process it is there completely or not at all.
    """

    def __init__(self, path: Path) -> None:
        """Take the directory, created when missing, and load its collections.

        Raises:
            PathUnusable: when it belongs to another process, cannot be written or read.
        """
        self._root = path / "collections"
        self._collections: dict[str, Collection] = {}
        self._lock = _take(path)
        try:
            self._root.mkdir(exist_ok=True)
            for entry in sorted(self._root.iterdir()):
                if entry.name.startswith("."):
                    shutil.rmtree(entry)
                else:
                    self._collections[entry.name] = Collection(entry)
        except Exception as error:  # the engine's own errors are plain exceptions
            self.close()
            raise PathUnusable(f"{path} cannot be read: {error}; restore it or choose another path") from error

    def names(self) -> list[str]:
        """Return the names of all collections."""
        return sorted(self._collections)

    def collection(self, name: str) -> Collection:
        """Return a collection.

        Raises:
            EngineError: 404 when there is none of that name.
        """
        try:
            return self._collections[name]
        except KeyError:
            raise EngineError(404, f"Not found: Collection `{name}` doesn't exist!") from None

    def create(self, name: str, request: requests.CreateCollection) -> bool:
        """Make an empty collection.

        Raises:
            EngineError: when the name is taken or not a possible one.
        """
        if not _NAME.fullmatch(name):
            raise EngineError(400, f"Wrong input: {name!r} is not a possible name of a collection")
        if name in self._collections:
            raise EngineError(409, f"Wrong input: Collection `{name}` already exists!")
        unfinished = self._root / f".{uuid4()}"
        with _engine_errors():
            Collection.create(unfinished, request.vectors)
            unfinished.rename(self._root / name)
            self._collections[name] = Collection(self._root / name)
        return True

    def delete(self, name: str) -> bool:
        """Remove a collection; return whether there was one."""
        collection = self._collections.pop(name, None)
        if collection is None:
            return False
        collection.close()
        removed = self._root / f".{uuid4()}"
        (self._root / name).rename(removed)
        shutil.rmtree(removed)
        return True

    def flush(self) -> None:
        """Write everything to disk."""
        for collection in self._collections.values():
            collection.flush()

    def close(self) -> None:
        """Flush, close every collection and give the directory up."""
        while self._collections:
            self._collections.popitem()[1].close()
        self._lock.close()


def _take(path: Path) -> IO[bytes]:
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / "lock").open("ab")
    except OSError as error:
        raise PathUnusable(f"{path} cannot be used: {error.strerror}; choose another path") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise PathUnusable(f"{path} is in use by another process; stop it or choose another path") from error
    return lock


@contextmanager
def _engine_errors() -> Iterator[None]:
    """Give an error of the engine the status that Qdrant gives it."""
    try:
        yield
    except EngineError:
        raise
    except (FilterRefused, TypeError, ValueError) as error:
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


def _optional_filter(condition: requests.Filter | None) -> edge.Filter | None:
    return None if condition is None else to_filter(condition)


def _payload_selector(wanted: requests.WithPayload, *, default: bool) -> Any:
    if wanted is None:
        return default
    if not isinstance(wanted, requests.PayloadSelector):
        return wanted
    if wanted.include is not None and wanted.exclude is None:
        return edge.PayloadSelector.Include(wanted.include)
    if wanted.exclude is not None and wanted.include is None:
        return edge.PayloadSelector.Exclude(wanted.exclude)
    raise EngineError(400, "Wrong input: with_payload takes either include or exclude")


def _record(point: Any) -> dict[str, Any]:
    return {"id": point.id, "payload": point.payload, "vector": point.vector}


def _index_info(index: Any) -> dict[str, Any]:
    kind = next(name for name, schema in _INDEX_TYPES.items() if schema == index.data_type)
    described: dict[str, Any] = {"data_type": kind, "points": index.points}
    if kind == "keyword" and index.params is not None:
        described["params"] = {"type": kind, "is_tenant": index.params.is_tenant}
    return described
