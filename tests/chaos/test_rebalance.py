"""Workers join, leave and die while messages flow: users move between them without loss or repeats."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.harness import Overrides, WorkerProcess, Written, command, discrepancies, environment, read_topics
from streams.embedded.services import EmbeddedServices
from streams.settings import Settings
from streams.stores import open_archive, open_vectors
from tests.chaos.test_worker_killed import USERS, conversation, profiles
from tests.integration.pipeline_support import FAST, eventually, settings_of, values, write_chat

pytestmark = pytest.mark.timeout(400)

PORTIONS = 5
SMALL: Overrides = {"window": {"messages": 4}, "kafka": {"commit_interval": 0.3}, "lanes": {"drain": 4}}


async def test_users_move_between_workers_without_loss_or_repeats(tmp_path: Path) -> None:
    lines = conversation()
    size = -(-len(lines) // PORTIONS)
    portions = [
        write_chat(tmp_path / f"{number}.jsonl", lines[number * size : (number + 1) * size])
        for number in range(PORTIONS)
    ]
    async with EmbeddedServices(tmp_path / "services") as services:
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
            return written.messages == len(lines) and written.ended >= written.messages

        written = await read_topics(settings.kafka, ended, 120)
        assert discrepancies(written) == []
        assert len(profiles(written)) == USERS
        for number in range(USERS):
            said = values(profiles(written)[f"user{number}"])
            assert said["basic_info/name"][0] == f"Kim{chr(97 + number % 26)}"
            assert said["interest/likes"][0] == "tea; chess; hiking; jazz"
        await _stores_agree(settings, written)
        assert await first.stop() == 0
        assert await second.stop() == 0


async def _stores_agree(settings: Settings, written: Written) -> None:
    found = profiles(written)
    async with open_archive(settings.clickhouse) as store, open_vectors(settings) as vectors:

        async def caught_up() -> bool:
            counts = await store.counts()
            slots = sum(len(profile.slots) for profile in found.values())
            deltas = len({delta.delta_id for delta in written.deltas})
            return counts["deltas"] == deltas and await vectors.count() == slots

        await eventually(caught_up)
        for user, profile in found.items():
            assert await store.profile("default", user) == profile
