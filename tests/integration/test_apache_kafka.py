"""A node of Apache Kafka under control of the tests, and the whole program on it."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import NewTopic

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.harness import WorkerProcess, command, discrepancies, environment, read_topics
from streams.embedded.child import ServiceFailed, listens
from streams.embedded.services import EmbeddedServices
from streams.kafka import admin, cluster_id, consumer, producer
from streams.samples import sample_names, sample_path
from streams.settings import KafkaSettings
from streams.stores import open_archive, open_vectors
from tests.integration.pipeline_support import FAST, eventually, settings_of
from tests.support.brokers import REQUIRED_VARIABLE, KafkaSettingsByName, apache_kafka, own_names

pytestmark = pytest.mark.timeout(180)

TOPIC = "numbers"


async def create(kafka: KafkaSettings, topic: str) -> None:
    async with admin(kafka) as client:
        await client.create_topics([NewTopic(topic, 1, 1)])


async def send(kafka: KafkaSettings, topic: str, numbers: range) -> None:
    async with producer(kafka) as client:
        for sent in [await client.send(topic, str(number).encode()) for number in numbers]:
            await sent


async def read(kafka: KafkaSettings, topic: str, count: int) -> list[int]:
    """Return the first `count` numbers of the topic and whatever follows them at once."""
    found: list[int] = []
    async with consumer(kafka) as client:
        client.assign([place := TopicPartition(topic, 0)])
        await client.seek_to_beginning(place)
        while batch := await client.getmany(timeout_ms=500 if len(found) >= count else 10_000):
            found += [int(record.value) for record in batch[place]]
    return found


async def no_topic_comes_by_asking(kafka: KafkaSettings) -> None:
    async with producer(kafka) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await client.partitions_for("asked-for")
    async with admin(kafka) as client:
        assert "asked-for" not in await client.list_topics()


def settings_for(broker: ApacheKafka) -> KafkaSettings:
    return KafkaSettings.model_validate(broker.settings())


@pytest.mark.long
async def test_acknowledged_records_survive_a_stop_and_a_kill(tmp_path: Path) -> None:
    async with apache_kafka(tmp_path / "kafka") as broker:
        kafka = settings_for(broker)
        assert await cluster_id(kafka) == broker.cluster_id
        await create(kafka, TOPIC)
        first, address = broker.pid, broker.bootstrap_servers

        await send(kafka, TOPIC, range(100))
        await broker.restart()
        await send(kafka, TOPIC, range(100, 200))
        await broker.kill()
        assert not broker.alive
        assert not await listens(address)
        await broker.start()

        assert broker.pid != first
        assert broker.bootstrap_servers == address
        assert await cluster_id(kafka) == broker.cluster_id
        assert await read(kafka, TOPIC, 200) == list(range(200))
        await no_topic_comes_by_asking(kafka)
    assert not broker.alive
    assert not await listens(address)


async def test_a_test_has_its_own_topics_on_the_shared_broker(on_apache_kafka: KafkaSettingsByName) -> None:
    kafka = KafkaSettings.model_validate(on_apache_kafka)
    mine = f"{kafka.topic_prefix}mine"
    await create(kafka, mine)
    await send(kafka, mine, range(3))
    assert await read(kafka, mine, 3) == [0, 1, 2]
    assert own_names(kafka.bootstrap_servers)["topic_prefix"] != kafka.topic_prefix


async def test_why_it_does_not_start_is_said(tmp_path: Path) -> None:
    async with apache_kafka(tmp_path / "kafka") as broker:
        pass
    properties = tmp_path / "kafka" / "server.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
    with pytest.raises(ServiceFailed, match="Apache Kafka did not start") as caught:
        await broker.start()
    assert "node" in str(caught.value).partition(":\n")[2]
    assert str(broker.log) in str(caught.value)
    assert not broker.alive


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    apache_kafka(tmp_path / "unused")
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from benchmarks.apache_kafka import ApacheKafka\n"
        "async def main():\n"
        "    async with ApacheKafka(Path(sys.argv[1])) as broker:\n"
        "        print(broker.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "kafka")], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as parent:
        assert parent.stdout is not None
        broker = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    try:
        ended, _, _ = select.select([broker], [], [], 30.0)
        if not ended:
            signal.pidfd_send_signal(broker, signal.SIGKILL)
        assert ended, "the broker outlived its parent"
    finally:
        os.close(broker)


def test_tests_without_apache_kafka_are_skipped_or_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(REQUIRED_VARIABLE, raising=False)
    with pytest.raises(pytest.skip.Exception, match="Kafka"):
        apache_kafka(tmp_path / "kafka")
    monkeypatch.setenv(REQUIRED_VARIABLE, "1")
    with pytest.raises(pytest.fail.Exception, match=REQUIRED_VARIABLE):
        apache_kafka(tmp_path / "kafka")


async def test_everything_adds_up_on_apache_kafka(on_apache_kafka: KafkaSettingsByName, tmp_path: Path) -> None:
    async with EmbeddedServices(tmp_path / "services", on_apache_kafka) as services:
        env = environment(services.settings, FAST)
        settings = settings_of(services.settings, FAST)
        assert not settings.kafka.single_record_batches
        async with WorkerProcess(env, tmp_path / "worker.log") as worker:
            files = [str(sample_path(name)) for name in sample_names()]
            sent = json.loads(await command("publish", "--flush", "--json", *files, env=env))
            written = await read_topics(settings.kafka, lambda written: written.complete, 90)
            assert written.messages == sent["sent"] >= 300
            assert discrepancies(written) == []
            assert written.dead_letters == []
            async with open_archive(settings.clickhouse) as store, open_vectors(settings) as vectors:
                deltas = len({delta.delta_id for delta in written.deltas})

                async def stored() -> bool:
                    counts = await store.counts()
                    return counts["deltas"] == deltas and counts["events"] == len(written.events)

                await eventually(stored)
                assert deltas > 0
                assert await vectors.count() > 0
            assert await worker.stop() == 0
