"""`Runtime`: what an agent needs of the application it runs in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import faust

from streams.backoff import Backoff
from streams.batches import BatchLane, WriteBatch
from streams.dead_letters import DeadLetters
from streams.faust_app import AppSource, PipelineApp, create_app
from streams.lanes import GiveUp, Handler, KeyedLanes
from streams.records import EventStream
from streams.sender import Sender
from streams.settings import Settings
from streams.topics import Topics


def utc_now() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)


class Runtime:
    """One Faust application with its topics, sender, dead letters and lifecycle.

    Args:
        settings: of the process.
        group_id: consumer group of this application.
        partitions: number of partitions that every topic has.
        now: the wall clock.
    """

    def __init__(
        self, settings: Settings, group_id: str, partitions: int, now: Callable[[], datetime] = utc_now
    ) -> None:
        self.settings = settings
        self.partitions = partitions
        self.now = now
        self.topics = Topics.of(settings.kafka)
        self.app: PipelineApp = create_app(settings, group_id)
        self.lifecycle = self.app.lifecycle
        self.source = AppSource(self.app)
        self._channels: dict[str, faust.TopicT] = {name: self._channel(name) for name in self.topics.records()}
        self.sender = Sender(self._channels)
        self.dead_letters = DeadLetters(self.sender, self.topics.dead_letters, now)

    def _channel(self, name: str) -> faust.TopicT:
        return self.app.topic(
            name,
            key_type=bytes,
            value_type=bytes,
            key_serializer="raw",
            value_serializer="raw",
            partitions=self.partitions,
            allow_empty=True,
        )

    @property
    def backoff(self) -> Backoff:
        """Waits between tries, as set."""
        return Backoff(self.settings.lanes.backoff, self.settings.lanes.backoff_limit)

    def agent(self, name: str, topic: str, consume: Callable[[EventStream], Awaitable[None]]) -> None:
        """Register a Faust agent that hands the events of a topic to `consume`."""

        async def agent(stream: Any) -> None:
            await consume(stream)

        self.app.agent(self._channels[topic], name=name)(agent)

    def lanes(
        self, name: str, handler: Handler, give_up: GiveUp, on_forget: Callable[[], None] = lambda: None
    ) -> KeyedLanes:
        """Create keyed lanes with the settings' limits that take part in the lifecycle."""
        limits = self.settings.lanes
        lanes = KeyedLanes(
            name,
            self.source,
            handler=handler,
            give_up=give_up,
            concurrency=limits.concurrency,
            max_open=limits.max_open,
            attempts=limits.attempts,
            backoff=self.backoff,
            on_forget=on_forget,
        )
        self.lifecycle.register(lanes)
        return lanes

    def batches(self, name: str, write: WriteBatch, *, max_records: int, max_seconds: float) -> BatchLane:
        """Create a batch lane that takes part in the lifecycle."""
        lane = BatchLane(
            name,
            self.source,
            write=write,
            max_records=max_records,
            max_seconds=max_seconds,
            backoff=self.backoff,
        )
        self.lifecycle.register(lane)
        return lane
