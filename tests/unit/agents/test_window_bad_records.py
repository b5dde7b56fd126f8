"""`WindowAgent` before records that enter no window: they hold nothing up, and bound what is held."""

from __future__ import annotations

import pytest

from agents.moved import MOVED_HEADER
from schemas.dead_letters import DeadLetterReason
from schemas.messages import user_key
from streams.errors import RecordFailed
from streams.partitioning import partition_for
from tests.support.fakes import TOPICS
from tests.unit.agents.window_world import Worker, World, flush, message

HOME = partition_for(user_key("default", "ada"), 4)


@pytest.mark.parametrize("value", [None, b"", b"log:0:" + b"9" * 5_000, b"\xff"])
async def test_a_header_that_looks_like_ours_is_the_clients_affair(value: bytes | None) -> None:
    world = World(messages=1)
    world.publish(message("ada"), headers=[(MOVED_HEADER, value)])  # type: ignore[list-item]
    worker = world.start()
    await worker.read()
    assert world.offsets() == [[0]]
    assert worker.acked == [0]


async def test_a_record_too_large_to_be_moved_is_parked() -> None:
    world = World(partitions=4, messages=1)
    astray = (HOME + 1) % 4
    world.publish(message("ada"), partition=astray)
    world.publish(message("ada", "next"), partition=astray)
    world.sender.faults.append(RecordFailed("record_too_large", "with one more header"))
    worker = world.start()
    await worker.read()
    (letter,) = world.sender.on(TOPICS.dead_letters)
    why = DeadLetterReason.from_headers(letter.headers)
    assert (letter.value, why.stage, why.reason, why.offset) == (message("ada"), "window", "record_too_large", 0)
    (moved,) = world.sender.on(TOPICS.messages)
    assert moved.value == message("ada", "next")
    assert worker.agent.moved == 1
    assert worker.source.acked[astray] == [0, 1]


def unreadable(world: World) -> None:
    world.publish(b"{")


def control_event(world: World) -> None:
    world.publish(flush("bob"))


@pytest.mark.parametrize("publish", [unreadable, control_event])
async def test_records_without_a_window_count_for_the_horizon(publish) -> None:
    """They cannot be acknowledged before the oldest message in a window is."""
    world = World(horizon=3)
    world.say("ada")
    worker: Worker = world.start()
    for _ in range(3):
        publish(world)
    await worker.read()
    assert world.batches() == []
    publish(world)
    await worker.read()
    assert [(batch.ref.user_id, batch.ref.trigger) for batch in world.batches()] == [("ada", "horizon")]
    assert worker.acked == [0, 1, 2, 3, 4]
    assert len(worker.agent.ledger) == 0


async def test_moved_records_count_for_the_horizon_of_the_partition_they_were_in() -> None:
    world = World(partitions=4, horizon=3)
    world.say("ada")
    for _ in range(4):
        world.publish(message("astray-user-in-another-partition"), partition=HOME)
    assert partition_for(user_key("default", "astray-user-in-another-partition"), 4) != HOME
    worker = world.start()
    await worker.read()
    assert [batch.ref.user_id for batch in world.batches()] == ["ada"]
    assert worker.source.acked[HOME] == [0, 1, 2, 3, 4]
