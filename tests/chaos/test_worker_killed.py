"""A worker is killed with SIGKILL while it works; started again, it ends where an undisturbed one does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.harness import Overrides, WorkerProcess, Written, command, discrepancies, environment, read_topics
from streams.embedded.services import EmbeddedServices
from tests.chaos.outcome import profiles_of
from tests.integration.pipeline_support import FAST, said, settings_of, values, write_chat
from tests.support.brokers import KafkaSettingsByName

pytestmark = pytest.mark.timeout(300)

USERS = 30
KILLS = 3


def conversation() -> list[dict[str, object]]:
    """Facts that change, so that lost or repeated messages would show in the values."""
    cities = ["Lyon", "Bremen", "Oslo", "Porto", "Graz", "Turin"]
    lines: list[dict[str, object]] = []
    for number in range(USERS):
        moves = [f"I moved to {cities[(number + step) % len(cities)]}." for step in range(6)]
        likes = [f"I like {thing}." for thing in ("tea", "chess", "hiking", "jazz")]
        lines += said(f"user{number}", f"My name is Kim{chr(97 + number % 26)}.", *moves, *likes, "ok", "I like tea.")
    return [line for step in range(13) for line in lines[step::13]]


async def run(folder: Path, chat: Path, *, kills: int) -> Written:
    windows: Overrides = {"window": {"messages": 4}, "kafka": {"commit_interval": 0.2}}
    async with EmbeddedServices(folder / "services") as services:
        env = environment(services.settings, FAST, windows)
        settings = settings_of(services.settings, FAST)
        worker = WorkerProcess(env, folder / "worker.log")
        await worker.start()
        publishing = asyncio.create_task(command("publish", "--flush", str(chat), env=env))
        for kill in range(kills):
            reached = (kill + 1) * USERS // (kills + 1)
            await read_topics(settings.kafka, lambda written, reached=reached: len(written.events) >= reached, 60)
            await worker.kill()
            await worker.start()
        await publishing
        written = await read_topics(
            settings.kafka, lambda written: written.messages == USERS * 13 and written.complete, 120
        )
        await worker.stop()
        return written


@pytest.mark.long
async def test_killed_worker_ends_where_an_undisturbed_one_does_on_the_embedded_broker(tmp_path: Path) -> None:
    chat = write_chat(tmp_path / "chat.jsonl", conversation())
    undisturbed = await run(tmp_path / "undisturbed", chat, kills=0)
    killed = await run(tmp_path / "killed", chat, kills=KILLS)
    assert discrepancies(undisturbed) == []
    assert discrepancies(killed) == []
    expected = {user: values(profile) for user, profile in profiles_of(undisturbed.deltas).items()}
    assert {user: values(profile) for user, profile in profiles_of(killed.deltas).items()} == expected
    assert len(expected) == USERS


async def test_worker_that_is_stopped_in_order_repeats_nothing(
    kafka: KafkaSettingsByName | None, tmp_path: Path
) -> None:
    chat = write_chat(tmp_path / "chat.jsonl", conversation())
    small: Overrides = {"window": {"messages": 4}, "kafka": {"commit_interval": 60.0}}
    async with EmbeddedServices(tmp_path / "services", kafka) as services:
        env = environment(services.settings, FAST, small)
        settings = settings_of(services.settings, FAST)
        worker = WorkerProcess(env, tmp_path / "worker.log")
        await worker.start()
        await command("publish", str(chat), env=env)
        full = USERS * (13 // 4)
        await read_topics(settings.kafka, lambda written: written.ended >= full * 4 and written.idle, 120)
        assert await worker.stop() == 0
        await worker.start()
        flush = write_chat(tmp_path / "end.jsonl", ({"user_id": f"user{n}", "type": "flush"} for n in range(USERS)))
        await command("publish", str(flush), env=env)
        written = await read_topics(settings.kafka, lambda written: written.complete, 120)
        await worker.stop()
    assert discrepancies(written) == []
    # Signals of messages in open windows are sent again, and skipped before anything is asked.
    windows = [batch.ref.flush_id for batch in written.flushes if batch.ref.lane == "memo"]
    assert len(windows) == len(set(windows))
    assert len(written.deltas) == len({delta.delta_id for delta in written.deltas})
    assert len(written.events) == len({event.event_id for event in written.events})
