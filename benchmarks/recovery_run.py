"""One recovery: a worker with messages in its windows and profiles in its table is killed, and started again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupCoordinatorNotAvailableError

from benchmarks.fixed_size import FixedSize, Sent, publish, user_name
from benchmarks.load.measure import Sample
from benchmarks.real_worker import Watched, idle, open_place
from benchmarks.recorded import say, tenths
from schemas.codec import decode, encode
from schemas.messages import DEFAULT_TENANT, ChatMessage
from schemas.profiles import Profile, ProfileState, Slot
from streams.kafka import admin, consumer
from streams.restore import restore_profiles
from streams.settings import KafkaSettings
from streams.topics import Topics, ensure_topics

_COORDINATOR: Final = 60.0
_LOOK: Final = 0.2
"""Seconds between two looks, and so how exact the times are."""

_COMMITS: Final = 3
"""Commits that are waited for before the worker is killed: what can be acknowledged, is."""

_SAID_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
_TEXT: Final = "something that the user said about it a while ago, and again last week"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is killed.

    Attributes:
        traffic: messages that are on the topic when the worker is killed.
        profiles: in the table.
        slots: of each profile.
        horizon: messages of a partition that may wait in windows; None: any number.
        session_timeout: seconds after which the broker takes the killed worker for dead.
    """

    traffic: FixedSize
    profiles: int
    slots: int
    horizon: int | None
    session_timeout: float

    @property
    def name(self) -> str:
        """What it is called in a report."""
        return "no horizon" if self.horizon is None else f"horizon {self.horizon:,}"

    @property
    def settings(self) -> dict[str, str]:
        """Settings of the worker."""
        found = {"kafka.session_timeout": str(self.session_timeout)}
        return found if self.horizon is None else found | {"window.horizon": str(self.horizon)}


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What was there when the worker was killed, and how long after its new start it was back, in seconds.

    Attributes:
        waiting: messages in open windows.
        windows: open ones.
        read_again: records of the chat topic that were not committed, and those that came while no worker ran.
        profiles: in the table.
        table_bytes: of their records.
        joined: until the broker had given the new process its partitions.
        restored: until it took the first message, for which the tables must be there.
        first_flush: until the first flush batch that was not sent before the kill was on its topic.
        caught_up: until every record of the chat topic had been taken.
    """

    waiting: int
    windows: int
    read_again: int
    profiles: int
    table_bytes: int
    joined: float
    restored: float
    first_flush: float
    caught_up: float


class Flushes:
    """The flush batches on the topic, each counted once however often it was sent."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._marked = False
        self._first: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def take(self, flush_id: str, at: float) -> None:
        """Take the id of a batch, and when it was seen."""
        if flush_id in self._seen:
            return
        self._seen.add(flush_id)
        if self._marked and not self._first.done():
            self._first.set_result(at)

    def mark(self) -> None:
        """From here on the first batch that is new is waited for."""
        self._marked = True

    async def first(self) -> float:
        """Return when that one was seen."""
        return await self._first


class _Ref(msgspec.Struct):
    flush_id: str


class _Batch(msgspec.Struct):
    """What is read of a flush batch."""

    ref: _Ref


@asynccontextmanager
async def _followed(kafka: KafkaSettings) -> AsyncIterator[Flushes]:
    places = [TopicPartition(Topics.of(kafka).flushes, number) for number in range(await ensure_topics(kafka))]
    flushes = Flushes()

    async def follow(client: AIOKafkaConsumer) -> None:
        while True:
            for records in (await client.getmany(timeout_ms=200)).values():
                for record in records:
                    flushes.take(decode(record.value, _Batch).ref.flush_id, time.monotonic())

    async with consumer(kafka) as client:
        client.assign(places)
        await client.seek_to_beginning(*places)
        following = asyncio.create_task(follow(client))
        try:
            yield flushes
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


async def recover(scenario: Scenario, folder: Path) -> Recovery:
    """Run it once.

    Raises:
        ServiceFailed: when a service does not start, or a worker ends.
        TimeoutError: when nothing moves any more.
    """
    traffic, sizes = scenario.traffic, list[int]()
    say(f"{scenario.name}: starting Apache Kafka and the stores ...")
    async with open_place("recovery", scenario.settings, folder) as place:
        say(f"{scenario.name}: writing {scenario.profiles:,} profiles and {traffic.messages:,} messages ...")
        await _coordinated(place.kafka)
        await restore_profiles(made_profiles(scenario.profiles, scenario.slots, sizes.append), place.kafka)
        await publish(place.kafka, traffic.records(), tenths(traffic.messages, "sent"))
        async with _followed(place.kafka) as flushes, admin(place.kafka) as client:
            worker = place.worker()
            await worker.spawn()
            try:
                say(f"{scenario.name}: waiting until they are taken, and what comes of them is done ...")
                tell = tenths(traffic.messages, "taken")
                before = await Watched(worker).until(
                    lambda seen: _taken(seen) >= traffic.messages and idle(seen), lambda seen: tell(_taken(seen))
                )
                await asyncio.sleep(_COMMITS * place.kafka.commit_interval)
                dead = await _members(client, place.kafka)
                say(f"{scenario.name}: killing the worker, which holds {before.workers.window_messages:,.0f} messages")
            finally:
                await worker.kill()
            flushes.mark()
            await publish(place.kafka, _returning())
            left = await _uncommitted(client, place.kafka)
            began = time.monotonic()
            await worker.spawn()
            try:
                moments = await _watch(scenario, client, place.kafka, Watched(worker), dead, left, flushes)
            finally:
                await worker.kill()
    return Recovery(
        waiting=round(before.workers.window_messages),
        windows=round(before.workers.open_windows),
        read_again=left,
        profiles=len(sizes),
        table_bytes=sum(sizes),
        **{name: round(at - began, 1) for name, at in moments.items()},
    )


def _taken(sample: Sample) -> float:
    return sample.workers.consumed.get("window", 0.0)


def _returning() -> list[Sent]:
    """Return what the first user sends while no worker runs: a message, and the event that closes the window."""
    said = ChatMessage(user_id=user_name(0), role="user", content="Thanks, that helps.")
    close = ChatMessage(user_id=user_name(0), type="flush")
    return [Sent(one.key, encode(one)) for one in (said, close)]


async def _watch(
    scenario: Scenario,
    client: AIOKafkaAdminClient,
    kafka: KafkaSettings,
    watched: Watched,
    dead: frozenset[str],
    left: int,
    flushes: Flushes,
) -> dict[str, float]:
    """Return when the new process had come so far, by the monotonic clock."""
    moments: dict[str, float] = {}

    def reached(name: str, at: float) -> None:
        moments[name] = at
        say(f"{scenario.name}: {name.replace('_', ' ')}")

    async def joined() -> None:
        while not (members := await _members(client, kafka)) or members & dead:
            await asyncio.sleep(_LOOK)
        reached("joined", time.monotonic())

    async def metrics() -> None:
        await watched.until(lambda sample: _taken(sample) > 0, look=_LOOK)
        reached("restored", time.monotonic())
        await watched.until(lambda sample: _taken(sample) >= left, look=_LOOK)
        reached("caught_up", time.monotonic())

    async def flushed() -> None:
        reached("first_flush", await flushes.first())

    async with asyncio.TaskGroup() as group:
        for watching in (joined(), metrics(), flushed()):
            group.create_task(watching)
    return moments


async def _coordinated(kafka: KafkaSettings) -> None:
    """Wait until the broker answers for groups: a new one makes the topic of offsets when it is first asked."""
    async with admin(kafka) as client, asyncio.timeout(_COORDINATOR):
        while True:
            try:
                await client.describe_consumer_groups([kafka.group_id])
            except GroupCoordinatorNotAvailableError:
                await asyncio.sleep(_LOOK)
            else:
                return


async def _members(client: AIOKafkaAdminClient, kafka: KafkaSettings) -> frozenset[str]:
    """Return the ids of the group's members, or none while it rebalances."""
    (answer,) = await client.describe_consumer_groups([kafka.group_id])
    (group,) = answer.groups
    error, _, state, _, _, members = group[:6]
    return frozenset(member[0] for member in members) if not error and state == "Stable" else frozenset()


async def _uncommitted(client: AIOKafkaAdminClient, kafka: KafkaSettings) -> int:
    """Return how many records of the chat topic will be read again."""
    places = [TopicPartition(Topics.of(kafka).messages, number) for number in range(await ensure_topics(kafka))]
    committed = await client.list_consumer_group_offsets(kafka.group_id, partitions=places)
    async with consumer(kafka) as reader:
        ends = await reader.end_offsets(places)
    return sum(ends[place] - max(0, committed[place].offset) for place in places)


async def made_profiles(
    count: int, slots: int, wrote: Callable[[int], None] = lambda _size: None
) -> AsyncIterator[ProfileState]:
    """Yield profiles of as many users, with as many slots each.

    Args:
        count: users; the first ones are those who write the messages.
        slots: of each.
        wrote: told the size of each record.
    """
    for number in range(count):
        profile = Profile(
            tenant_id=DEFAULT_TENANT,
            user_id=user_name(number),
            version=slots,
            slots=tuple(_slot(position) for position in range(slots)),
        )
        state = ProfileState(profile=profile)
        wrote(len(encode(state)))
        yield state


def _slot(position: int) -> Slot:
    return Slot(
        topic=f"topic_{position // 5}",
        sub_topic=f"sub_topic_{position:03}",
        value=_TEXT,
        update_hits=1,
        evidence=(f"message-{position}",),
        assertion="said",
        first_said_at=_SAID_AT,
        said_at=_SAID_AT,
        recorded_at=_SAID_AT,
        version=position + 1,
    )
