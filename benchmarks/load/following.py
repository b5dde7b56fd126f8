"""`Follower`: reads the ends of flushes and the deltas as they come, and accounts for every message."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from benchmarks.load.sending import Sender
from benchmarks.load.traffic import number_of
from schemas.codec import decode
from schemas.deltas import FlushEvent
from schemas.flushes import Lane
from schemas.stages import ModelCall
from streams.kafka import consumer
from streams.settings import KafkaSettings
from streams.topics import Topics

_IN_CROWDS: Final[Mapping[str, Any]] = {"fetch_min_bytes": 4_000_000, "fetch_max_wait_ms": 250}
"""Times are those of the records: fetched one by one they would cost the broker and this process more than the rest of
what they do at a steady rate, and the workers that are measured are on the same processors."""

_PARALLEL: Final = (("extract", "tag", "domain"), ("facts", "preferences"))
"""Stages that ask at the same time: the slowest of them counts."""


class Latency(NamedTuple):
    """How long a flush took from the message that closed its window to its last delta on the topic.

    Attributes:
        at: when that was, in seconds since the epoch.
        seconds: in all.
        model: of these, spent on model calls that nothing else was done meanwhile.
    """

    at: float
    lane: Lane
    seconds: float
    model: float

    @property
    def added(self) -> float:
        """What the program added to the model's time."""
        return max(0.0, self.seconds - self.model)


class End(NamedTuple):
    """The end of a flush: when, in seconds since the epoch, and how many requests to the model it had cost."""

    at: float
    requests: int


class _Delta(msgspec.Struct, frozen=True):
    delta_id: str
    flush_id: str


@dataclass(slots=True)
class _Deltas:
    """Those of one flush: how many came, when the last of them was sent, and the flush's end, once it came."""

    count: int = 0
    last: float = 0.0
    event: FlushEvent | None = None


@dataclass(slots=True)
class Seen:
    """What came so far; records that came a second time are counted as repeats and nowhere else.

    Attributes:
        messages: how often each message was in the flushes of lane ``memo``, by its number.
        ended: messages in these flushes.
        strays: messages that nobody sent.
        flushes: by lane and what closed them.
        outcomes: by lane and how they ended.
        calls: model calls, by stage.
        requests: requests sent for them.
        call_seconds: summed durations, by stage.
        tokens: prompt and completion tokens of all calls.
        ends: of all flushes.
        latencies: of flushes that a message closed.
    """

    messages: Counter[int] = field(default_factory=Counter)
    ended: int = 0
    strays: int = 0
    events: int = 0
    deltas: int = 0
    repeats: int = 0
    flushes: Counter[tuple[Lane, str]] = field(default_factory=Counter)
    outcomes: Counter[tuple[Lane, str]] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    call_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    tokens: int = 0
    ends: list[End] = field(default_factory=list)
    latencies: list[Latency] = field(default_factory=list)

    def of_lane(self, lane: Lane) -> int:
        """Return how many flushes of a lane have ended."""
        return sum(count for (other, _), count in self.flushes.items() if other == lane)


class Follower:
    """Reads the topics from their beginning in a task of its own.

    Args:
        kafka: where they are.
        partitions: of every topic.
        sender: knows when messages were sent.
        window_tokens: budget of a window.
    """

    def __init__(self, kafka: KafkaSettings, partitions: int, sender: Sender, window_tokens: int) -> None:
        self._kafka = kafka
        self._partitions = partitions
        self._names = Topics.of(kafka)
        self._sender = sender
        self._window_tokens = window_tokens
        self._event_ids: set[str] = set()
        self._delta_ids: set[str] = set()
        self._of_flush: dict[str, _Deltas] = {}
        self._waiting: list[tuple[FlushEvent, float]] = []
        self.seen = Seen()

    async def run(self) -> None:
        """Read until the task is cancelled.

        Raises:
            KafkaUnavailable: when the broker does not answer.
        """
        topics = (self._names.events, self._names.deltas)
        async with consumer(self._kafka, **_IN_CROWDS) as client:
            places = [TopicPartition(topic, number) for topic in topics for number in range(self._partitions)]
            client.assign(places)
            await client.seek_to_beginning(*places)
            while True:
                for place, records in (await client.getmany(timeout_ms=200, max_records=2_000)).items():
                    if place.topic == self._names.deltas:
                        self.take_deltas(records)
                    else:
                        self.take_events(records)
                await asyncio.sleep(0)

    @property
    def deltas_missing(self) -> int:
        """Deltas that ended flushes name and that have not come yet."""
        return sum(
            len(deltas.event.delta_ids) - deltas.count for deltas in self._of_flush.values() if deltas.event is not None
        )

    def measured(self) -> list[Latency]:
        """Return the latencies, once everything has come and everything sent is acknowledged."""
        waiting, self._waiting = self._waiting, []
        for event, last in waiting:
            self._measure(event, last)
        return self.seen.latencies

    def take_deltas(self, records: Sequence[ConsumerRecord]) -> None:
        """Take records of the delta topic."""
        for record in records:
            delta = decode(record.value, _Delta)
            if delta.delta_id in self._delta_ids:
                self.seen.repeats += 1
                continue
            self._delta_ids.add(delta.delta_id)
            self.seen.deltas += 1
            deltas = self._of_flush.setdefault(delta.flush_id, _Deltas())
            deltas.count += 1
            deltas.last = max(deltas.last, record.timestamp / 1000)
            self._settle(delta.flush_id, deltas)

    def take_events(self, records: Sequence[ConsumerRecord]) -> None:
        """Take records of the event topic."""
        for record in records:
            event = decode(record.value, FlushEvent)
            if event.event_id in self._event_ids:
                self.seen.repeats += 1
                continue
            self._event_ids.add(event.event_id)
            self._count(event)
            self.seen.ends.append(End(record.timestamp / 1000, sum(call.attempts for call in event.calls)))
            if event.delta_ids:
                deltas = self._of_flush.setdefault(event.flush.flush_id, _Deltas())
                deltas.event = event
                self._settle(event.flush.flush_id, deltas)

    def _count(self, event: FlushEvent) -> None:
        seen, ref = self.seen, event.flush
        seen.events += 1
        seen.flushes[ref.lane, ref.trigger] += 1
        seen.outcomes[ref.lane, event.outcome] += 1
        for call in event.calls:
            seen.calls[call.stage] += 1
            seen.call_seconds[call.stage] += call.duration_ms / 1000
            seen.requests += call.attempts
            seen.tokens += call.prompt_tokens + call.completion_tokens
        if ref.lane != "memo":
            return
        seen.ended += len(event.messages)
        for message in event.messages:
            number = number_of(message.message_id)
            if number is None:
                seen.strays += 1
            else:
                seen.messages[number] += 1

    def _settle(self, flush_id: str, deltas: _Deltas) -> None:
        """Take a flush's latency once its end and all its deltas have come."""
        if deltas.event is None or deltas.count < len(deltas.event.delta_ids):
            return
        del self._of_flush[flush_id]
        self._measure(deltas.event, deltas.last)

    def _measure(self, event: FlushEvent, last: float) -> None:
        ref = event.flush
        offset: int | None = None
        if ref.lane == "facts" or ref.trigger == "messages":
            offset = ref.last_offset
        elif ref.trigger == "tokens":  # by the next message, which did not fit, unless it was full to the last token
            full = ref.token_count >= self._window_tokens
            offset = ref.last_offset if full else self._sender.following(ref.partition, ref.last_offset)
        else:
            return  # closed by no message, but by the clock or on demand
        closed = None if offset is None else self._sender.sent_at(ref.partition, offset)
        if closed is None:
            self._waiting.append((event, last))
        else:
            self.seen.latencies.append(Latency(last, ref.lane, last - closed, model_seconds(event.calls)))


def model_seconds(calls: Sequence[ModelCall]) -> float:
    """Return how long a flush waited for the model: one call after the other, of parallel stages the slowest."""
    by_stage: defaultdict[str, float] = defaultdict(float)
    for call in calls:
        by_stage[call.stage] += call.duration_ms / 1000
    together = sum(max(by_stage.pop(stage, 0.0) for stage in stages) for stages in _PARALLEL)
    return together + sum(by_stage.values())
