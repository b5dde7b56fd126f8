"""A worker is killed in each gap of the protocols, started again, and ends where an undisturbed one does."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest
import pytest_asyncio

from benchmarks.harness import Overrides
from schemas.deltas import ProfileDelta
from streams.embedded.services import EmbeddedServices
from streams.failpoints import FAIL_POINTS, VARIABLE, FailPoint
from streams.kafka import producer
from streams.partitioning import partition_for
from streams.settings import KafkaSettings
from streams.topics import Topics, ensure_topics
from tests.chaos.conftest import NewStage
from tests.chaos.outcome import Outcome, User, differences
from tests.chaos.storm import Run, Stage
from tests.chaos.talk import Spoken, publish, talk
from tests.support.brokers import own_names

pytestmark = pytest.mark.timeout(600)

MESSAGES, USERS = 240, 12
LIMIT: Final = 120.0

SMALL_BATCHES: Overrides = {"clickhouse": {"batch_rows": 20}, "qdrant": {"batch_points": 10}}
"""So that the stores get more than one batch."""

TWO: Overrides = {"kafka": {"partitions": 2}}

GAPS: Final[Sequence[tuple[FailPoint, int, str]]] = (
    ("window.after_table", 1, "flushes"),
    ("window.after_table", 11, "flushes"),
    ("window.after_send", 20, "flushes"),
    ("merge.after_table", 25, "deltas"),
    ("merge.after_send", 25, "deltas"),
    ("archive.mid_insert", 3, ""),
    ("index.mid_upsert", 3, ""),
)
"""Fail points, at which time the worker is killed there, and records of which topic may be sent again for it."""

ALWAYS: Final = {
    ("window.after_table", 11),
    ("merge.after_send", 25),
    ("archive.mid_insert", 3),
    ("index.mid_upsert", 3),
}
"""Those that are tried every time: one of each protocol."""


async def run(stage: Stage, lines: Sequence[Spoken], trap: str = "") -> Run:
    """Run it with a worker that is killed at a fail point and then started again; without one, undisturbed."""
    await publish(stage.settings.kafka, lines)
    if trap:
        await _killed_at(stage, trap)
    async with stage.worker("worker"):
        return await stage.result(sum("role" in line.body for line in lines), LIMIT)


async def _killed_at(stage: Stage, trap: str) -> None:
    worker = stage.worker("killed", **{VARIABLE: trap})
    await worker.spawn()
    try:
        assert await worker.ended(LIMIT) == -signal.SIGKILL, worker.log()
    finally:
        if worker.alive:
            await worker.kill()


@pytest.fixture(scope="module")
def lines() -> list[Spoken]:
    return talk(7, MESSAGES, USERS)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def calm(
    apache_kafka_address: str,
    stores: EmbeddedServices,
    lines: list[Spoken],
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:
    services: Overrides = {**stores.settings, "kafka": own_names(apache_kafka_address)}
    return await run(Stage(tmp_path_factory.mktemp("calm"), services, SMALL_BATCHES), lines)


@pytest.mark.parametrize(
    ("name", "count", "repeated"),
    [pytest.param(*gap, marks=() if gap[:2] in ALWAYS else pytest.mark.long) for gap in GAPS],
)
async def test_worker_that_dies_in_a_gap(
    new_stage: NewStage, calm: Run, lines: list[Spoken], name: FailPoint, count: int, repeated: str
) -> None:
    killed = await run(new_stage("killed", SMALL_BATCHES), lines, f"{name}:{count}")
    assert calm.problems == []
    assert killed.problems == []
    assert killed.written.dead_letters == []
    assert differences(calm.left, killed.left) == []
    if repeated and name.endswith("after_send"):
        assert killed.repeats[repeated] > 0


def test_every_gap_is_tried() -> None:
    assert {name for name, _, _ in GAPS} | {"move.after_send", "park.after_send"} == set(FAIL_POINTS)


async def send_bad(kafka: KafkaSettings, count: int) -> None:
    await ensure_topics(kafka)
    async with producer(kafka) as client:
        for number in range(count):
            await client.send_and_wait(Topics.of(kafka).messages, key=b"one:user:1", value=b"{", partition=number % 2)


@pytest.mark.long
async def test_worker_that_dies_after_it_has_parked_a_record(new_stage: NewStage, lines: list[Spoken]) -> None:
    runs: list[Run] = []
    for trap in ("", "park.after_send:3"):
        stage = new_stage(trap or "calm")
        await send_bad(stage.settings.kafka, 4)
        runs.append(await run(stage, lines, trap))
    calm, killed = runs
    assert calm.problems == killed.problems == []
    assert differences(calm.left, killed.left) == []
    assert calm.repeats["dead letters"] == 0
    assert killed.repeats["dead letters"] > 0
    assert len(killed.written.dead_letters) == 4 + killed.repeats["dead letters"]
    assert {letter.value for letter in killed.written.dead_letters} == {b"{"}


def windows(left: Outcome) -> dict[tuple[User, str], list[list[str]]]:
    """Return the messages of each window, and of each flush of the other lane, in their order on the log."""
    found: dict[tuple[User, str], list[list[str]]] = {}
    for batch in sorted(left.flushes.values(), key=lambda batch: batch.ref.first_offset):
        user = (batch.ref.tenant_id, batch.ref.user_id)
        found.setdefault((user, batch.ref.lane), []).append([message.message_id for message in batch.messages])
    return found


def said(left: Outcome) -> dict[tuple[User, str], list[tuple[object, ...]]]:
    """Return what the deltas of each lane say, without ids: those follow from places in the log."""

    def content(delta: ProfileDelta) -> tuple[object, ...]:
        change = (delta.kind, delta.op, delta.topic, delta.sub_topic, delta.before, delta.after, delta.added)
        return (*change, delta.reason, delta.evidence, delta.update_hits, delta.said_at)

    found: dict[tuple[User, str], list[tuple[object, ...]]] = {}
    for user, history in left.deltas.items():
        for delta in history:
            lane = "forget" if delta.op == "forget" else left.flushes[delta.flush_id].ref.lane
            found.setdefault((user, lane), []).append(content(delta))
    return found


@pytest.mark.long
@pytest.mark.parametrize("forgets", [0.0, 0.05])
async def test_worker_that_dies_after_it_has_moved_a_message(new_stage: NewStage, forgets: float) -> None:
    """Another partitioner has sent all of a user's messages to a partition that is not the user's."""
    named = [
        Spoken({**line.body, "message_id": f"m{number}"}, line.published)
        for number, line in enumerate(talk(8, 60, 1, forgets))
    ]
    assert sum(line.body.get("type") == "forget" for line in named) == (3 if forgets else 0)
    right = partition_for(named[0].key, 2)
    calm = await run(new_stage("calm", TWO), [replace(line, partition=right) for line in named])
    wrong = [replace(line, partition=1 - right) for line in named]
    killed = await run(new_stage("killed", TWO), wrong, "move.after_send:60")
    assert killed.problems == []
    assert killed.written.dead_letters == []
    assert killed.repeats["moves"] > 0
    assert len(killed.written.moved) == len(named) + killed.repeats["moves"]
    assert said(killed.left) == said(calm.left)
    assert windows(killed.left) == windows(calm.left)
