"""The embedded Qdrant, driven by the ordinary client over HTTP: what it serves, and what survives."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from streams.embedded.qdrant_http import VERSION
from tests.integration.embedded_qdrant_fixtures import POINTS, A, B, C, client_of, create, field
from tests.integration.qdrant_fixtures import STOP_LIMIT, QdrantProcess

pytest_plugins = ["tests.integration.embedded_qdrant_fixtures"]


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


class TestSeveralVectors:
    @pytest.fixture
    async def hybrid(self, client: AsyncQdrantClient) -> str:
        """A collection with vectors of two kinds, and points of two tenants."""
        name = f"c-{uuid4()}"
        await client.create_collection(
            name,
            vectors_config={"dense": models.VectorParams(size=2, distance=models.Distance.COSINE)},
            sparse_vectors_config={"sparse": models.SparseVectorParams(modifier=models.Modifier.IDF)},
            hnsw_config=models.HnswConfigDiff(m=0, payload_m=16),
        )
        words = {A: [1, 2], B: [2], C: [1]}
        vectors = {A: [0.0, 1.0], B: [1.0, 0.0], C: [0.8, 0.6]}
        tenants = {A: "a", B: "a", C: "b"}
        points = [
            models.PointStruct(
                id=point,
                vector={
                    "dense": vectors[point],
                    "sparse": models.SparseVector(indices=words[point], values=[1.0] * len(words[point])),
                },
                payload={"tenant": tenants[point]},
            )
            for point in (A, B, C)
        ]
        await client.upsert(name, points, wait=True)
        return name

    async def test_are_described_and_read_by_name(self, client: AsyncQdrantClient, hybrid: str) -> None:
        config = (await client.get_collection(hybrid)).config
        assert config.params.vectors == {"dense": models.VectorParams(size=2, distance=models.Distance.COSINE)}
        assert config.params.sparse_vectors == {"sparse": models.SparseVectorParams(modifier=models.Modifier.IDF)}
        assert (config.hnsw_config.m, config.hnsw_config.payload_m) == (0, 16)
        (one,) = await client.retrieve(hybrid, [A], with_vectors=["dense"])
        assert one.vector == {"dense": [0.0, 1.0]}
        (all_of_it,) = await client.retrieve(hybrid, [A], with_vectors=True)
        assert all_of_it.vector["sparse"] == models.SparseVector(indices=[1, 2], values=[1.0, 1.0])

    async def test_rarity_is_counted_in_the_points_that_are_named(self, client: AsyncQdrantClient, hybrid: str) -> None:
        nearest = models.SparseVector(indices=[1], values=[1.0])
        tenant = field("tenant", match=models.MatchValue(value="a"))

        async def score(**idf: models.IdfCorpusParams) -> float:
            params = models.SearchParams(**idf) if idf else None
            (found,) = (
                await client.query_points(
                    hybrid, query=nearest, using="sparse", query_filter=tenant, search_params=params
                )
            ).points
            return found.score

        # One of two points has the word in the tenant, two of three in all.
        assert await score() == pytest.approx(math.log(1 + (3 - 2 + 0.5) / (2 + 0.5)))
        assert await score(idf=models.IdfCorpusParams(corpus=tenant)) == pytest.approx(
            math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
        )

    async def test_are_fused_by_rank(self, client: AsyncQdrantClient, hybrid: str) -> None:
        ways = [
            models.Prefetch(query=[1.0, 0.0], using="dense", limit=1, score_threshold=0.5),
            models.Prefetch(
                query=models.NearestQuery(nearest=models.SparseVector(indices=[1, 2], values=[1.0, 1.0])),
                using="sparse",
                limit=1,
            ),
        ]
        rrf = models.RrfQuery(rrf=models.Rrf(k=10, weights=[1.0, 0.5]))
        found = (await client.query_points(hybrid, prefetch=ways, query=rrf, with_payload=True)).points
        # Of weight w, the hit at rank r (from 1) scores 1 / (k + r / w - 1).
        assert [(point.id, point.payload) for point in found] == [(B, {"tenant": "a"}), (A, {"tenant": "a"})]
        assert [point.score for point in found] == pytest.approx([1 / 10, 1 / (10 + 1 / 0.5 - 1)])
        default = await client.query_points(hybrid, prefetch=ways[0], query=models.FusionQuery(fusion="rrf"))
        assert [point.score for point in default.points] == [pytest.approx(1 / 2)]

    async def test_parameters_that_are_none_are_refused(self, service: QdrantProcess) -> None:
        async with httpx.AsyncClient() as http:
            answer = await http.put(f"{service.url}/collections/c-{uuid4()}", json={"vectors": {"dense": {"size": 0}}})
        assert answer.status_code == 400

    async def test_a_collection_of_an_older_release_is_read(self, tmp_path: Path) -> None:
        with QdrantProcess(tmp_path) as service:
            client = client_of(service)
            await create(client, "old")
            await client.upsert("old", POINTS, wait=True)
            await client.close()
        described = tmp_path / "collections" / "old" / "collection.json"
        described.write_bytes(b'{"size":2,"distance":"Cosine"}')
        with QdrantProcess(tmp_path) as service:
            client = client_of(service)
            assert (await client.get_collection("old")).config.params.vectors.size == 2
            assert (await client.query_points("old", [1.0, 0.0], limit=1)).points[0].id == A
            await client.close()


class TestAliases:
    async def names(self, client: AsyncQdrantClient, collection: str) -> list[str]:
        return [alias.alias_name for alias in (await client.get_collection_aliases(collection)).aliases]

    async def test_stand_for_a_collection(self, client: AsyncQdrantClient, collection: str) -> None:
        alias = f"a-{uuid4()}"
        created = models.CreateAlias(collection_name=collection, alias_name=alias)
        await client.update_collection_aliases([models.CreateAliasOperation(create_alias=created)])
        assert await self.names(client, collection) == [alias]
        assert (await client.count(alias)).count == 3
        assert (await client.query_points(alias, [1.0, 0.0], limit=1)).points[0].id == A
        assert alias not in [found.name for found in (await client.get_collections()).collections]
        assert {(found.alias_name, found.collection_name) for found in (await client.get_aliases()).aliases} >= {
            (alias, collection)
        }

    async def test_change_over_all_at_once_or_not_at_all(self, client: AsyncQdrantClient, collection: str) -> None:
        alias, other = f"a-{uuid4()}", f"c-{uuid4()}"
        await create(client, other)
        point = lambda name: models.CreateAliasOperation(  # noqa: E731 - one idea, three uses
            create_alias=models.CreateAlias(collection_name=name, alias_name=alias)
        )
        drop = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))
        await client.update_collection_aliases([point(collection)])
        with pytest.raises(UnexpectedResponse, match="nowhere"):
            await client.update_collection_aliases([drop, point("nowhere")])
        assert await self.names(client, collection) == [alias]
        await client.update_collection_aliases([drop, point(other)])
        assert (await self.names(client, collection), await self.names(client, other)) == ([], [alias])
        renamed = models.RenameAlias(old_alias_name=alias, new_alias_name=f"{alias}-2")
        await client.update_collection_aliases([models.RenameAliasOperation(rename_alias=renamed)])
        assert await self.names(client, other) == [f"{alias}-2"]

    async def test_names_of_collections_are_taken(self, client: AsyncQdrantClient, collection: str) -> None:
        created = models.CreateAlias(collection_name=collection, alias_name=collection)
        with pytest.raises(UnexpectedResponse, match="already exists"):
            await client.update_collection_aliases([models.CreateAliasOperation(create_alias=created)])

    async def test_end_with_their_collection_and_outlive_a_kill(self, tmp_path: Path) -> None:
        service = QdrantProcess(tmp_path).start()
        client = client_of(service)
        for name in ("kept", "removed"):
            await create(client, name)
            created = models.CreateAlias(collection_name=name, alias_name=f"of-{name}")
            await client.update_collection_aliases([models.CreateAliasOperation(create_alias=created)])
        with pytest.raises(UnexpectedResponse, match="already exists"):
            await create(client, "of-kept")
        await client.delete_collection("removed")
        await client.close()
        service.end(signal.SIGKILL)
        with service:
            client = client_of(service)
            assert [found.alias_name for found in (await client.get_aliases()).aliases] == ["of-kept"]
            assert (await client.count("of-kept")).count == 0
            await client.close()


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
