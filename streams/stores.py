"""The stores that the settings name, opened and closed around their use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sinks.clickhouse import ClickHouseArchive
    from sinks.embeddings import Embedder
    from sinks.vectors import VectorIndex
    from streams.settings import ClickHouseSettings, EmbeddingSettings, Settings


def make_embedder(embedding: EmbeddingSettings) -> Embedder:
    """Return the embedder that the settings name, with a memory of its own; whoever asked closes it."""
    from sinks.embeddings import CachedEmbedder

    return CachedEmbedder(_named_embedder(embedding))


def _named_embedder(embedding: EmbeddingSettings) -> Embedder:
    from sinks.embeddings import E5Embedder, HashEmbedder

    if embedding.kind == "e5":
        return E5Embedder()
    if embedding.kind == "hash":
        return HashEmbedder(embedding.dimension)
    from sinks.openai_embeddings import OpenAIEmbedder

    return OpenAIEmbedder(
        base_url=embedding.base_url,
        api_key=embedding.api_key.get_secret_value(),
        model=embedding.model,
        dimension=embedding.dimension,
    )


@asynccontextmanager
async def open_archive(clickhouse: ClickHouseSettings) -> AsyncIterator[ClickHouseArchive]:
    """Open the archive.

    Raises:
        SinkUnavailable: when it does not answer.
        SinkRejected: when it refuses this client.
    """
    from sinks.clickhouse import ClickHouseArchive

    archive = ClickHouseArchive(
        url=clickhouse.url,
        user=clickhouse.user,
        password=clickhouse.password.get_secret_value(),
        database=clickhouse.database,
        timeout=clickhouse.timeout,
    )
    try:
        await archive.open()
        yield archive
    finally:
        await archive.close()


@asynccontextmanager
async def open_vectors(settings: Settings, *, create: bool = True) -> AsyncIterator[VectorIndex]:
    """Open the vector store with its embedder.

    Args:
        settings: of the process.
        create: create the collection and its indexes where they are missing; a reader has no need to.

    Raises:
        SinkUnavailable: when it does not answer.
        SinkRejected: when it refuses this client.
    """
    from sinks.vectors import VectorIndex

    embedder = make_embedder(settings.embedding)
    index = VectorIndex(
        url=settings.qdrant.url,
        api_key=settings.qdrant.api_key.get_secret_value(),
        collection=settings.qdrant.collection,
        embedder=embedder,
        timeout=settings.qdrant.timeout,
    )
    try:
        if create:
            await index.open()
        yield index
    finally:
        await index.close()
        await embedder.close()
