"""Workers join, leave and die while messages flow: users move between them without loss or repeats."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.harness import Overrides, WorkerProcess, Written, command, discrepancies, environment, read_topics
from streams.embedded.services import EmbeddedServices
from streams.settings import Settings
from streams.stores import open_archive, open_vectors
from tests.chaos.conftest import NewStage
from tests.chaos.outcome import profiles_of
from tests.chaos.talk import publish, talk
from tests.chaos.test_worker_killed import USERS, conversation
from tests.integration.pipeline_support import FAST, eventually, settings_of, values, write_chat
from tests.support.brokers import KafkaSettingsByName

pytestmark = pytest.mark.timeout(400)

PORTIONS = 5
SMALL: Overrides = {"window": {"messages": 4}, "kafka": {"commit_interval": 0.3}, "lanes": {"drain": 4}}


async def test_users_move_between_workers_without_loss_or_repeats(
    on_apache_kafka: KafkaSettingsByName, tmp_path: Path
) -> None:
    lines = conversation()
    size = -(-len(lines) // PORTIONS)
    portions = [
        write_chat(tmp_path / f"{number}.jsonl", lines[number * size : (number + 1) * size])
        for number in range(PORTIONS)
    ]
    async with EmbeddedServices(tmp_path / "services", on_apache_kafka) as services:
        env = environment(services.settings, FAST, SMALL)
        settings = settings_of(services.settings, FAST)
        first = WorkerProcess(env, tmp_path / "first.log")
        second = WorkerProcess(env, tmp_path / "second.log")

        async def publish(number: int) -> None:
            await command("publish", str(portions[number]), env=env)

        await first.start()
        await publish(0)
        await second.start()  # joins: takes over half of the partitions
        await publish(1)
        assert await first.stop() == 0  # leaves in order
        await publish(2)
        await first.start()
        await publish(3)
        await second.kill()  # dies: found out after the session timeout
        await publish(4)
        await second.start()
        end = write_chat(tmp_path / "end.jsonl", ({"user_id": f"user{n}", "type": "flush"} for n in range(USERS)))
        await command("publish", str(end), env=env)

        def ended(written: Written) -> bool:
            return written.messages == len(lines) and written.complete

        written = await read_topics(settings.kafka, ended, 120)
        assert discrepancies(written) == []
        profiles = profiles_of(written.deltas)
        assert len(profiles) == USERS
        for number in range(USERS):
            said = values(profiles["default", f"user{number}"])
            assert said["basic_info/name"][0] == f"Kim{chr(97 + number % 26)}"
            assert said["interest/likes"][0] == "tea; chess; hiking; jazz"
        await _stores_agree(settings, written)
        assert await first.stop() == 0
        assert await second.stop() == 0


async def _stores_agree(settings: Settings, written: Written) -> None:
    found = profiles_of(written.deltas)
    async with open_archive(settings.clickhouse) as store, open_vectors(settings) as vectors:

        async def caught_up() -> bool:
            counts = await store.counts()
            points = sum(profile.searchable for profile in found.values())
            deltas = len({delta.delta_id for delta in written.deltas})
            return counts["deltas"] == deltas and await vectors.count() == points

        await eventually(caught_up)
        for user, profile in found.items():
            assert await store.profile(*user) == profile


@pytest.mark.long
async def test_messages_in_open_windows_survive_rebalances(new_stage: NewStage) -> None:
    """Nothing has been acknowledged yet in any partition when workers join and die."""
    stage = new_stage("rebalances", {"window": {"messages": 1_000, "tokens": 100_000}})
    lines = talk(5, 600, 40)
    messages = [line for line in lines if "role" in line.body]
    first, second = stage.worker("first"), stage.worker("second")
    await first.start()
    try:
        await publish(stage.settings.kafka, messages[:300])
        for portion in (messages[300:450], messages[450:]):
            await second.start()
            await publish(stage.settings.kafka, portion)
            await second.kill()
        await second.start()
        await publish(stage.settings.kafka, lines[-40:])
        run = await stage.result(600, 120)
        assert run.problems == []
        assert {batch.ref.trigger for batch in run.left.flushes.values() if batch.ref.lane == "memo"} == {"flush"}
        assert await first.stop() == 0
        assert await second.stop() == 0
    finally:
        for worker in (first, second):
            if worker.alive:
                await worker.kill()


@pytest.mark.long
async def test_a_stage_that_lags_behind_holds_up_no_rebalance(new_stage: NewStage) -> None:
    """Other stages have dealt with records that the slowest has not even taken from its buffer."""
    stage = new_stage("rebalances", {"lanes": {"max_open": 20}})
    lines = talk(6, 800, 10)
    first, second = stage.worker("first"), stage.worker("second")
    await first.start()
    try:
        await publish(stage.settings.kafka, lines[:400])
        await second.start()
        await publish(stage.settings.kafka, lines[400:])
        await second.kill()
        run = await stage.result(800, 120)
        assert run.problems == []
        assert "wait_empty" not in first.log()
        assert await first.stop() == 0
    finally:
        for worker in (first, second):
            if worker.alive:
                await worker.kill()
