"""An embedded Qdrant that the tests of it share, with a client and a collection of three points for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from uuid import UUID, uuid4

import pytest
from qdrant_client import AsyncQdrantClient, models

from tests.integration.qdrant_fixtures import QdrantProcess

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


@pytest.fixture(scope="session")
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
