"""The index agent: profile deltas to the vector store, in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from agents.archive import BatchWriter
from schemas.deltas import ProfileDelta
from streams.runtime import Runtime


class Index(Protocol):
    """Where the vectors go; raises `DependencyDown` when the store or the embedder does not answer."""

    async def apply(self, deltas: Sequence[ProfileDelta]) -> None:
        """Bring the points of these slots up to date; safe to repeat, and an older delta changes nothing."""
        ...


def register(
    runtime: Runtime,
    index: Index,
    *,
    on_deltas: Callable[[Sequence[ProfileDelta]], None] = lambda _rows: None,
) -> None:
    """Add the index agent to an application."""
    limits = runtime.settings.qdrant
    writer = BatchWriter("index", ProfileDelta, index.apply, runtime.dead_letters, on_deltas)
    lane = runtime.batches("index", writer, max_records=limits.batch_points, max_seconds=limits.batch_seconds)
    runtime.agent("index", runtime.topics.deltas, lane.consume)
