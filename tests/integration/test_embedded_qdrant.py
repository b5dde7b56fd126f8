"""The embedded Qdrant, driven by the ordinary client over HTTP: what it serves, what it refuses, what survives."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import httpx
import pytest
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from streams.embedded.qdrant_http import VERSION
from tests.integration.qdrant_fixtures import STOP_LIMIT, QdrantProcess

A, B, C = (str(UUID(int=number)) for number in (1, 2, 3))
POINTS = [
    models.PointStruct(
        id=A, vector=[1.0, 0.0], payload={"who": "ann", "n": 1, "tags": ["x", "y"], "deep": [{"a": 1, "b": 2}]}
    ),
    models.PointStruct(
        id=B, vector=[0.8, 0.6], payload={"who": "bob", "n": 2, "at": "2024-05-01T10:00:00Z", "deep": [{"a": 1}]}
    ),
    models.PointStruct(id=C, vector=[0.0, 1.0], payload={"who": "安", "n": 3, "ok": True, "gone": None}),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantProcess]:
    with QdrantProcess(tmp_path_factory.mktemp("qdrant")) as process:
        yield process


def client_of(service: QdrantProcess) -> AsyncQdrantClient:
    return AsyncQdrantClient(url=service.url, timeout=10, check_compatibility=False)


@pytest.fixture
async def client(service: QdrantProcess) -> AsyncIterator[AsyncQdrantClient]:
    client = client_of(service)
    yield client
    await client.close()


@pytest.fixture
async def collection(client: AsyncQdrantClient) -> str:
    """A collection of this test only, with three points."""
    name = f"c-{uuid4()}"
    await create(client, name)
    await client.upsert(name, POINTS, wait=True)
    return name


async def create(client: AsyncQdrantClient, name: str, size: int = 2) -> None:
    vectors = models.VectorParams(size=size, distance=models.Distance.COSINE)
    await client.create_collection(name, vectors_config=vectors)


def field(key: str, **condition: object) -> models.Filter:
    return models.Filter(must=[models.FieldCondition(key=key, **condition)])


class TestCollections:
    async def test_tells_its_version_and_health(self, service: QdrantProcess, client: AsyncQdrantClient) -> None:
        assert (await client.info()).version == VERSION
        async with httpx.AsyncClient() as http:
            for path in ("/healthz", "/livez", "/readyz"):
                assert (await http.get(service.url + path)).status_code == 200

    async def test_live_from_creation_to_deletion(self, client: AsyncQdrantClient) -> None:
        name = f"c-{uuid4()}"
        assert not await client.collection_exists(name)
        await create(client, name, size=3)
        assert await client.collection_exists(name)
        assert name in [found.name for found in (await client.get_collections()).collections]
        described = await client.get_collection(name)
        assert described.points_count == 0
        assert described.config.params.vectors == models.VectorParams(size=3, distance=models.Distance.COSINE)
        assert await client.delete_collection(name)
        assert not await client.collection_exists(name)
        assert not await client.delete_collection(name)

    async def test_describes_payload_indexes(self, client: AsyncQdrantClient, collection: str) -> None:
        tenant = models.KeywordIndexParams(type="keyword", is_tenant=True)
        for _ in range(2):
            await client.create_payload_index(collection, "who", field_schema=tenant, wait=True)
        await client.create_payload_index(collection, "n", field_schema="integer", wait=True)
        schema = (await client.get_collection(collection)).payload_schema
        assert schema["who"].params.is_tenant
        assert (schema["who"].points, schema["n"].data_type) == (3, "integer")

    async def test_refuses_a_second_of_the_same_name(self, client: AsyncQdrantClient, collection: str) -> None:
        with pytest.raises(UnexpectedResponse, match="already exists") as refused:
            await create(client, collection)
        assert refused.value.status_code == 409

    async def test_a_missing_one_is_not_found(self, client: AsyncQdrantClient) -> None:
        with pytest.raises(UnexpectedResponse, match="Collection `nowhere` doesn") as refused:
            await client.count("nowhere")
        assert refused.value.status_code == 404

    @pytest.mark.parametrize("name", [".hidden", "a/b", "..x", "nul\0"])
    async def test_a_name_never_leaves_the_directory(self, client: AsyncQdrantClient, name: str) -> None:
        with pytest.raises(UnexpectedResponse, match="not a possible name"):
            await create(client, name)


class TestPoints:
    async def test_are_read_by_id(self, client: AsyncQdrantClient, collection: str) -> None:
        (found,) = await client.retrieve(collection, [B, str(uuid4())], with_vectors=True)
        assert (found.id, found.payload) == (B, POINTS[1].payload)
        assert found.vector == pytest.approx([0.8, 0.6])

    async def test_numbers_are_ids_too(self, client: AsyncQdrantClient, collection: str) -> None:
        await client.upsert(collection, [models.PointStruct(id=7, vector=[1, 1])], wait=True)
        (found,) = await client.retrieve(collection, [7])
        assert (found.id, found.payload) == (7, {})

    async def test_a_second_upsert_replaces(self, client: AsyncQdrantClient, collection: str) -> None:
        await client.upsert(collection, [models.PointStruct(id=A, vector=[0, 1], payload={"new": 1})], wait=True)
        (found,) = await client.retrieve(collection, [A])
        assert found.payload == {"new": 1}
        assert (await client.count(collection)).count == 3

    async def test_nearest_come_first(self, client: AsyncQdrantClient, collection: str) -> None:
        found = (await client.query_points(collection, [1.0, 0.0], with_payload=["who"])).points
        assert [(point.id, point.payload) for point in found] == [
            (A, {"who": "ann"}),
            (B, {"who": "bob"}),
            (C, {"who": "安"}),
        ]
        assert [point.score for point in found] == pytest.approx([1.0, 0.8, 0.0], abs=1e-6)

    async def test_a_query_has_limit_offset_and_threshold(self, client: AsyncQdrantClient, collection: str) -> None:
        second = await client.query_points(collection, [1.0, 0.0], limit=1, offset=1, with_payload=False)
        assert [(point.id, point.payload) for point in second.points] == [(B, None)]
        near = await client.query_points(collection, [1.0, 0.0], score_threshold=0.5, with_vectors=True)
        assert [point.id for point in near.points] == [A, B]
        assert near.points[0].vector == pytest.approx([1.0, 0.0])

    async def test_payload_is_chosen_by_inclusion_and_exclusion(
        self, client: AsyncQdrantClient, collection: str
    ) -> None:
        for selector in (
            models.PayloadSelectorInclude(include=["n"]),
            models.PayloadSelectorExclude(exclude=["who", "ok", "gone"]),
        ):
            (found,) = await client.retrieve(collection, [C], with_payload=selector)
            assert found.payload == {"n": 3}

    async def test_are_paged_in_order_of_id(self, client: AsyncQdrantClient, collection: str) -> None:
        first, following = await client.scroll(collection, limit=2)
        rest, end = await client.scroll(collection, limit=2, offset=following)
        assert [point.id for point in first + rest] == [A, B, C]
        assert end is None

    async def test_payload_fields_are_set_by_id_and_filter(self, client: AsyncQdrantClient, collection: str) -> None:
        await client.set_payload(collection, {"n": 10}, points=[A], wait=True)
        bob = field("who", match=models.MatchValue(value="bob"))
        await client.set_payload(collection, {"n": 20}, points=bob, wait=True)
        found = await client.retrieve(collection, [A, B])
        assert {point.id: (point.payload["n"], point.payload["who"]) for point in found} == {
            A: (10, "ann"),
            B: (20, "bob"),
        }

    async def test_payload_of_a_missing_point_is_not_found(self, client: AsyncQdrantClient, collection: str) -> None:
        with pytest.raises(UnexpectedResponse, match="No point with id") as refused:
            await client.set_payload(collection, {"n": 1}, points=[str(uuid4())], wait=True)
        assert refused.value.status_code == 404

    async def test_are_deleted_by_id_and_filter(self, client: AsyncQdrantClient, collection: str) -> None:
        await client.delete(collection, [A, str(uuid4())], wait=True)
        await client.delete(collection, field("who", match=models.MatchValue(value="bob")), wait=True)
        assert [point.id for point in (await client.scroll(collection))[0]] == [C]

    async def test_a_batch_runs_in_order(self, client: AsyncQdrantClient, collection: str) -> None:
        await client.batch_update_points(
            collection,
            [
                models.UpsertOperation(upsert=models.PointsList(points=[models.PointStruct(id=9, vector=[1, 1])])),
                models.SetPayloadOperation(set_payload=models.SetPayload(payload={"n": 9}, points=[9, A])),
                models.DeleteOperation(delete=models.PointIdsList(points=[A])),
            ],
            wait=True,
        )
        found = await client.retrieve(collection, [9, A])
        assert [(point.id, point.payload) for point in found] == [(9, {"n": 9})]


FILTERS = {
    "match text": (field("who", match=models.MatchValue(value="安")), [C]),
    "match integer": (field("n", match=models.MatchValue(value=2)), [B]),
    "match element of a list": (field("tags", match=models.MatchValue(value="y")), [A]),
    "any": (field("who", match=models.MatchAny(any=["ann", "安"])), [A, C]),
    "any of nothing": (field("who", match=models.MatchAny(any=[])), []),
    "except": (field("who", match=models.MatchExcept(**{"except": ["ann"]})), [B, C]),
    "range": (field("n", range=models.Range(gt=1, lte=2)), [B]),
    "date range": (field("at", range=models.DatetimeRange(gte="2024-05-01T00:00:00Z")), [B]),
    "is empty": (models.Filter(must=[models.IsEmptyCondition(is_empty=models.PayloadField(key="gone"))]), [A, B, C]),
    "is not empty": (
        models.Filter(must_not=[models.IsEmptyCondition(is_empty=models.PayloadField(key="tags"))]),
        [A],
    ),
    "has id": (models.Filter(must=[models.HasIdCondition(has_id=[A, C, str(uuid4())])]), [A, C]),
    "nested object": (
        models.Filter(
            must=[
                models.NestedCondition(
                    nested=models.Nested(key="deep", filter=field("b", match=models.MatchValue(value=2)))
                )
            ]
        ),
        [A],
    ),
    "one condition without a list": (
        models.Filter(must=models.FieldCondition(key="n", match=models.MatchValue(value=1))),
        [A],
    ),
    "must, should and must not": (
        models.Filter(
            must=[models.FieldCondition(key="n", range=models.Range(gte=1))],
            should=[
                models.FieldCondition(key="who", match=models.MatchValue(value="ann")),
                models.FieldCondition(key="who", match=models.MatchValue(value="bob")),
            ],
            must_not=[models.FieldCondition(key="tags", match=models.MatchValue(value="x"))],
        ),
        [B],
    ),
    "filter in a filter": (
        models.Filter(
            should=[
                field("n", match=models.MatchValue(value=3)),
                models.Filter(must_not=[field("n", range=models.Range(gt=1))]),
            ]
        ),
        [A, C],
    ),
    "clauses without conditions": (models.Filter(must=[], should=[]), [A, B, C]),
}


@pytest.mark.parametrize(("condition", "expected"), FILTERS.values(), ids=FILTERS)
async def test_filters_mean_the_same_everywhere(
    client: AsyncQdrantClient, collection: str, condition: models.Filter, expected: list[str]
) -> None:
    assert (await client.count(collection, count_filter=condition)).count == len(expected)
    scrolled, _ = await client.scroll(collection, scroll_filter=condition)
    assert [point.id for point in scrolled] == expected
    found = await client.query_points(collection, [1.0, 0.0], query_filter=condition)
    assert sorted(point.id for point in found.points) == expected


REFUSED = {
    "unknown path": ("POST", "/points/search", {"vector": [1, 0], "limit": 1}, 501),
    "unknown method": ("PATCH", "", {}, 501),
    "aliases": ("GET", "/aliases", None, 501),
    "unknown option": ("POST", "/points/query", {"query": [1, 0], "prefetch": []}, 400),
    "query without a vector": ("POST", "/points/query", {"limit": 1}, 400),
    "query by a point": ("POST", "/points/query", {"query": A}, 400),
    "recommendation": ("POST", "/points/query", {"query": {"recommend": {"positive": [A]}}}, 400),
    "order": ("POST", "/points/scroll", {"order_by": "n"}, 400),
    "conditional upsert": ("PUT", "/points", {"points": [], "update_filter": {}}, 400),
    "named vector": ("PUT", "/points", {"points": [{"id": 1, "vector": {"a": [1, 0]}}]}, 400),
    "vector of another size": ("PUT", "/points", {"points": [{"id": 1, "vector": [1, 0, 0]}]}, 400),
    "query of another size": ("POST", "/points/query", {"query": [1.0]}, 400),
    "id that is no UUID": ("PUT", "/points", {"points": [{"id": "x", "vector": [1, 0]}]}, 400),
    "negative id": ("POST", "/points", {"ids": [-1]}, 400),
    "limit of zero": ("POST", "/points/scroll", {"limit": 0}, 400),
    "deletion of nothing in particular": ("POST", "/points/delete", {}, 400),
    "deletion by id and filter": ("POST", "/points/delete", {"points": [A], "filter": {}}, 400),
    "batch step of no kind": ("POST", "/points/batch", {"operations": [{}]}, 400),
    "batch step of two kinds": (
        "POST",
        "/points/batch",
        {"operations": [{"upsert": {"points": []}, "delete": {"points": [A]}}]},
        400,
    ),
    "tenant index of another type": (
        "PUT",
        "/index",
        {"field_name": "n", "field_schema": {"type": "integer", "is_tenant": True}},
        400,
    ),
    "full text index": ("PUT", "/index", {"field_name": "n", "field_schema": "text"}, 400),
}


@pytest.mark.parametrize(("method", "path", "body", "status"), REFUSED.values(), ids=REFUSED)
async def test_what_is_not_served_is_refused(
    service: QdrantProcess, collection: str, method: str, path: str, body: object, status: int
) -> None:
    async with httpx.AsyncClient() as http:
        answer = await http.request(method, f"{service.url}/collections/{collection}{path}", json=body)
        counted = await http.post(f"{service.url}/collections/{collection}/points/count", json={})
    assert answer.status_code == status, answer.text
    assert answer.json()["status"]["error"]
    assert counted.json()["result"] == {"count": 3}


REFUSED_CONDITIONS = {
    "full text": {"key": "who", "match": {"text": "a"}},
    "match of a fraction": {"key": "n", "match": {"value": 0.5}},
    "match of a boolean": {"key": "ok", "match": {"value": True}},
    "match of two kinds": {"key": "n", "match": {"value": 1, "any": [1]}},
    "any of mixed types": {"key": "n", "match": {"any": [1, "a"]}},
    "match and range": {"key": "n", "match": {"value": 1}, "range": {"gt": 0}},
    "range of mixed types": {"key": "n", "range": {"gt": 1, "lt": "2024-05-01T00:00:00Z"}},
    "range of an unknown bound": {"key": "n", "range": {"ge": 1}},
    "geography": {"key": "n", "geo_radius": {}},
    "id that is no UUID": {"has_id": ["x"]},
    "malformed key": {"key": "a[", "match": {"value": 1}},
    "nothing": {},
    "no object": 1,
    "unknown clause": {"min_should": {"conditions": [], "min_count": 1}},
}


@pytest.mark.parametrize("condition", REFUSED_CONDITIONS.values(), ids=REFUSED_CONDITIONS)
async def test_a_condition_that_is_not_served_is_refused(
    service: QdrantProcess, collection: str, condition: object
) -> None:
    async with httpx.AsyncClient() as http:
        answer = await http.post(
            f"{service.url}/collections/{collection}/points/count", json={"filter": {"must": [condition]}}
        )
    assert answer.status_code == 400, answer.text
    assert answer.json()["status"]["error"].startswith("Wrong input: ")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"points": [{"id": 1, "vector": [NaN, 0]}]}', b"\xff", b"[" * 100_000]
)
async def test_a_body_that_is_not_the_json_expected_is_refused(
    service: QdrantProcess, collection: str, body: bytes
) -> None:
    async with httpx.AsyncClient() as http:
        answer = await http.put(f"{service.url}/collections/{collection}/points", content=body)
    assert answer.status_code == 400
    assert "JSON" in answer.json()["status"]["error"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
async def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path, number: signal.Signals) -> None:
    service = QdrantProcess(tmp_path).start()
    client = client_of(service)
    await create(client, "kept", size=8)
    await client.create_payload_index("kept", "n", field_schema="integer", wait=True)
    await create(client, "removed")
    await client.delete_collection("removed")
    for start in range(0, 600, 100):
        points = [
            models.PointStruct(id=start + n, vector=[math.sin(start + n + k) for k in range(8)], payload={"n": n})
            for n in range(100)
        ]
        await client.upsert("kept", points, wait=True)
    await client.delete("kept", [5], wait=True)
    await client.set_payload("kept", {"n": -1}, points=[6], wait=True)
    before = await client.scroll("kept", limit=600)
    code = service.end(number)
    await client.close()
    assert code == (0 if number == signal.SIGTERM else -signal.SIGKILL)

    with service:
        client = client_of(service)
        assert [found.name for found in (await client.get_collections()).collections] == ["kept"]
        described = await client.get_collection("kept")
        assert (described.points_count, described.payload_schema["n"].data_type) == (599, "integer")
        assert await client.scroll("kept", limit=600) == before
        nearest = await client.query_points("kept", [math.sin(300 + k) for k in range(8)], limit=1)
        assert [point.id for point in nearest.points] == [300]
        await client.close()


def test_half_made_and_half_removed_collections_are_cleared_at_start(tmp_path: Path) -> None:
    left = tmp_path / "collections" / ".left"
    left.mkdir(parents=True)
    with QdrantProcess(tmp_path):
        assert not left.exists()


def run_second(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "streams.embedded.qdrant", "--path", str(path), *options],
        capture_output=True,
        text=True,
        timeout=STOP_LIMIT,
        check=False,
    )


def test_a_directory_has_one_owner(service: QdrantProcess) -> None:
    second = run_second(service.path)
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr == f"qdrant: {service.path} is in use by another process; stop it or choose another path\n"


def test_a_taken_port_is_one_sentence(service: QdrantProcess, tmp_path: Path) -> None:
    port = service.url.rpartition(":")[2]
    second = run_second(tmp_path, "--port", port)
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr.startswith(f"qdrant: cannot listen on 127.0.0.1:{port}: ")
    assert second.stderr.count("\n") == 1


def test_a_damaged_directory_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "collections" / "broken").mkdir(parents=True)
    second = run_second(tmp_path)
    assert (second.returncode, second.stdout) == (1, "")
    assert second.stderr.startswith(f"qdrant: {tmp_path} cannot be read: ")
    assert second.stderr.count("\n") == 1


def test_ends_at_once_when_its_parent_has_ended_already(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait(STOP_LIMIT)
    assert run_second(tmp_path, "--die-with-parent", str(ended.pid)).returncode == 0


def test_ends_with_its_parent(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys; subprocess.Popen([sys.executable, *sys.argv[1:]]).wait()",
            *("-m", "streams.embedded.qdrant", "--path", str(tmp_path), "--die-with-parent"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        announced = parent.stdout.readline()
        assert '"pid"' in announced
    finally:
        parent.kill()
        parent.wait(STOP_LIMIT)
    # The child holds the other end of the pipe: its end is the end of the file.
    os.set_blocking(parent.stdout.fileno(), False)
    deadline = time.monotonic() + STOP_LIMIT
    while (rest := parent.stdout.buffer.raw.read(1)) is None and time.monotonic() < deadline:
        time.sleep(0.02)
    parent.stdout.close()
    assert rest == b""
