"""Filling a collection from the archive, and tenants that share user ids, all the way round."""

from __future__ import annotations

import random
from uuid import uuid4

import pytest
from qdrant_client import AsyncQdrantClient

from sinks.clickhouse import ClickHouseArchive
from sinks.errors import SinkRejected
from sinks.vectors import ALL_KINDS, VectorIndex
from sinks.vectors.reindexing import reindex
from tests.integration.qdrant_fixtures import QdrantProcess
from tests.integration.test_vector_forget import forget
from tests.integration.test_vector_gists import event
from tests.integration.vector_fixtures import CountingEmbedder, delta, index_at, life

pytest_plugins = ["tests.integration.clickhouse_fixtures", "tests.integration.vector_fixtures"]

TENANTS, USERS = ("acme", "other"), ("ann", "bob", "李雷")


async def points(service: QdrantProcess, index: VectorIndex) -> dict[str, object]:
    """Payload and vectors by id; which version a user's own point tells depends on where batches were cut."""
    client = AsyncQdrantClient(url=service.url, timeout=10, check_compatibility=False)
    found, _ = await client.scroll(index.collection, limit=1_000, with_vectors=True)
    await client.close()
    own = {"version": 0}
    return {
        str(point.id): (point.payload | (own if point.payload["kind"] == "user" else {}), point.vector)
        for point in found
    }


async def filled(archive: ClickHouseArchive, *indexes: VectorIndex) -> None:
    """Write the same history of every user of both tenants, each with its tenant's name in it."""
    for tenant in TENANTS:
        for user in USERS:
            whose = {"tenant_id": tenant, "user_id": user}
            deltas = [
                *life(**whose),
                delta("interest", "sport", f"golf at {tenant}", 7, op="update", **whose),
                delta("family", "pet", None, 8, **whose),
                delta("diet", "allergy", "对花生过敏", 9, op="confirm", **whose),
            ]
            if user == "bob":
                deltas += [forget(10, **whose), delta("diet", "drink", f"tea of {tenant}", 11, **whose)]
            events = [event(number, f"talked of {tenant} {number}", **whose) for number in range(3)]
            await archive.write_deltas(deltas)
            await archive.write_events(events)
            for index in indexes:
                for start in range(0, len(deltas), 2):
                    await index.apply(deltas[start : start + 2])
                await index.apply_events(events)


async def test_the_collection_equals_one_that_was_written_as_it_came(
    service: QdrantProcess, index: VectorIndex, archive: ClickHouseArchive
) -> None:
    await filled(archive, index)
    async with index_at(service.url, CountingEmbedder(), collection=f"t-{uuid4()}") as other:
        told: list[int] = []
        assert await reindex(archive, other, told.append) == 6
        assert told[-1] == 6
        assert told == sorted(told)
        assert await points(service, other) == await points(service, index)
        assert await other.in_use() == other.collection


async def test_another_model_is_in_use_once_it_is_full(
    service: QdrantProcess, index: VectorIndex, archive: ClickHouseArchive
) -> None:
    await filled(archive, index)
    async with index_at(service.url, CountingEmbedder(64), collection=index.alias) as other:
        await other.open()
        await other.apply([delta("diet", "drink", "cocoa", 20)])
        assert await index.in_use() == index.collection
        with pytest.raises(SinkRejected, match=r"not in use yet.*profilestream reindex"):
            await other.search("cocoa", tenant_id="acme")
        await reindex(archive, other)
        assert await index.in_use() == other.collection
        assert [hit.text for hit in await other.search("cocoa", tenant_id="acme", limit=1)] == ["cocoa"]
        assert await other.count() == await index.count() + 1
        with pytest.raises(SinkRejected, match="not in use"):
            await index.search("tea", tenant_id="acme")
        await other.delete_collection(other.collection)
        assert await other.count() > 0
        await other.delete_collection(index.collection)
        assert await other.search("tea", tenant_id="acme")


class Interrupted(Exception):
    """Stands for the death of the process."""


async def test_cut_short_it_is_resumed_without_embedding_again(
    service: QdrantProcess, index: VectorIndex, archive: ClickHouseArchive
) -> None:
    await filled(archive, index)
    embedder = CountingEmbedder()
    async with index_at(service.url, embedder, collection=f"t-{uuid4()}") as other:

        def interrupt(_users: int) -> None:
            raise Interrupted

        with pytest.raises(Interrupted):
            await reindex(archive, other, interrupt)
        begun = len(embedder.passages)
        assert begun > 0
        await reindex(archive, other)
        assert len(embedder.passages) == await other.count(kinds=["slot", "fact", "preference", "gist"])
        assert await points(service, other) == await points(service, index)
        whole = len(embedder.passages)
        await reindex(archive, other)
        assert len(embedder.passages) == whole


@pytest.mark.parametrize("retrieval", ["both", "dense", "sparse"])
async def test_no_question_finds_anything_of_another_tenant(
    index: VectorIndex, archive: ClickHouseArchive, retrieval: str
) -> None:
    await filled(archive, index)
    await reindex(archive, index)
    chance = random.Random(7)
    words = ["golf", "tea", "acme", "other", "talked", "对花生过敏", "Hangzhou", "会计", "0", "interest sport"]
    for _ in range(15):
        tenant, other = chance.sample(TENANTS, 2)
        text = " ".join(chance.sample(words, 3))
        user = chance.choice([None, *USERS])
        hits = await index.search(text, tenant_id=tenant, user_id=user, limit=100, retrieval=retrieval)  # type: ignore[arg-type]
        assert not any(f"at {other}" in hit.text or f"of {other}" in hit.text for hit in hits)
        assert {hit.user_id for hit in hits} <= ({user} if user else set(USERS))
    for tenant in TENANTS:
        alike = await index.similar_users(tenant, "ann", limit=100)
        assert {user.user_id for user in alike or []} <= {"bob", "李雷"}
    assert await index.search("golf", tenant_id="third", retrieval=retrieval) == []  # type: ignore[arg-type]


async def test_scores_of_words_do_not_tell_of_other_tenants(index: VectorIndex) -> None:
    async def ranked() -> list[str]:
        hits = await index.search("blue tea", tenant_id="acme", retrieval="sparse")
        return [hit.text for hit in hits]

    await index.apply([delta("a", "b", "tea", 1), delta("a", "c", "blue", 2), delta("a", "d", "blue sky", 3)])
    before = await ranked()
    assert before[0] == "tea"  # the rarer word
    await index.apply([delta("a", f"s{n}", "tea", n + 1, tenant_id="other") for n in range(50)])
    assert await ranked() == before


async def test_everything_is_removed_with_a_user(index: VectorIndex, archive: ClickHouseArchive) -> None:
    await filled(archive, index)
    await index.delete_user("acme", "ann")
    assert await index.count("acme", "ann", kinds=ALL_KINDS) == 0
    assert await index.count("other", "ann", kinds=ALL_KINDS) > 0
