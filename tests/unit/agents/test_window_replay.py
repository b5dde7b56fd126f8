"""`WindowAgent` over crashes: every message in exactly one batch, and a batch that is sent again is the same."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agents.moved import MOVED_HEADER, LogReplaced
from schemas.codec import encode
from schemas.flushes import FACT_TURNS, FlushBatch, Signals
from schemas.messages import decode_message, user_key
from streams.partitioning import partition_for
from tests.support.fakes import TOPICS
from tests.unit.agents.window_world import STEPS, World, flush, forget, message


def assert_exact(
    world: World, messages: list[tuple[int, int]], forgotten: Collection[tuple[int, int]] = frozenset()
) -> None:
    """Check that the batches with distinct ids hold each of these `(partition, offset)` once, and repeats are equal.

    Messages of users who were forgotten later may be in one, or in none.
    """
    by_id: dict[str, set[bytes]] = defaultdict(set)
    found: dict[tuple[int, int], set[str]] = defaultdict(set)
    for batch in world.batches():
        by_id[batch.ref.flush_id].add(encode(batch))
        for each in batch.messages:
            found[batch.ref.partition, each.offset].add(batch.ref.flush_id)
    assert all(len(contents) == 1 for contents in by_id.values()), "the same id with other content"
    assert sorted(set(found) - set(forgotten)) == sorted(messages), "lost or invented messages"
    assert all(len(ids) == 1 for ids in found.values()), "a message in two batches"


@pytest.mark.parametrize("step", STEPS)
async def test_a_batch_survives_a_kill_at_any_point(step: str) -> None:
    world = World(messages=3)
    world.say("ada")
    world.say("bob")
    world.say("ada")
    world.say("ada")
    first = world.start()
    first.kill_at(step)
    await first.read()
    assert first.killed.is_set()
    assert first.acked == []
    await first.die()

    world.clock.advance(30)
    second = world.start()
    await second.read()
    await second.close_all()
    assert_exact(world, [(0, 0), (0, 1), (0, 2), (0, 3)])
    assert second.acked == [0, 1, 2, 3]
    sent = [batch for batch in world.batches() if batch.ref.user_id == "ada"]
    assert [[each.offset for each in batch.messages] for batch in sent] == [[0, 2, 3]] * len(sent)
    assert len(sent) == (2 if step == "after the send" else 1)


async def test_a_batch_that_is_made_again_is_equal_to_the_byte() -> None:
    world = World()
    world.say("ada", "no time of its own")
    world.say("ada", "with one", occurred_at="2026-01-01T00:00:00Z", message_id="m", session_id="s", speaker="Ada")
    first = world.start()
    await first.read()
    first.kill_at("after the send")
    await first.tick(60)
    await first.die()
    world.clock.advance(10_000)
    second = world.start()
    await second.read()
    one, two = world.sender.on(TOPICS.flushes)
    assert one == two
    assert world.table.writes == [(user_key("default", "ada"), 0)]


async def test_messages_after_the_batch_make_the_next_one() -> None:
    world = World()
    world.say("ada")
    first = world.start()
    await first.read()
    first.kill_at("before the send")
    await first.tick(60)
    await first.die()
    world.say("ada")
    second = world.start()
    await second.read()
    assert world.offsets() == [[0]]
    await second.tick(60)
    assert world.offsets() == [[0], [1]]
    assert second.acked == [0, 1]


async def test_a_batch_that_was_partly_committed_is_not_made_again() -> None:
    world = World()
    for user in ("ada", "bob", "ada"):
        world.say(user)
    first = world.start()
    await first.read()
    world.publish(flush("ada"), key=user_key("default", "ada"))
    await first.read()
    assert first.acked == [0]
    await first.die()
    second = world.start()
    await second.read()
    assert second.acked == []
    await second.close_all()
    assert world.offsets() == [[0, 2], [1]]
    assert second.acked == [1, 2, 3]


async def test_earlier_batches_that_are_read_again_are_skipped() -> None:
    world = World(messages=2)
    world.say("bob")
    for _ in range(4):
        world.say("ada")
    first = world.start()
    await first.read()
    assert world.offsets() == [[1, 2], [3, 4]]
    assert first.acked == []
    await first.die()
    second = world.start()
    await second.read()
    assert world.offsets() == [[1, 2], [3, 4], [3, 4]]
    assert_exact(world, [(0, offset) for offset in range(1, 5)])
    await second.close_all()
    assert second.acked == [0, 1, 2, 3, 4]


async def test_a_second_kill_while_the_batch_is_made_again_changes_nothing() -> None:
    world = World(messages=2)
    world.say("ada")
    world.say("ada")
    for step in ("after the table", "before the send", "after the send", "before the send"):
        worker = world.start()
        worker.kill_at(step)
        await worker.read()
        assert worker.killed.is_set()
        await worker.die()
    last = world.start()
    await last.read()
    assert_exact(world, [(0, 0), (0, 1)])
    assert last.acked == [0, 1]


async def test_a_drain_while_a_batch_is_being_made_again_starts_over() -> None:
    world = World(messages=2)
    world.say("ada")
    world.say("ada")
    first = world.start()
    first.kill_at("before the send")
    await first.read()
    await first.die()
    second = world.start()
    await second.agent.take(second.event(world.log[0][0]))
    second.agent.begin_drain()
    assert len(second.agent.ledger) == 0
    second.agent.abandon()
    second.agent.resume()
    second.position = [1]
    await second.read()
    assert world.batches() == []
    assert second.acked == [1]


async def test_a_rebalance_in_the_same_process_reads_everything_again() -> None:
    world = World(messages=2)
    worker = world.start()
    for user in ("bob", "ada", "ada", "ada"):
        world.say(user)
    await worker.read()
    assert world.offsets() == [[1, 2]]
    worker.agent.begin_drain()
    worker.agent.abandon()
    worker.source.generation += 1
    worker.agent.resume()
    worker.position = list(world.committed)
    await worker.read()
    await worker.close_all()
    assert_exact(world, [(0, offset) for offset in range(4)])
    assert worker.acked == [0, 1, 2, 3]


@pytest.mark.parametrize("change", ["log", "partition"])
async def test_offsets_of_another_log_or_partition_say_nothing(change: str) -> None:
    world = World(messages=1)
    for user in ("bob", "bob", "ada"):
        world.say(user)
    first = world.start()
    await first.read()
    await first.die()
    partitions = 4 if change == "partition" else 1
    rebuilt = World(messages=1, log_id="other" if change == "log" else "log", partitions=partitions)
    rebuilt.table.stored = world.table.stored
    key = user_key("default", "ada")
    assert change == "log" or partition_for(key, partitions) != 0
    rebuilt.say("ada")
    second = rebuilt.start()
    await second.read()
    assert rebuilt.offsets() == [[0]]
    assert rebuilt.batches()[0].ref.flush_id not in world.emitted


async def test_records_between_the_messages_of_a_batch_are_dealt_with_as_ever() -> None:
    world = World()
    world.say("ada")
    world.publish(b"rubbish")
    world.say("ada")
    world.publish(flush("ada"), key=user_key("default", "ada"))
    world.say("ada")
    first = world.start()
    first.kill_at("before the send", number=2)
    await first.read()
    await first.die()
    second = world.start()
    await second.read()
    await second.close_all()
    assert_exact(world, [(0, 0), (0, 2), (0, 4)])
    assert second.acked == [0, 1, 2, 3, 4]
    assert {record.value for record in world.sender.on(TOPICS.dead_letters)} == {b"rubbish"}


def greets(text: str) -> Signals:
    return Signals(facts=("state",)) if "hello" in text else Signals()


def assert_signals_exact(world: World, messages: list[tuple[int, int]], forgotten: Collection[tuple[int, int]]) -> None:
    """Check that each message with a signal has a batch of its own, always the same, with the turns just before it."""
    by_id: dict[str, set[bytes]] = defaultdict(set)
    found: dict[tuple[int, int], FlushBatch] = {}
    for batch in world.batches("facts"):
        by_id[batch.ref.flush_id].add(encode(batch))
        found[batch.ref.partition, batch.ref.first_offset] = batch
    assert all(len(contents) == 1 for contents in by_id.values()), "the same id with other content"
    spoken = {place: decode_message(world.log[place[0]][place[1]].value) for place in messages}
    wanted = sorted(place for place, each in spoken.items() if "hello" in each.content)
    assert sorted(set(found) - set(forgotten)) == wanted
    for partition, offset in wanted:
        batch = found[partition, offset]
        own = [place for place in messages if spoken[place].key == spoken[partition, offset].key and place[1] < offset]
        before = [place for place in own if place in wanted]
        assert batch.after in ({before[-1][1]} if before else {None, *(place[1] for place in forgotten)})
        assert [turn.offset for turn in batch.context] == [place[1] for place in own[-FACT_TURNS:]]


USERS = ("ada", "bob", "eve", "joe")
ACTIONS = st.one_of(
    st.tuples(
        st.just("say"), st.sampled_from(USERS), st.sampled_from(["hi", "hello world", "one two three four five"])
    ),
    st.tuples(
        st.just("say"), st.sampled_from(USERS), st.sampled_from(["hi", "hello world", "one two three four five"])
    ),
    st.tuples(st.just("flush"), st.sampled_from(USERS)),
    st.tuples(st.just("forget"), st.sampled_from(USERS)),
    st.tuples(st.just("rubbish")),
    st.tuples(st.just("read")),
    st.tuples(st.just("tick"), st.integers(1, 90)),
    st.tuples(st.just("plan"), st.sampled_from(STEPS), st.integers(1, 3)),
    st.tuples(st.just("kill"), st.integers(0, 4)),
    st.tuples(st.just("rebalance"), st.integers(0, 4)),
    st.tuples(st.just("drain"), st.integers(0, 2)),
)


async def run_schedule(actions: list[tuple], partitions: int, by_session: bool, signals: bool) -> None:
    world = World(
        partitions=partitions,
        tokens=8,
        messages=3,
        idle=60.0,
        age=100.0,
        by_session=by_session,
        detect=greets if signals else None,
    )
    valid: list[tuple[int, int]] = []
    forgotten: set[tuple[int, int]] = set()
    worker = world.start()
    for number, action in enumerate(actions):
        if worker.killed.is_set():
            await worker.die()
            worker = world.start()
        match action:
            case ("say", user, content):
                stored = world.say(user, content, session_id=f"{number // 7}")
                valid.append((stored.partition, stored.offset))
            case ("flush", user):
                key = user_key("default", user)
                world.publish(flush(user), key=key, partition=partition_for(key, partitions))
            case ("forget", user):
                key = user_key("default", user)
                gone = {place for place in valid if world.log[place[0]][place[1]].key == key}
                valid = [place for place in valid if place not in gone]
                forgotten |= gone
                world.publish(forget(user), key=key, partition=partition_for(key, partitions))
            case ("rubbish",):
                world.publish(b"rubbish")
            case ("read",):
                await worker.read()
            case ("tick", seconds):
                await worker.tick(seconds)
            case ("plan", step, count):
                worker.kill_at(step, count)
            case ("kill", lag):
                await worker.die(lag)
            case ("rebalance", lag):
                worker.commit(lag)
                worker.source.generation += 1
                worker.agent.abandon()
                worker.agent.resume()
                worker.source.acked.clear()
                worker.position = list(world.committed)
            case ("drain", lag):
                worker.agent.begin_drain()
                await worker.work()
                await worker.die(lag)
    await worker.die()
    last = world.start()
    await last.read()
    await last.close_all()
    last.commit()
    assert_exact(world, valid, forgotten)
    assert world.committed == [len(log) for log in world.log]
    assert len(last.agent.ledger) == 0
    by_user = defaultdict(list)
    for batch in {batch.ref.flush_id: batch for batch in world.batches()}.values():
        by_user[batch.ref.user_id] += [each.offset for each in batch.messages]
    assert all(offsets == sorted(offsets) for offsets in by_user.values()), "batches of a user out of order"
    if signals:
        assert_signals_exact(world, valid, forgotten)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTIONS, min_size=5, max_size=60), st.sampled_from([1, 3]), st.booleans(), st.booleans())
@example(
    [("say", "ada", "hi"), ("read",), ("plan", "before the send", 1), ("tick", 90), ("kill", 2)] * 3, 1, False, False
)
@example([("say", "ada", "hello world"), ("read",), ("plan", "after the send", 1), ("kill", 2)] * 5, 1, False, True)
def test_any_schedule_of_messages_time_and_crashes_is_exact(
    actions: list[tuple], partitions: int, by_session: bool, signals: bool
) -> None:
    asyncio.run(run_schedule(actions, partitions, by_session, signals))


async def test_a_message_that_a_crash_moved_twice_is_in_one_batch() -> None:
    world = World(partitions=4)
    right = partition_for(user_key("default", "ada"), 4)
    wrong = (right + 1) % 4
    world.publish(message("ada", "first"), partition=wrong)
    world.publish(message("ada", "second"), partition=wrong)
    first = world.start()
    first.kill_at("after the send", number=2)
    await first.read()
    await first.die(lag=1)
    second = world.start()
    await second.read()
    copies = world.sender.on(TOPICS.messages)
    assert len(copies) == 4
    for copy in copies:
        world.publish(copy.value, key=copy.key, partition=right, headers=list(copy.headers))
    await second.read()
    await second.close_all()
    (batch,) = world.batches()
    assert [each.content for each in batch.messages] == ["first", "second"]
    assert second.source.acked[right] == [0, 1, 2, 3]


@pytest.mark.parametrize("at", range(1, 4))
async def test_second_copies_are_left_out_again_when_a_batch_is_made_again(at: int) -> None:
    world = World(messages=3)
    world.ends = {7: 6}
    moved = [(MOVED_HEADER, b"log:7:5")]
    world.publish(message("ada", "moved"), headers=moved)
    world.say("ada", "one")
    world.publish(message("ada", "moved"), headers=moved)
    world.say("ada", "two")
    world.publish(message("ada", "moved"), headers=moved)
    world.say("ada", "three")
    first = world.start()
    first.kill_at("before the send")
    await first.read()
    await first.die()
    for _ in range(at):
        again = world.start()
        again.kill_at("after the send")
        await again.read()
        await again.die(lag=9)
    last = world.start()
    await last.read()
    await last.close_all()
    by_id = {batch.ref.flush_id: [each.content for each in batch.messages] for batch in world.batches()}
    assert list(by_id.values()) == [["moved", "one", "two"], ["three"]]
    assert len({encode(batch) for batch in world.batches()}) == 2
    assert last.acked == [0, 1, 2, 3, 4, 5]


async def test_copies_of_another_log_or_partition_are_other_messages() -> None:
    world = World()
    world.ends = {6: 9, 7: 9}
    for origin in (b"log:7:5", b"log:6:5", b"old:7:5", b"log:7:6", b"log:7:4"):
        world.publish(message("ada", origin.decode()), headers=[(MOVED_HEADER, origin)])
    worker = world.start()
    await worker.read()
    await worker.close_all()
    (batch,) = world.batches()
    assert [each.content for each in batch.messages] == ["log:7:5", "log:6:5", "old:7:5", "log:7:6"]


async def test_a_topic_that_was_deleted_and_made_again_is_not_taken_for_the_old_one() -> None:
    world = World(messages=3)
    for _ in range(3):
        world.say("ada", "old")
    worker = world.start()
    await worker.read()
    await worker.die()
    world.log[0].clear()
    world.committed[0] = 0
    new = world.say("ada", "new")
    again = world.start()
    with pytest.raises(
        LogReplaced, match=r"offset 2 of partition 0 .* was processed before, and is not there: .*log_id"
    ):
        await again.agent.take(again.event(new))
    assert again.acked == []
    assert len(world.batches()) == 1
