"""`Runtime`: what an agent needs of the application it runs in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import faust
from aiokafka.errors import KafkaError
from faust.types import TP

from streams.backoff import Backoff
from streams.batches import BatchLane, WriteBatch
from streams.dead_letters import DeadLetters
from streams.delivery import RawSchema, events_of
from streams.errors import DependencyDown
from streams.faust_app import AppSource, PipelineApp, create_app
from streams.lanes import Concerns, GiveUp, Handler, KeyedLanes, Ready
from streams.records import EventStream, TopicPartition
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
        guard: raises when this process may not write.
        fetch_interval: seconds between two fetches of its consumer (`PipelineApp`).
        now: the wall clock.

    Attributes:
        stages: what was made by `lanes` and `batches`, by name.
    """

    def __init__(
        self,
        settings: Settings,
        group_id: str,
        partitions: int,
        guard: Callable[[], None],
        *,
        fetch_interval: float = PipelineApp.fetch_interval,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.settings = settings
        self.partitions = partitions
        self.now = now
        self.topics = Topics.of(settings.kafka)
        self.app: PipelineApp = create_app(settings, group_id)
        self.app.guard = guard
        self.app.fetch_interval = fetch_interval
        self.lifecycle = self.app.lifecycle
        self.source = AppSource(self.app)
        self._channels: dict[str, faust.TopicT] = {name: self._channel(name) for name in self.topics.records()}
        self.sender = Sender(self.app.produce, guard)
        self.dead_letters = DeadLetters(self.sender, self.topics.dead_letters, now)
        self.stages: dict[str, KeyedLanes | BatchLane] = {}

    def _channel(self, name: str) -> faust.TopicT:
        return self.app.topic(name, schema=RawSchema(), partitions=self.partitions)

    def highwater(self, place: TopicPartition) -> int | None:
        """Return the offset that the next record of an assigned partition will have, as the last fetch told it."""
        partition = TP(place.topic, place.partition)
        consumer = self.app.consumer
        return consumer.highwater(partition) if partition in consumer.assignment() else None

    async def log_ends(self, partitions: Sequence[int]) -> list[int]:
        """Return the offset that the next record of each of these partitions of the chat topic will have.

        It is 0 where there is no such partition.

        Raises:
            DependencyDown: when the broker does not say.
        """
        topic = self.topics.messages
        places = [TP(topic, partition) for partition in partitions if partition < self.partitions]
        try:
            ends = await self.app.consumer.highwaters(*places) if places else {}
        except KafkaError as error:
            raise DependencyDown(f"the end of {topic} is not known: {error}") from error
        return [int(ends.get(TP(topic, partition), 0)) for partition in partitions]

    @property
    def backoff(self) -> Backoff:
        """Waits between tries, as set."""
        return Backoff(self.settings.lanes.backoff, self.settings.lanes.backoff_limit)

    def agent(self, name: str, topic: str, consume: Callable[[EventStream], Awaitable[None]]) -> None:
        """Register a Faust agent that hands the events of a topic to `consume`."""

        async def agent(stream: Any) -> None:
            await consume(events_of(stream))

        self.app.agent(self._channels[topic], name=name)(agent)

    def lanes(
        self,
        name: str,
        handler: Handler,
        give_up: GiveUp,
        *,
        ready: Ready | None = None,
        concerns: Concerns | None = None,
        on_forget: Callable[[], None] = lambda: None,
    ) -> KeyedLanes:
        """Create keyed lanes with the settings' limits that take part in the lifecycle."""
        limits = self.settings.lanes
        lanes = KeyedLanes(
            name,
            self.source,
            handler=handler,
            give_up=give_up,
            ready=ready,
            concerns=concerns,
            concurrency=limits.concurrency,
            max_open=limits.max_open,
            attempts=limits.attempts,
            backoff=self.backoff,
            on_forget=on_forget,
        )
        self.lifecycle.register(lanes)
        self.stages[name] = lanes
        return lanes

    def batches(
        self, name: str, write: WriteBatch, *, max_records: int, max_seconds: float, contiguous: bool = True
    ) -> BatchLane:
        """Create a batch lane that takes part in the lifecycle."""
        lane = BatchLane(
            name,
            self.source,
            write=write,
            max_records=max_records,
            max_seconds=max_seconds,
            backoff=self.backoff,
            contiguous=contiguous,
        )
        self.lifecycle.register(lane)
        self.stages[name] = lane
        return lane
