"""Forgetting a user: nothing of them is windowed, merged or sent any more, and what comes after begins anew."""

from __future__ import annotations

import pytest

from schemas.codec import decode, encode
from schemas.messages import user_key
from schemas.profiles import Profile, apply_deltas
from schemas.stages import Candidates
from tests.support.fakes import TOPICS
from tests.support.records import KEY, flush_ref
from tests.unit.agents import test_merge_agent
from tests.unit.agents.window_world import STEPS, World, forget

ADA = user_key("default", "ada")


def answers(world: World) -> list[Candidates]:
    return [decode(record.value, Candidates) for record in world.sender.on(TOPICS.candidates)]


async def test_the_window_is_dropped_and_the_merge_is_told() -> None:
    world = World()
    world.say("ada", "one")
    world.say("bob", "somebody else")
    world.say("ada", "two")
    world.publish(forget("ada"), key=ADA)
    worker = world.start()
    await worker.read()
    (answer,) = answers(world)
    assert (answer.branch, answer.flush.lane, answer.flush.last_offset) == ("forget", "forget", 3)
    assert answer.messages[0].message_id == "log:0:3"
    assert world.batches() == []
    state = world.table.read(ADA)
    assert (state.turns, state.lanes["memo"].last_offset) == ((), 3)
    assert worker.acked == [0]
    world.say("ada", "a new beginning")
    await worker.read()
    await worker.close_all()
    assert [[each.content for each in batch.messages] for batch in world.batches()] == [
        ["somebody else"],
        ["a new beginning"],
    ]
    assert worker.acked == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("step", STEPS)
async def test_a_forgetting_survives_a_kill_at_any_point(step: str) -> None:
    world = World()
    world.say("ada", "one")
    world.publish(forget("ada"), key=ADA)
    world.say("ada", "two")
    first = world.start()
    first.kill_at(step)
    await first.read()
    await first.die()
    second = world.start()
    await second.read()
    await second.close_all()
    assert len({encode(answer) for answer in answers(world)}) == 1
    assert [[each.content for each in batch.messages] for batch in world.batches()] == [["two"]]
    assert second.acked == [0, 1, 2]


async def test_a_forgetting_that_is_read_again_leaves_later_batches_alone() -> None:
    world = World(messages=2)
    world.say("ada", "one")
    world.publish(forget("ada"), key=ADA)
    world.say("ada", "two")
    world.say("ada", "three")
    first = world.start()
    await first.read()
    await first.die(lag=9)
    second = world.start()
    await second.read()
    await second.close_all()
    assert {batch.ref.flush_id: [each.offset for each in batch.messages] for batch in world.batches()} == {
        world.batches()[0].ref.flush_id: [2, 3]
    }
    assert second.acked == [0, 1, 2, 3]


def forgotten(offset: int) -> Candidates:
    return Candidates(
        flush=flush_ref(offset, offset, lane="forget", trigger="forget"),
        branch="forget",
        status="ok",
        messages=(
            test_merge_agent.MessageRef(message_id="gone", role="user", occurred_at=flush_ref().last_occurred_at),
        ),
    )


async def test_the_profile_ends_in_one_delta_without_old_values_and_versions_go_on() -> None:
    world = test_merge_agent.World()
    world.publish(world.message(1, "lives in A"), *world.flush(0), forgotten(5), *world.flush(1))
    worker = test_merge_agent.Worker(world)
    await worker.read()
    assert [(delta.version, delta.kind, delta.op) for delta in world.deltas()] == [
        (1, "fact", "add"),
        (2, "slot", "add"),
        (3, "profile", "forget"),
        (4, "slot", "add"),
    ]
    tombstone = world.deltas()[2]
    assert (tombstone.before, tombstone.after, tombstone.added, tombstone.evidence) == (None, None, None, ("gone",))
    event = world.events()[2]
    assert (event.outcome, event.delta_ids, event.memo) == ("forgotten", (tombstone.delta_id,), ())
    assert (world.state.profile.version, len(world.state.profile.slots), world.state.profile.facts) == (4, 1, ())
    empty = Profile(tenant_id="default", user_id="ada")
    assert apply_deltas(empty, world.deltas()) == apply_deltas(empty, world.deltas()[2:]) == world.state.profile
    assert worker.acked == world.offsets


async def test_what_was_in_flight_is_dropped_when_it_arrives() -> None:
    world = test_merge_agent.World()
    (extract, tag), later = world.flush(0), world.message(4, "lives in A")
    world.publish(extract, forgotten(5), tag, later, world.message(7, "lives in B"))
    worker = test_merge_agent.Worker(world)
    await worker.read()
    assert [event.outcome for event in world.events()] == ["forgotten", "applied"]
    assert [fact.text for fact in world.state.profile.facts] == ["lives in B"]
    assert worker.acked == world.offsets


@pytest.mark.parametrize("step", STEPS)
async def test_the_merge_forgets_once_whenever_it_is_killed(step: str) -> None:
    world = test_merge_agent.World()
    world.publish(world.message(1, "lives in A"), forgotten(5))
    first = test_merge_agent.Worker(world)
    first.kill_at(step, number=2)
    await first.read()
    await first.die()
    second = test_merge_agent.Worker(world)
    await second.read()
    assert {delta.version for delta in world.deltas()} == {1, 2}
    assert len({encode(delta) for delta in world.deltas()}) == 2
    assert world.table.read(KEY).profile == Profile(tenant_id="default", user_id="ada", version=2)
