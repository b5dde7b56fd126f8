"""Deltas, an embedder and an index of their own for the tests of `VectorIndex`, on the embedded Qdrant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from qdrant_client import AsyncQdrantClient, models

from schemas.deltas import ProfileDelta
from schemas.ids import delta_id, slot_id
from sinks.embeddings import E5Embedder, HashEmbedder
from sinks.vectors import VectorIndex
from tests.integration.qdrant_fixtures import QdrantProcess

SAID_AT = datetime(2024, 5, 1, 10, tzinfo=UTC)
LIFE = [
    ("diet", "allergy", "对花生过敏"),
    ("interest", "sport", "plays tennis every Sunday"),
    ("interest", "music", "喜欢听周杰伦和古典音乐"),
    ("family", "pet", "有一只叫豆豆的金毛犬"),
    ("basic_info", "city", "moved to Hangzhou last year"),
    ("work", "occupation", "在银行做会计"),
]


class CountingEmbedder(HashEmbedder):
    """A quick embedder that notes what it embeds."""

    def __init__(self, dimension: int = 384) -> None:
        super().__init__(dimension)
        self.passages: list[str] = []

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        self.passages += texts
        return await super().embed_passages(texts)


def delta(topic: str, sub_topic: str, after: str | None, version: int = 1, **changes: Any) -> ProfileDelta:
    fields: dict[str, Any] = {
        "tenant_id": "acme",
        "user_id": "ann",
        "delta_id": delta_id("flush", version),
        "version": version,
        "flush_id": "flush",
        "index": version,
        "op": "delete" if after is None else "add",
        "topic": topic,
        "sub_topic": sub_topic,
        "before": None,
        "after": after,
        "added": after,
        "reason": "she said so",
        "evidence": (f"m{version}",),
        "update_hits": 1,
        "said_at": SAID_AT + timedelta(hours=version),
        "recorded_at": SAID_AT + timedelta(days=1),
        "processor": "rules",
        "pipeline_version": "p1",
    }
    return ProfileDelta(**fields | changes)


def life(**changes: Any) -> list[ProfileDelta]:
    return [delta(*slot, version, **changes) for version, slot in enumerate(LIFE, 1)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantProcess]:
    with QdrantProcess(tmp_path_factory.mktemp("qdrant")) as process:
        yield process


@pytest.fixture(scope="module")
def e5() -> E5Embedder:
    return E5Embedder()


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@asynccontextmanager
async def index_at(url: str, embedder: Any, **options: Any) -> AsyncIterator[VectorIndex]:
    index = VectorIndex(url=url, embedder=embedder, **{"collection": f"t-{uuid4()}", "timeout": 10.0} | options)
    try:
        yield index
    finally:
        await index.close()


@pytest.fixture
async def index(service: QdrantProcess, embedder: CountingEmbedder) -> AsyncIterator[VectorIndex]:
    """An empty collection of this test only."""
    async with index_at(service.url, embedder) as index:
        await index.open()
        yield index


@pytest.fixture
async def point(service: QdrantProcess, index: VectorIndex) -> AsyncIterator[Callable[..., Any]]:
    """Read a point with the bare client: `await point(topic, sub_topic)` of a slot, `await point(item_id)`."""
    client = AsyncQdrantClient(url=service.url, timeout=10, check_compatibility=False)

    async def read(*names: str) -> models.Record | None:
        point_id = names[0] if len(names) == 1 else slot_id("acme", "ann", "slot", *names)
        found = await client.retrieve(index.collection, [point_id], with_vectors=True)
        return found[0] if found else None

    yield read
    await client.close()
