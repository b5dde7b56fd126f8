"""`WindowAgent` and lane ``facts``: a message with a signal is sent on at once, with the turns before it."""

from __future__ import annotations

import pytest

from agents.flush_batches import MAX_TURN_CHARACTERS
from schemas.flushes import Signals
from schemas.ids import flush_id
from streams.errors import RecordFailed
from tests.support.fakes import TOPICS
from tests.unit.agents.window_world import STEPS, World

SIGNALS = Signals(facts=("location",), preferences=("explicit",))


def detect(text: str) -> Signals:
    return SIGNALS if "I live" in text else Signals()


@pytest.fixture
def world() -> World:
    return World(detect=detect, messages=4)


async def test_a_message_with_a_signal_goes_out_at_once_and_stays_in_its_window(world: World) -> None:
    world.say("ada", "hello")
    world.say("ada", "I live in Oslo", message_id="m", session_id="s", occurred_at="2026-01-01T00:00:00Z")
    worker = world.start()
    await worker.read()
    (batch,) = world.batches("facts")
    assert batch.ref.flush_id == flush_id("log", "default", "ada", "facts", 0, 1, 1)
    assert (batch.ref.trigger, batch.ref.message_count, batch.signals) == ("signal", 1, SIGNALS)
    (message,) = batch.messages
    assert (message.message_id, message.session_id, message.content) == ("m", "s", "I live in Oslo")
    assert [turn.content for turn in batch.context] == ["hello"]
    assert batch.ref.opened_at == batch.ref.closed_at == world.clock()
    assert world.batches() == []
    assert worker.acked == []
    assert world.table.writes == []
    await worker.close_all()
    assert world.offsets() == [[0, 1]]
    assert worker.acked == [0, 1]
    assert (worker.agent.signalled, worker.agent.spared) == (1, 1)


@pytest.mark.parametrize("role", ["assistant", "system", "tool"])
async def test_only_what_users_say_is_read_for_signals(world: World, role: str) -> None:
    world.say("ada", "I live in Oslo", role=role)
    worker = world.start()
    await worker.read()
    assert world.batches("facts") == []
    assert (worker.agent.signalled, worker.agent.spared) == (0, 0)


async def test_without_a_detector_there_is_no_such_lane() -> None:
    world = World()
    world.say("ada", "I live in Oslo")
    worker = world.start()
    await worker.read()
    await worker.close_all()
    assert world.batches("facts") == []
    assert world.table.read(b"default:ada").turns == ()


async def test_the_context_is_the_last_five_turns_of_the_same_user_across_windows(world: World) -> None:
    for number in range(7):
        world.say("ada", f"turn {number}", role="assistant" if number % 2 else "user")
        world.say("bob", "somebody else")
    world.say("ada", "you are a helpful assistant", role="system")
    world.say("ada", "I live in Oslo")
    await world.start().read()
    (batch,) = world.batches("facts")
    assert [turn.content for turn in batch.context] == [f"turn {number}" for number in range(2, 7)]
    assert [turn.role for turn in batch.context] == ["user", "assistant", "user", "assistant", "user"]


async def test_long_turns_are_cut(world: World) -> None:
    world.say("ada", "x" * 2_000, role="assistant")
    world.say("ada", "I live in Oslo")
    await world.start().read()
    (batch,) = world.batches("facts")
    assert batch.context[0].content == "x" * (MAX_TURN_CHARACTERS - 1) + "…"


async def test_the_context_outlives_the_worker(world: World) -> None:
    for number in range(4):
        world.say("ada", f"turn {number}")
    first = world.start()
    await first.read()
    assert world.batches() != []
    await first.die()
    world.say("ada", "I live in Oslo")
    await world.start().read()
    (batch,) = world.batches("facts")
    assert [turn.content for turn in batch.context] == [f"turn {number}" for number in range(4)]


@pytest.mark.parametrize("step", STEPS)
async def test_a_signal_survives_a_kill_at_any_point(world: World, step: str) -> None:
    for text in ("one", "I live in Oslo", "three", "I live in Bergen"):
        world.say("ada", text)
    first = world.start()
    first.kill_at(step, number=1 if "table" in step else 2)
    await first.read()
    await first.die()
    world.clock.advance(10)
    second = world.start()
    await second.read()
    await second.close_all()
    batches = world.batches("facts")
    assert {batch.ref.first_offset for batch in batches} == {1, 3}
    assert len({repr(batch) for batch in batches}) == 2
    assert second.acked == [0, 1, 2, 3]


async def test_a_signal_of_an_emitted_window_is_not_sent_again(world: World) -> None:
    for text in ("one", "I live in Oslo", "three", "four"):
        world.say("ada", text)
    first = world.start()
    await first.read()
    await first.die(lag=4)
    assert world.committed == [0]
    second = world.start()
    await second.read()
    assert len(world.batches("facts")) == 1
    assert len(world.batches()) == 2
    assert second.acked == [0, 1, 2, 3]


async def test_a_batch_that_no_broker_takes_has_its_message_parked_and_the_window_goes_on(world: World) -> None:
    world.say("ada", "I live in Oslo")
    worker = world.start()
    world.sender.faults.append(RecordFailed("record_too_large", "9 MB"))
    await worker.read()
    await worker.close_all()
    assert [record.value for record in world.sender.on(TOPICS.dead_letters)] == [world.log[0][0].value]
    assert world.offsets() == [[0]]
    assert worker.acked == [0]
