"""The index agents: profile deltas and flush events to the vector store, in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from agents.archive import BatchWriter
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.places import Place
from streams.runtime import Runtime


class Index(Protocol):
    """Where the vectors go; raises `DependencyDown` when the store or the embedder does not answer."""

    async def apply(self, deltas: Sequence[ProfileDelta]) -> None:
        """Bring the points of what changed up to date; safe to repeat, and an older delta changes nothing."""
        ...

    async def apply_events(self, events: Sequence[FlushEvent]) -> None:
        """Write the points of what was talked about; safe to repeat."""
        ...


def register(
    runtime: Runtime,
    index: Index,
    *,
    on_deltas: Callable[[Sequence[ProfileDelta]], None] = lambda _rows: None,
    on_events: Callable[[Sequence[FlushEvent]], None] = lambda _rows: None,
) -> None:
    """Add the two index agents to an application."""
    limits = runtime.settings.qdrant

    async def apply(deltas: Sequence[ProfileDelta], _places: Sequence[Place]) -> None:
        await index.apply(deltas)

    async def apply_events(events: Sequence[FlushEvent], _places: Sequence[Place]) -> None:
        await index.apply_events(events)

    deltas = BatchWriter("index", ProfileDelta, apply, runtime.dead_letters, on_deltas)
    events = BatchWriter("index", FlushEvent, apply_events, runtime.dead_letters, on_events)
    for name, topic, writer in (
        ("index", runtime.topics.deltas, deltas),
        ("index events", runtime.topics.events, events),
    ):
        lane = runtime.batches(name, writer, max_records=limits.batch_points, max_seconds=limits.batch_seconds)
        runtime.agent(name.replace(" ", "-"), topic, lane.consume)
