"""A message log, a flush topic and a table that outlive the window agents which work on them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agents.window import WindowAgent
from schemas.codec import decode
from schemas.flushes import FlushBatch, Lane, Signals
from schemas.messages import user_key
from schemas.windows import WindowState
from streams.dead_letters import DeadLetters
from streams.partitioning import partition_for
from streams.windows import WindowPolicy
from tests.support.fakes import (
    INSTANT,
    TOPICS,
    FakeEvent,
    FakeSender,
    FakeSource,
    FakeTable,
    ManualClock,
    eventually,
    settled,
)

STEPS = ("before the table", "after the table", "before the send", "after the send")
"""Where a worker can be killed while it emits a batch."""


def message(user: str, content: str = "hello", **fields) -> bytes:
    """Return a chat message of a user, as an application publishes it."""
    return json.dumps({"user_id": user, "role": "user", "content": content} | fields).encode()


def flush(user: str) -> bytes:
    """Return the control event that closes a user's window."""
    return json.dumps({"user_id": user, "type": "flush"}).encode()


def forget(user: str) -> bytes:
    """Return the control event by which a user is forgotten."""
    return json.dumps({"user_id": user, "type": "forget"}).encode()


@dataclass(slots=True)
class Stored:
    """A record of the chat topic."""

    offset: int
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp: float
    headers: list[tuple[str, bytes]] = field(default_factory=list)


class World:
    """What survives a worker: the log with its committed offsets, the table, the topics that were produced to."""

    def __init__(
        self,
        *,
        partitions: int = 1,
        log_id: str = "log",
        detect: Callable[[str], Signals] | None = None,
        **policy,
    ) -> None:
        self.partitions = partitions
        self.detect = detect
        self.log_id = log_id
        self.policy = WindowPolicy(**({"tokens": 1000, "messages": 100, "idle": 60.0, "age": 300.0} | policy))
        self.clock = ManualClock()
        self.log: list[list[Stored]] = [[] for _ in range(partitions)]
        self.committed = [0] * partitions
        self.table = FakeTable(WindowState)
        self.sender = FakeSender()
        self.emitted: list[str] = []
        self.ends: dict[int, int] = {}
        self.workers = 0

    def publish(self, value: bytes | None, *, key: bytes | None = None, partition: int = 0, **fields) -> Stored:
        log = self.log[partition]
        stored = Stored(len(log), partition, key, value, **({"timestamp": self.clock().timestamp()} | fields))
        log.append(stored)
        return stored

    def say(self, user: str, content: str = "hello", **fields) -> Stored:
        """Publish a message as a well-behaved application does."""
        key = user_key("default", user)
        return self.publish(message(user, content, **fields), key=key, partition=partition_for(key, self.partitions))

    async def log_ends(self, partitions: Sequence[int]) -> list[int]:
        """Return the ends of partitions; of one that these tests have no log for, what `ends` says."""
        return [len(self.log[one]) if one < self.partitions else self.ends.get(one, 0) for one in partitions]

    def batches(self, lane: Lane = "memo") -> list[FlushBatch]:
        """Return everything of a lane on the flush topic, repeats included."""
        found = (decode(record.value, FlushBatch) for record in self.sender.on(TOPICS.flushes))
        return [batch for batch in found if batch.ref.lane == lane]

    def offsets(self) -> list[list[int]]:
        """Return the offsets of each batch on the flush topic."""
        return [[each.offset for each in batch.messages] for batch in self.batches()]

    def start(self) -> Worker:
        self.workers += 1
        return Worker(self)


class Worker:
    """One window agent, reading the log from the committed offsets."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.source = FakeSource()
        self.position = list(world.committed)
        self.killed = asyncio.Event()
        self._kill_at: tuple[str, int] | None = None
        self._passed = dict.fromkeys(STEPS, 0)
        self.agent = WindowAgent(
            source=self.source,
            sender=world.sender,
            dead_letters=DeadLetters(world.sender, TOPICS.dead_letters, world.clock),
            table=world.table,
            policy=world.policy,
            log_id=world.log_id,
            partitions=world.partitions,
            messages=TOPICS.messages,
            flushes=TOPICS.flushes,
            candidates=TOPICS.candidates,
            backoff=INSTANT,
            log_ends=world.log_ends,
            now=world.clock,
            monotonic=world.clock.monotonic,
            detect=world.detect,
            on_emit=lambda ref: world.emitted.append(ref.flush_id),
        )
        world.table.before = lambda: self._pass("before the table")
        world.table.after = lambda: self._pass("after the table")
        world.sender.before = lambda: self._pass("before the send")
        world.sender.after = lambda: self._pass("after the send")
        self.agent.resume()

    def kill_at(self, step: str, number: int = 1) -> None:
        """Stop for good at the `number`-th time that this step is reached, counted from now."""
        self._kill_at = (step, self._passed[step] + number)

    async def _pass(self, step: str) -> None:
        self._passed[step] += 1
        if self.killed.is_set() or self._kill_at == (step, self._passed[step]):
            self.killed.set()
            await asyncio.Event().wait()

    def event(self, stored: Stored) -> FakeEvent:
        return self.source.event(
            stored.offset,
            key=stored.key,
            value=stored.value,
            partition=stored.partition,
            topic=TOPICS.messages,
            timestamp=stored.timestamp,
            headers=stored.headers,
        )

    async def read(self) -> None:
        """Take everything that is in the log and was not read yet, or stop where the worker is killed."""
        for partition, log in enumerate(self.world.log):
            for stored in log[self.position[partition] :]:
                if not await self._alive(self.agent.take(self.event(stored))):
                    return
                self.position[partition] = stored.offset + 1
        await self.work()

    async def _alive(self, taking) -> bool:
        task = asyncio.create_task(taking)
        await eventually(lambda: task.done() or self.killed.is_set())
        if not task.done():
            task.cancel()
            return False
        task.result()
        return not self.killed.is_set()

    async def work(self) -> None:
        """Go on until everything that is closed is sent, or the worker is killed."""
        await eventually(lambda: self.agent.running == 0 or self.killed.is_set())
        await settled(3)

    async def tick(self, seconds: float) -> None:
        """Let time pass and close what is due."""
        self.world.clock.advance(seconds)
        self.agent.sweep()
        await self.work()

    async def close_all(self) -> None:
        self.agent.close_all()
        await self.work()

    @property
    def acked(self) -> list[int]:
        return self.source.acked[0]

    def commit(self, lag: int = 0) -> None:
        """Commit what was acknowledged, except for the last few records of each partition."""
        for partition, acked in self.source.acked.items():
            assert acked == sorted(set(acked)), "acknowledged twice or out of order"
            if acked:
                self.world.committed[partition] = max(self.world.committed[partition], acked[-1] + 1 - lag)

    async def die(self, lag: int = 0) -> None:
        """End without another word; commits what it had acknowledged, or less."""
        self.killed.set()
        self.commit(lag)
        self.agent.abandon()
        await settled(3)
