"""Services that are away, slow or broken while people talk: nothing is lost, nothing counts twice, the rest goes on.

A worker on Apache Kafka, both lanes and all branches busy, against ClickHouse, Qdrant and an embedding server that
fail it; or the broker itself does. An outage lasts as long as proves the point; ``PROFILESTREAM_TEST_OUTAGE`` makes it
longer (seconds: 60 for the minute that a restart of a real server may take).
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import cycle, repeat
from pathlib import Path
from typing import Final

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.harness import Overrides, WorkerProcess, Written, discrepancies, environment, read_topics
from schemas.messages import split_user_key
from schemas.profiles import Profile
from sinks.clickhouse import ClickHouseArchive
from sinks.errors import SinkUnavailable
from sinks.vectors import ALL_KINDS, VectorIndex
from streams.embedded.services import EmbeddedServices
from streams.kafka import KafkaUnavailable, consumer
from streams.settings import Settings
from streams.settings.names import TEST_PREFIX
from streams.stores import open_archive, open_vectors
from streams.topics import Topics
from tests.chaos.outcome import disagreements, outcome, profiles_of
from tests.chaos.talk import Spoken, closing, publish, talk, write_pipeline
from tests.integration.pipeline_support import FAST, eventually, settings_of
from tests.support.brokers import KafkaSettingsByName, apache_kafka, own_names
from tests.support.embedding_server import DIMENSION, EmbeddingServer
from tests.support.faulty_proxy import Fault, FaultyProxy

OUTAGE: Final = float(os.environ.get(TEST_PREFIX + "OUTAGE", "3"))
RETRIES: Final = 5
LIMIT: Final = 60.0 + 2 * OUTAGE

pytestmark = pytest.mark.timeout(240 + 4 * OUTAGE)

BUSY: Overrides = {
    "window": {"messages": 7, "tokens": 60, "idle": 86_400.0, "age": 86_400.0},
    "clickhouse": {"batch_rows": 25, "batch_seconds": 0.1, "timeout": 1.0},
    "qdrant": {"batch_points": 25, "batch_seconds": 0.1, "timeout": 2.0},
}
"""Small windows and small batches: whatever fails, something is under way."""

WRITERS: Final = {"clickhouse": ("archive deltas", "archive events"), "qdrant": ("index",)}


class Conversation:
    """People who talk in portions, to a worker whose services the test troubles meanwhile.

    Attributes:
        services: the stores.
        settings: of the worker, but for the faults between it and its services.
        worker: the worker.
    """

    def __init__(self, services: EmbeddedServices, settings: Settings, worker: WorkerProcess, seed: int) -> None:
        self.services = services
        self.settings = settings
        self.worker = worker
        self._lines = talk(seed, messages=10_000, users=16)
        self._people = sorted({split_user_key(line.key) for line in self._lines})
        self._published = 0

    def portion(self) -> list[Spoken]:
        """Return what is said next, 60 lines, and whatever closes the windows behind it."""
        portion = self._lines[:60]
        del self._lines[:60]
        portion += closing(self._people, portion[-1].published)
        self._published += sum(line.body.get("type", "message") == "message" for line in portion)
        return portion

    async def goes_on(self) -> Written:
        """Publish the next portion and wait until all its flushes have ended; return everything on the topics."""
        await publish(self.settings.kafka, self.portion())
        return await self.ended()

    async def ended(self) -> Written:
        """Return everything on the topics once all that was published is in flushes that have ended."""
        return await read_topics(
            self.settings.kafka, lambda written: written.messages >= self._published and written.complete, LIMIT
        )

    def retries(self, writer: str) -> int:
        """How often a writer to a store has said that it tries again."""
        return len(re.findall(rf"{writer}: .*records wait\); trying again in", self.worker.log()))

    async def retried(self, service: str) -> None:
        """Wait until every writer to a store has tried in vain several times, for as long as the outage lasts."""
        until = time.monotonic() + OUTAGE
        before = {writer: self.retries(writer) for writer in WRITERS[service]}

        async def long_enough() -> bool:
            counts = (self.retries(writer) - count for writer, count in before.items())
            return time.monotonic() > until and all(count >= RETRIES for count in counts)

        await eventually(long_enough, LIMIT)

    async def archived(self, written: Written) -> None:
        """Wait until ClickHouse has all of these deltas and events."""
        deltas = len({delta.delta_id for delta in written.deltas})
        events = len({event.event_id for event in written.events})

        async def has_all(store: ClickHouseArchive) -> bool:
            counts = await store.counts()
            return (counts["deltas"], counts["events"]) == (deltas, events)

        async with open_archive(self.settings.clickhouse) as store:
            await eventually(lambda: has_all(store), LIMIT)

    async def indexed(self, written: Written) -> None:
        """Wait until Qdrant has a point for all that the profiles of these deltas hold."""
        points = sum(profile.searchable for profile in profiles_of(written.deltas).values())

        async def has_all(vectors: VectorIndex) -> bool:
            return await vectors.count() == points

        async with open_vectors(self.settings) as vectors:
            await eventually(lambda: has_all(vectors), LIMIT)

    async def ends_well(self) -> Written:
        """Go on once more, and check that topics, table and stores all have everything once."""
        written = await self.goes_on()
        left = await outcome(self.settings, written)
        assert discrepancies(written) == []
        assert await disagreements(self.settings, written, left) == []
        assert written.dead_letters == []
        assert {flush.ref.lane for flush in written.flushes} == {"memo", "facts"}
        assert left.tag_hits
        assert left.points
        assert await self.worker.stop() == 0
        return written


@asynccontextmanager
async def conversation(
    folder: Path, kafka: KafkaSettingsByName, *overrides: Overrides, seed: int = 1, **faulty: Overrides
) -> AsyncIterator[Conversation]:
    """Start stores and a worker; `faulty` are settings of the worker only."""
    async with (
        EmbeddedServices(folder / "services", kafka) as services,
        started(folder, services, *overrides, seed=seed, **faulty) as running,
    ):
        yield running


@asynccontextmanager
async def started(
    folder: Path, services: EmbeddedServices, *overrides: Overrides, seed: int = 1, **faulty: Overrides
) -> AsyncIterator[Conversation]:
    """Start a worker beside stores that run."""
    merged: dict[str, dict[str, object]] = {}
    for groups in (FAST, services.settings, BUSY, *overrides):
        for name, values in groups.items():
            merged.setdefault(name, {}).update(values)
    env = environment(merged, *faulty.values()) | {"PROFILESTREAM_PIPELINE_FILE": str(write_pipeline(folder))}
    async with WorkerProcess(env, folder / "worker.log") as worker:
        yield Conversation(services, settings_of(merged), worker, seed)


async def kill(services: EmbeddedServices, name: str) -> None:
    """End a store with SIGKILL."""
    child = getattr(services, name)
    os.kill(child.pid, signal.SIGKILL)
    await child.wait()


async def start_again(services: EmbeddedServices, name: str, folder: Path) -> None:
    """Start a store with its data, where it was."""
    port = str(services.settings[name]["url"]).rpartition(":")[2]
    command = [sys.executable, "-m", f"streams.embedded.{name}", "--path", str(folder / "services" / name)]
    await getattr(services, name).start([*command, "--port", port, "--die-with-parent", str(os.getpid())])


class TestClickHouse:
    async def test_is_down_for_a_while(self, on_apache_kafka: KafkaSettingsByName, tmp_path: Path) -> None:
        async with conversation(tmp_path, on_apache_kafka) as people:
            await people.archived(await people.goes_on())
            publishing = asyncio.create_task(publish(people.settings.kafka, people.portion()))
            await kill(people.services, "clickhouse")
            await publishing
            written = await people.goes_on()
            await people.indexed(written)
            await people.retried("clickhouse")
            await start_again(people.services, "clickhouse", tmp_path)
            await people.archived(written)
            await people.ends_well()

    async def test_is_slow_and_its_connections_break(
        self, on_apache_kafka: KafkaSettingsByName, tmp_path: Path
    ) -> None:
        """Inserts are repeated that had been made, wholly or not at all; each delta and tag hit counts once."""
        async with (
            EmbeddedServices(tmp_path / "services", on_apache_kafka) as services,
            FaultyProxy(str(services.settings["clickhouse"]["url"]), held=1.5) as proxy,
            started(tmp_path, services, seed=2, faulty={"clickhouse": {"url": proxy.url}}) as people,
        ):
            await people.archived(await people.goes_on())
            assert people.retries("archive deltas") + people.retries("archive events") == 0
            faults: tuple[Fault, ...] = ("cut_answer", "cut_answer", "hold_answer", "cut_request", "none")
            proxy.faults = cycle(faults)
            until = time.monotonic() + OUTAGE

            def troubled_enough() -> bool:
                counts = [*(proxy.happened[fault] for fault in faults), *map(people.retries, WRITERS["clickhouse"])]
                return time.monotonic() > until and all(count >= RETRIES for count in counts)

            while not troubled_enough():
                await people.goes_on()
            proxy.faults = repeat("none")
            await people.ends_well()


class TestQdrant:
    async def test_is_down_for_a_while(self, on_apache_kafka: KafkaSettingsByName, tmp_path: Path) -> None:
        async with conversation(tmp_path, on_apache_kafka, seed=3) as people:
            await people.indexed(await people.goes_on())
            publishing = asyncio.create_task(publish(people.settings.kafka, people.portion()))
            await kill(people.services, "qdrant")
            await publishing
            written = await people.goes_on()
            await people.archived(written)
            await people.retried("qdrant")
            with pytest.raises(SinkUnavailable):
                await people.indexed(written)
            await start_again(people.services, "qdrant", tmp_path)
            await people.indexed(written)
            await people.ends_well()


class TestEmbeddingServer:
    async def test_is_down_for_a_while(self, on_apache_kafka: KafkaSettingsByName, tmp_path: Path) -> None:
        """Facts are compared by spelling meanwhile, and no flush waits for vectors."""
        async with EmbeddingServer() as server:
            embedding: Overrides = {
                "embedding": {"kind": "openai", "base_url": server.url, "model": "scripted", "dimension": DIMENSION}
            }
            async with conversation(tmp_path, on_apache_kafka, embedding, seed=4) as people:
                await people.indexed(await people.goes_on())
                publishing = asyncio.create_task(publish(people.settings.kafka, people.portion()))
                await server.stop()
                await publishing
                written = await people.goes_on()
                await people.archived(written)
                await people.retried("qdrant")
                embedded = server.texts

                await server.start()
                server.status, server.retry_after = 429, 0
                await people.retried("qdrant")
                server.status, server.retry_after = 500, None
                await people.retried("qdrant")
                assert (server.texts, server.refused >= 2 * RETRIES) == (embedded, True)

                server.status = 200
                await people.indexed(written)
                await people.ends_well()
                assert "facts are compared by spelling" in people.worker.log()


class TestForgetting:
    async def test_is_made_good_when_the_stores_are_back(
        self, on_apache_kafka: KafkaSettingsByName, tmp_path: Path
    ) -> None:
        async with (
            conversation(tmp_path, on_apache_kafka, seed=6) as people,
            open_archive(people.settings.clickhouse) as store,
            open_vectors(people.settings) as vectors,
        ):
            written = await people.goes_on()
            await people.archived(written)
            await people.indexed(written)
            known = profiles_of(written.deltas)
            user = next(user for user, profile in known.items() if profile.tags and profile.facts and profile.slots)
            tenant_id, user_id = user
            assert all((await store.count_user(*user)).values())
            assert await vectors.count(*user) == known[user].searchable

            for name in WRITERS:
                await kill(people.services, name)
            forget = {"tenant_id": tenant_id, "user_id": user_id, "type": "forget", "message_id": "enough"}
            await publish(people.settings.kafka, [Spoken(forget, datetime.now(UTC))])
            for name in WRITERS:
                await people.retried(name)
            for name in WRITERS:
                await start_again(people.services, name, tmp_path)

            async def is_gone() -> bool:
                left = await vectors.count(*user, kinds=ALL_KINDS)
                return not any((await store.count_user(*user)).values()) and left == 0

            await eventually(is_gone, LIMIT)
            version = known[user].version + 1

            async def is_told() -> bool:
                return bool(await store.history(*user) and await store.events(*user))

            await eventually(is_told, LIMIT)
            assert [(delta.op, delta.evidence) for delta in await store.history(*user)] == [("forget", ("enough",))]
            assert [event.outcome for event in await store.events(*user)] == ["forgotten"]
            known[user] = Profile(tenant_id=tenant_id, user_id=user_id, version=version)
            assert {each: await store.profile(*each) for each in known} == known
            assert await vectors.count() == sum(profile.searchable for profile in known.values())

            again = {"tenant_id": tenant_id, "user_id": user_id, "role": "user", "content": "I moved to Cork."}
            await publish(
                people.settings.kafka, [Spoken(again, datetime.now(UTC)), *closing([user], datetime.now(UTC))]
            )

            async def is_known_again() -> bool:
                profile = await store.profile(*user)
                return bool(profile.slots and profile.facts) and await vectors.count(*user) == profile.searchable

            await eventually(is_known_again, LIMIT)
            history = await store.history(*user)
            assert [delta.version for delta in history] == list(range(version, version + len(history)))


class TestBroker:
    @pytest.mark.parametrize(
        "end",
        [
            pytest.param(ApacheKafka.stop, marks=pytest.mark.long, id="stopped"),
            pytest.param(ApacheKafka.kill, id="killed"),
        ],
    )
    async def test_is_started_again(self, tmp_path: Path, end: Callable[[ApacheKafka], Awaitable[None]]) -> None:
        async with (
            apache_kafka(tmp_path / "kafka") as broker,
            conversation(tmp_path, own_names(broker.bootstrap_servers), seed=5) as people,
        ):
            await people.goes_on()
            for _ in range(2):
                known = await flushes(people.settings)
                publishing = asyncio.create_task(insist_on(people.settings, people.portion()))

                async def is_at_work(known: int = known) -> bool:
                    return await flushes(people.settings) > known + 3

                await eventually(is_at_work)
                assert not publishing.done()
                await end(broker)
                until = time.monotonic() + OUTAGE

                async def is_over(until: float = until) -> bool:
                    return time.monotonic() > until

                await eventually(is_over, LIMIT)
                await broker.start()
                await publishing
            assert people.worker.alive
            await people.ends_well()


async def flushes(settings: Settings) -> int:
    """How many flushes have been sent so far, repeats included."""
    topic = Topics.of(settings.kafka).flushes
    async with consumer(settings.kafka) as client:
        ends = await client.end_offsets([TopicPartition(topic, number) for number in range(settings.kafka.partitions)])
    return sum(ends.values())


async def insist_on(settings: Settings, lines: list[Spoken]) -> None:
    """Publish lines a few at a time, and again those of which it is not known whether the broker has them."""
    for start in range(0, len(lines), 2):
        while True:
            try:
                await publish(settings.kafka, lines[start : start + 2])
            except (KafkaError, KafkaUnavailable):
                continue
            break
