"""Stand-ins for what Faust, Kafka and the clock give the machinery, for tests that have none of them."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from schemas.codec import decode, encode
from streams.backoff import Backoff
from streams.dead_letters import DeadLetters
from streams.lanes import KeyedLanes
from streams.sender import Outgoing
from streams.topics import Topics

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
INSTANT = Backoff(first=0.0, limit=0.0)
"""Waits one turn of the event loop between tries."""

TOPICS = Topics(
    messages="messages",
    flushes="flushes",
    memos="memos",
    candidates="candidates",
    deltas="deltas",
    events="events",
    dead_letters="dead-letters",
    windows_changelog="windows-changelog",
    profiles_changelog="profiles-changelog",
)


async def eventually(condition: Callable[[], object], limit: float = 5.0) -> None:
    """Run the event loop until the condition holds."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0)


async def settled(turns: int = 30) -> None:
    """Give everything that could go on without outside help the turns to do so."""
    for _ in range(turns):
        await asyncio.sleep(0)


class ManualClock:
    """A wall clock and a monotonic clock that move together, by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> datetime:
        return START + timedelta(seconds=self.seconds - 1000.0)

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class RecordedBackoff:
    """Never waits and remembers what it was asked: `(attempt, retry_after)`."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, float | None]] = []

    def delay(self, attempt: int, retry_after: float | None = None) -> float:
        self.asked.append((attempt, retry_after))
        return 0.0


@dataclass(slots=True, eq=False)
class FakeMessage:
    """A record as read from Kafka."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: float
    headers: Any
    generation_id: int


@dataclass(slots=True, eq=False)
class FakeEvent:
    """A record in a stream; acknowledging it is noted by its source."""

    message: FakeMessage
    source: FakeSource

    def ack(self) -> bool:
        self.source.acked[self.message.partition].append(self.message.offset)
        return True


class FakeSource:
    """The application as the machinery sees it: hands out events and notes what becomes of them."""

    def __init__(self) -> None:
        self.generation = 1
        self.flowing = True
        self.acked: defaultdict[int, list[int]] = defaultdict(list)
        self.crashes: list[Exception] = []

    def event(
        self,
        offset: int,
        *,
        key: bytes | None = b"default:u",
        value: bytes | None = b"{}",
        partition: int = 0,
        topic: str = "in",
        timestamp: float = START.timestamp(),
        headers: Any = None,
    ) -> FakeEvent:
        message = FakeMessage(topic, partition, offset, key, value, timestamp, headers, self.generation)
        return FakeEvent(message, self)

    def is_current(self, event: FakeEvent) -> bool:
        return self.flowing and event.message.generation_id == self.generation

    def crash(self, reason: Exception) -> None:
        self.crashes.append(reason)


async def stream_of(events: list[FakeEvent]) -> AsyncIterator[FakeEvent]:
    """The events of a topic, as an agent gets them."""
    for event in events:
        yield event


class FakeSender:
    """Keeps what is produced. `faults` are raised, one a call, before anything is taken; `after` runs when it is."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []
        self.faults: deque[Exception] = deque()
        self.before: Callable[[], Awaitable[None]] | None = None
        self.after: Callable[[], Awaitable[None]] | None = None

    async def send(self, *records: Outgoing) -> None:
        if self.before:
            await self.before()
        if self.faults:
            raise self.faults.popleft()
        for record in records:
            # aiokafka's own check.
            assert not (record.value is None and record.key is None), "Need at least one: key or value"
        await asyncio.sleep(0)
        self.sent.extend(records)
        if self.after:
            await self.after()

    def on(self, topic: str) -> list[Outgoing]:
        """Return what was produced to a topic."""
        return [record for record in self.sent if record.topic == topic]

    def decoded(self, topic: str, record_type: type) -> list[Any]:
        """Return the same, decoded."""
        return [decode(record.value, record_type) for record in self.on(topic)]


class FakeTable:
    """A table of records that keeps bytes, as the changelog does; `faults` as in `FakeSender`."""

    def __init__(self, record_type: type) -> None:
        self.stored: dict[bytes, bytes] = {}
        self.writes: list[tuple[bytes, int]] = []
        self.faults: deque[Exception] = deque()
        self.before: Callable[[], Awaitable[None]] | None = None
        self.after: Callable[[], Awaitable[None]] | None = None
        self._type = record_type

    def read(self, key: bytes) -> Any:
        value = self.stored.get(key)
        return None if value is None else decode(value, self._type)

    async def write(self, key: bytes, record: object, partition: int) -> None:
        if self.before:
            await self.before()
        if self.faults:
            raise self.faults.popleft()
        await asyncio.sleep(0)
        self.stored[key] = encode(record)
        self.writes.append((key, partition))
        if self.after:
            await self.after()


class FakeRuntime:
    """What an agent needs of its application, with real lanes and dead letters over fakes."""

    def __init__(self, attempts: int = 3) -> None:
        self.topics = TOPICS
        self.source = FakeSource()
        self.sender = FakeSender()
        self.now = ManualClock()
        self.dead_letters = DeadLetters(self.sender, TOPICS.dead_letters, self.now)
        self.agents: dict[str, tuple[str, Callable[..., Awaitable[None]]]] = {}
        self._attempts = attempts

    def lanes(self, name, handler, give_up, *, ready=None, concerns=None, on_forget=lambda: None) -> KeyedLanes:
        lanes = KeyedLanes(
            name,
            self.source,
            handler=handler,
            give_up=give_up,
            ready=ready,
            concerns=concerns,
            attempts=self._attempts,
            backoff=INSTANT,
            on_forget=on_forget,
        )
        lanes.resume()
        return lanes

    def agent(self, name, topic, consume) -> None:
        self.agents[name] = (topic, consume)
