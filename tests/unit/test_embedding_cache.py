"""`CachedEmbedder`: what it keeps, what it shares, and what it does not."""

from __future__ import annotations

import asyncio
import gc
import math
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest

from sinks.embeddings import CachedEmbedder, E5Embedder, Embedder, HashEmbedder
from sinks.errors import SinkUnavailable


class GatedEmbedder(HashEmbedder):
    """Notes its batches; holds them back while the gate is shut, and fails as told."""

    def __init__(self, dimension: int = 16) -> None:
        super().__init__(dimension)
        self.batches: list[list[str]] = []
        self.queries: list[str] = []
        self.closed = False
        self.failure: Exception | None = None
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        self.batches.append(list(texts))
        self.entered.set()
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return await super().embed_passages(texts)

    async def embed_query(self, text: str) -> list[float]:
        self.queries.append(text)
        return await super().embed_query(text)

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
def inner() -> GatedEmbedder:
    return GatedEmbedder()


async def test_what_was_embedded_is_not_embedded_again(inner: GatedEmbedder) -> None:
    cached = CachedEmbedder(inner)
    first = await cached.embed_passages(["tea", "coffee"])
    again = await cached.embed_passages(["coffee", "milk", "tea"])
    assert inner.batches == [["tea", "coffee"], ["milk"]]
    assert (again[2], again[0]) == (first[0], first[1])
    assert (cached.hits, cached.misses) == (2, 3)
    assert await cached.embed_passages([]) == []


async def test_vectors_are_those_of_the_inner_in_single_precision(inner: GatedEmbedder) -> None:
    cached = CachedEmbedder(inner)
    fresh, kept = [(await cached.embed_passages(["likes tea"]))[0] for _ in range(2)]
    (own,) = await inner.embed_passages(["likes tea"])
    assert fresh == kept == pytest.approx(own, abs=1e-7)
    assert math.hypot(*kept) == pytest.approx(1.0, abs=1e-6)
    kept[0] = 9.0
    assert (await cached.embed_passages(["likes tea"]))[0] == fresh


async def test_vectors_of_e5_are_exact() -> None:
    embedder = E5Embedder()
    texts = ["likes tea", "喜欢喝茶"]
    cached = CachedEmbedder(embedder)
    assert await cached.embed_passages(texts) == await embedder.embed_passages(texts)
    assert await cached.embed_query("tea") == await embedder.embed_query("tea")
    await cached.close()


async def test_it_is_an_embedder_like_the_inner(inner: GatedEmbedder) -> None:
    cached: Embedder = CachedEmbedder(inner)
    assert (cached.name, cached.dimension, cached.similarity_floor) == ("hash", 16, 0.15)
    await cached.close()
    assert inner.closed


async def test_queries_go_to_the_inner(inner: GatedEmbedder) -> None:
    cached = CachedEmbedder(inner)
    await cached.embed_passages(["tea"])
    for _ in range(2):
        assert await cached.embed_query("tea") == await HashEmbedder(16).embed_query("tea")
    assert inner.queries == ["tea", "tea"]
    assert (cached.hits, cached.misses) == (0, 1)


async def test_a_text_twice_in_a_batch_is_embedded_once(inner: GatedEmbedder) -> None:
    cached = CachedEmbedder(inner)
    one, _, other = await cached.embed_passages(["tea", "milk", "tea"])
    assert one == other
    assert inner.batches == [["tea", "milk"]]
    assert (cached.hits, cached.misses) == (1, 2)


async def test_texts_that_differ_a_little_are_different(inner: GatedEmbedder) -> None:
    texts = [
        "tea",
        "Tea",
        "tea ",
        " tea",
        "té",
        "te\u0301",
        "",
        "\0",
        "\ud800",
        "\udfff",
        "x" * 10_000,
        "x" * 10_001,
    ]
    await CachedEmbedder(inner).embed_passages(texts)
    assert inner.batches == [texts]


async def test_what_was_used_last_is_kept(inner: GatedEmbedder) -> None:
    cached = CachedEmbedder(inner, size=2)
    for texts in (["a"], ["b"], ["a"], ["c"], ["a"], ["b"]):
        await cached.embed_passages(texts)
    assert inner.batches == [["a"], ["b"], ["c"], ["b"]]


async def test_a_batch_larger_than_the_cache_is_answered(inner: GatedEmbedder) -> None:
    cached = CachedEmbedder(inner, size=3)
    texts = [f"text {n}" for n in range(10)]
    assert await cached.embed_passages(texts) == await CachedEmbedder(inner).embed_passages(texts)
    await cached.embed_passages(texts[-3:])
    assert len(inner.batches) == 2


@pytest.mark.long
async def test_its_size_in_memory_does_not_depend_on_the_texts() -> None:
    cached = CachedEmbedder(HashEmbedder(384), size=100)
    tracemalloc.start()
    try:
        for n in range(300):
            await cached.embed_passages([f"{n} " * 500])
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 100 * 384 * 8  # half of it goes to numbers of 4 bytes each


async def test_a_text_under_way_is_not_embedded_a_second_time(inner: GatedEmbedder) -> None:
    cached = CachedEmbedder(inner)
    inner.gate.clear()
    first = asyncio.create_task(cached.embed_passages(["tea", "milk"]))
    await inner.entered.wait()
    others = [asyncio.create_task(cached.embed_passages(texts)) for texts in (["milk"], ["water", "tea"])]
    await asyncio.sleep(0)
    inner.gate.set()
    (tea, milk), (also_milk,), (_, also_tea) = await asyncio.gather(first, *others)
    assert (also_tea, also_milk) == (tea, milk)
    assert inner.batches == [["tea", "milk"], ["water"]]
    assert (cached.hits, cached.misses) == (2, 3)


async def test_failures_are_shared_and_not_kept(inner: GatedEmbedder) -> None:
    cached = CachedEmbedder(inner)
    inner.gate.clear()
    inner.failure = SinkUnavailable("away", 3.0)
    waiting = [asyncio.create_task(cached.embed_passages(texts)) for texts in (["tea"], ["tea", "milk"])]
    await inner.entered.wait()
    inner.gate.set()
    assert await asyncio.gather(*waiting, return_exceptions=True) == [inner.failure] * 2
    assert inner.batches == [["tea"], ["milk"]]
    inner.failure = None
    assert len(await cached.embed_passages(["tea", "milk"])) == 2
    assert inner.batches[2:] == [["tea", "milk"]]


async def test_one_that_is_cancelled_takes_it_from_nobody(inner: GatedEmbedder) -> None:
    cached = CachedEmbedder(inner)
    inner.gate.clear()
    first = asyncio.create_task(cached.embed_passages(["tea"]))
    await inner.entered.wait()
    other = asyncio.create_task(cached.embed_passages(["tea"]))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    inner.gate.set()
    assert len(await other) == 1
    assert inner.batches == [["tea"]]


async def test_a_failure_that_nobody_waits_for_is_no_complaint(inner: GatedEmbedder) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    cached = CachedEmbedder(inner)
    inner.gate.clear()
    inner.failure = SinkUnavailable("away")
    only = asyncio.create_task(cached.embed_passages(["tea"]))
    await inner.entered.wait()
    only.cancel()
    with pytest.raises(asyncio.CancelledError):
        await only
    inner.gate.set()
    await cached.close()
    del only
    gc.collect()
    assert complaints == []
    inner.failure = None
    await cached.embed_passages(["tea"])
    assert inner.batches == [["tea"], ["tea"]]
