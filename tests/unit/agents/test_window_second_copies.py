"""Second copies of moved records, and what was said before its user was forgotten and comes only after."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agents.moved import MOVED_HEADER
from schemas.dead_letters import REDRIVE_HEADER, TIMESTAMP_HEADER
from schemas.messages import user_key
from streams.partitioning import partition_for
from tests.support.fakes import TOPICS
from tests.unit.agents.window_world import World, flush, forget, message

ADA = user_key("default", "ada")


def copy(world: World, value: bytes, origin: int, **fields) -> None:
    """A record that was at an offset of another partition comes to its user's."""
    world.ends[7] = max(world.ends.get(7, 0), origin + 1)
    claim(world, value, f"log:7:{origin}", **fields)


def claim(world: World, value: bytes, place: str, **fields) -> None:
    """A record comes that says to have been elsewhere."""
    world.publish(value, key=ADA, headers=[(MOVED_HEADER, place.encode())], **fields)


@pytest.mark.parametrize("emitted", [False, True])
async def test_the_second_copy_of_a_flush_does_not_close_the_window_of_later_messages(emitted: bool) -> None:
    world = World(messages=2 if emitted else 100)
    worker = world.start()
    copy(world, message("ada"), 1)
    copy(world, flush("ada"), 2)
    copy(world, message("ada"), 3)
    if emitted:
        copy(world, message("ada"), 4)
    copy(world, flush("ada"), 2)
    world.publish(message("ada"), key=ADA)
    await worker.read()
    await worker.close_all()
    assert world.offsets() == ([[0], [2, 3], [5]] if emitted else [[0], [2, 4]])
    assert worker.acked == list(range(6 if emitted else 5))


async def test_the_second_copy_of_a_forget_does_not_forget_what_was_said_since() -> None:
    world = World()
    worker = world.start()
    copy(world, message("ada"), 1)
    copy(world, forget("ada"), 2)
    copy(world, message("ada"), 3)
    copy(world, forget("ada"), 2)
    copy(world, message("ada"), 3)
    await worker.read()
    await worker.close_all()
    assert len(world.sender.on(TOPICS.candidates)) == 1
    assert world.offsets() == [[2]]
    assert worker.acked == [0, 1, 2, 3, 4]


async def test_a_first_copy_does_what_it_asks_for() -> None:
    world = World()
    worker = world.start()
    copy(world, message("ada"), 1)
    copy(world, flush("ada"), 2)
    await worker.read()
    assert world.offsets() == [[0]]
    copy(world, forget("ada"), 3)
    await worker.read()
    assert len(world.sender.on(TOPICS.candidates)) == 1


@pytest.mark.parametrize("lag", [0, 1, 2])
async def test_the_second_copy_of_a_message_does_not_come_back_after_the_forgetting(lag: int) -> None:
    world = World()
    worker = world.start()
    copy(world, message("ada", "secret"), 1)
    world.publish(forget("ada"), key=ADA, timestamp=0.0)  # by a clock that says nothing about what was before
    await worker.read()
    await worker.die(lag)
    copy(world, message("ada", "secret"), 1)
    world.publish(message("ada", "since"), key=ADA)
    worker = world.start()
    await worker.read()
    await worker.close_all()
    assert [[each.content for each in batch.messages] for batch in world.batches()] == [["since"]]


@pytest.mark.parametrize("step", ["before the table", "after the table", "before the send", "after the send", None])
async def test_a_moved_forget_is_carried_out_once_wherever_its_worker_dies(step: str | None) -> None:
    world = World()
    worker = world.start()
    copy(world, forget("ada"), 2)
    if step is not None:
        worker.kill_at(step)
    await worker.read()
    await worker.die()
    sent = len(world.sender.on(TOPICS.candidates))
    assert sent == (1 if step in {None, "after the send"} else 0)
    world.publish(message("ada", "since"), key=ADA)
    copy(world, forget("ada"), 2)
    for _ in range(2):
        worker = world.start()
        await worker.read()
        await worker.close_all()
        await worker.die(lag=3)
    answers = world.sender.on(TOPICS.candidates)
    # Sent again it is the same word about the same place, and changes nothing there.
    assert len({record.value for record in answers}) == 1
    assert {(each.offset, each.content) for batch in world.batches() for each in batch.messages} == {(1, "since")}


async def test_of_two_moved_forgets_the_second_copies_are_told_from_what_was_asked_later() -> None:
    world = World()
    worker = world.start()
    copy(world, forget("ada"), 2)
    copy(world, message("ada", "between"), 3)
    copy(world, forget("ada"), 4)
    copy(world, message("ada", "since"), 5)
    copy(world, forget("ada"), 2)
    copy(world, message("ada", "between"), 3)
    copy(world, forget("ada"), 4)
    await worker.read()
    await worker.close_all()
    assert len(world.sender.on(TOPICS.candidates)) == 2
    assert world.offsets() == [[3]]
    assert worker.acked == list(range(7))


async def test_a_message_that_was_moved_late_and_said_before_the_forgetting_is_dropped() -> None:
    world = World()
    worker = world.start()
    said = world.clock().timestamp()
    world.clock.advance(10)
    world.publish(forget("ada"), key=ADA)
    copy(world, message("ada", "before"), 1, timestamp=said)
    copy(world, message("ada", "at once"), 2)
    world.clock.advance(1)
    copy(world, message("ada", "since"), 3)
    world.publish(message("ada", "direct, by a slow clock"), key=ADA, timestamp=said)
    await worker.read()
    await worker.close_all()
    await worker.die()
    worker = world.start()
    copy(world, message("ada", "before, once more"), 4, timestamp=said)
    copy(world, message("ada", "later"), 5)
    await worker.read()
    await worker.close_all()
    assert world.offsets() == [[3, 4], [6]]


async def test_a_message_that_is_sent_again_from_the_dead_letters_does_not_bring_its_user_back() -> None:
    world = World()
    worker = world.start()
    said = world.clock().timestamp()
    world.clock.advance(10)
    world.publish(forget("ada"), key=ADA)
    world.clock.advance(10)

    def again(content: str, written: float) -> None:
        first = (TIMESTAMP_HEADER, str(round(written * 1000)).encode())
        world.publish(message("ada", content), key=ADA, headers=[(REDRIVE_HEADER, b"letter"), first])

    again("before", said)
    again("since", said + 15)
    await worker.read()
    await worker.close_all()
    assert world.offsets() == [[2]]


async def test_a_forgetting_by_a_clock_that_runs_ahead_does_not_reach_into_the_future() -> None:
    world = World()
    worker = world.start()
    ahead = world.clock() + timedelta(days=400)
    world.publish(forget("ada"), key=ADA, timestamp=ahead.timestamp())
    await worker.read()
    world.clock.advance(1)
    copy(world, message("ada", "since"), 1)
    await worker.read()
    await worker.close_all()
    assert world.offsets() == [[1]]


@pytest.mark.parametrize("place", ["log:7:9000", "another log:7:1", "log:0:3", "log:99:1"])
async def test_a_message_that_cannot_have_been_where_it_says_takes_no_other_with_it(place: str) -> None:
    world = World(messages=2)
    worker = world.start()
    copy(world, message("ada"), 1)
    claim(world, message("ada", "claims"), place)
    copy(world, message("ada"), 2)
    copy(world, message("ada"), 3)
    claim(world, message("ada", "claims again"), place)
    await worker.read()
    await worker.close_all()
    assert world.offsets() == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("place", ["log:7:5", "log:6:5"])
async def test_an_earlier_forget_that_comes_late_takes_nothing_back_and_drops_nothing(place: str) -> None:
    world = World()
    world.ends = {6: 9, 7: 9}
    worker = world.start()
    first = world.clock().timestamp()
    world.clock.advance(10)
    world.publish(forget("ada"), key=ADA)
    world.clock.advance(1)
    world.publish(message("ada", "since"), key=ADA)
    copy(world, forget("ada"), 3, timestamp=first)
    claim(world, message("ada", "between"), place, timestamp=first + 5)
    await worker.read()
    await worker.close_all()
    assert world.offsets() == [[1]]
    assert len(world.sender.on(TOPICS.candidates)) == 1


async def test_a_second_forget_by_a_slow_clock_takes_nothing_back() -> None:
    world = World()
    worker = world.start()
    first = world.clock().timestamp()
    world.clock.advance(10)
    world.publish(forget("ada"), key=ADA)
    world.publish(forget("ada"), key=ADA, timestamp=first)
    copy(world, message("ada", "between"), 5, timestamp=first + 5)
    await worker.read()
    await worker.close_all()
    assert world.offsets() == []
    assert len(world.sender.on(TOPICS.candidates)) == 2


async def test_what_is_said_between_a_moved_forget_and_a_direct_one_is_dropped() -> None:
    world = World()
    worker = world.start()
    first = world.clock().timestamp()
    copy(world, forget("ada"), 3, timestamp=first)
    world.clock.advance(10)
    world.publish(forget("ada"), key=ADA)
    copy(world, message("ada", "between"), 5, timestamp=first + 5)
    await worker.read()
    await worker.close_all()
    assert world.offsets() == []


async def test_old_messages_that_are_published_after_the_forgetting_are_new() -> None:
    """An import keeps the times of the messages, and goes to the wrong partition."""
    world = World(partitions=2)
    here = partition_for(ADA, 2)
    wrong = 1 - here
    world.publish(message("ada", "before"), key=ADA, partition=wrong, timestamp=3.0)
    world.publish(forget("ada"), key=ADA, partition=here)
    worker = world.start()
    for stored in (*world.log[here], *world.log[wrong]):
        await worker.agent.take(worker.event(stored))
    imported = world.publish(message("ada", "imported"), key=ADA, partition=wrong, timestamp=2.0)
    await worker.agent.take(worker.event(imported))
    for sent in world.sender.on(TOPICS.messages):
        moved = world.publish(
            sent.value, key=sent.key, partition=here, timestamp=sent.timestamp, headers=list(sent.headers)
        )
        await worker.agent.take(worker.event(moved))
    await worker.work()
    await worker.close_all()
    assert [[each.content for each in batch.messages] for batch in world.batches()] == [["imported"]]
