"""`InTurn`: who waits for which merge, and that nobody sleeps on when theirs has come."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agents.in_turn import InTurn
from schemas.flushes import FlushBatch
from schemas.profiles import Profile, ProfileState
from streams.errors import DependencyDown
from tests.support.fakes import FakeTable, settled
from tests.support.records import KEY, flush_ref, signal_batch

EMPTY = ProfileState(profile=Profile(tenant_id="default", user_id="ada"))


class Table:
    """Users' records as the merge has left them."""

    def __init__(self) -> None:
        self.states: dict[bytes, ProfileState] = {}

    def read(self, key: bytes) -> ProfileState | None:
        return self.states.get(key)

    def apply(self, key: bytes, offset: int, lane: str = "facts", **changes) -> None:
        """Note that the flush of that message has been merged."""
        self.states[key] = self.states.get(key, EMPTY).marked(flush_ref(offset, offset, lane=lane, **changes))


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def in_turn(table: Table) -> InTurn:
    return InTurn(table)


def batch(after: int | None, **changes) -> FlushBatch:
    """Return the batch of a message that follows the one at offset `after`."""
    return replace(signal_batch("I live in Oslo", **changes), after=after)


async def test_the_first_message_of_a_user_waits_for_nothing(in_turn: InTurn) -> None:
    await in_turn.wait(KEY, batch(None))
    assert len(in_turn) == 0


@pytest.mark.parametrize("applied", [4, 5])
async def test_a_message_whose_turn_has_come_does_not_wait(in_turn: InTurn, table: Table, applied: int) -> None:
    table.apply(KEY, applied)
    await in_turn.wait(KEY, batch(4))


async def test_one_that_is_sent_again_waits_for_nothing(in_turn: InTurn) -> None:
    await in_turn.wait(KEY, batch(4, redrive=1))


async def test_forgetting_the_user_ends_the_wait(in_turn: InTurn, table: Table) -> None:
    waiting = asyncio.create_task(in_turn.wait(KEY, batch(4)))
    await settled()
    table.apply(KEY, 6, "forget")
    in_turn.applied(KEY)
    await asyncio.wait_for(waiting, 1)


@pytest.mark.parametrize(
    ("key", "change"),
    [
        pytest.param(b"default:bob", {}, id="another user"),
        pytest.param(KEY, {"lane": "memo"}, id="another lane"),
        pytest.param(KEY, {"partition": 1}, id="another partition"),
        pytest.param(KEY, {"log_id": "lost"}, id="another log"),
    ],
)
async def test_other_merges_do_not_count(in_turn: InTurn, table: Table, key: bytes, change: dict) -> None:
    waiting = asyncio.create_task(in_turn.wait(KEY, batch(4)))
    await settled()
    table.apply(key, 8, **change)
    in_turn.applied(key)
    await settled()
    assert not waiting.done()
    table.apply(KEY, 4)
    in_turn.applied(KEY)
    await asyncio.wait_for(waiting, 1)


async def test_a_record_that_cannot_be_read_is_for_the_caller_to_wait_out(in_turn: InTurn, table: Table) -> None:
    waiting = asyncio.create_task(in_turn.wait(KEY, batch(4)))
    await settled()

    def unreadable(_key: bytes) -> ProfileState:
        raise DependencyDown("a newer release wrote it")

    table.read = unreadable  # type: ignore[method-assign]
    in_turn.applied(KEY)
    with pytest.raises(DependencyDown):
        await asyncio.wait_for(waiting, 1)
    assert len(in_turn) == 0


@dataclass
class Waiter:
    """A message that waits for that of the user at offset `after`."""

    key: bytes
    after: int
    task: asyncio.Task[None]


KEYS = st.sampled_from([KEY, b"default:bob"])
STEPS = st.one_of(
    st.tuples(st.just("wait"), KEYS, st.integers(0, 6)),
    st.tuples(st.just("apply"), KEYS, st.integers(0, 6)),
    st.tuples(st.just("nothing new"), KEYS),
    st.tuples(st.just("cancel"), st.integers(0, 9)),
    st.tuples(st.just("turn")),
)


async def run(steps: list[tuple]) -> None:
    """Carry out the steps, without a turn of the loop between them unless it is one of them."""
    table = Table()
    in_turn = InTurn(table)
    applied: dict[bytes, int] = {}
    waiters: list[Waiter] = []
    cancelled: list[Waiter] = []
    for step in steps:
        match step:
            case ("wait", key, after):
                waiters.append(Waiter(key, after, asyncio.create_task(in_turn.wait(key, batch(after)))))
            case ("apply", key, offset):
                applied[key] = max(offset, applied.get(key, -1))
                table.apply(key, applied[key])
                in_turn.applied(key)
            case ("nothing new", key):
                in_turn.applied(key)
            case ("cancel", number) if number < len(waiters):
                cancelled.append(waiters.pop(number))
                cancelled[-1].task.cancel()
            case ("turn",):
                await asyncio.sleep(0)
    await settled()
    sleeping = [each for each in waiters if not each.task.done()]
    assert sleeping == [each for each in waiters if each.after > applied.get(each.key, -1)]
    assert len(in_turn) == len(sleeping), "who does not wait is not remembered"
    assert all(each.task.done() for each in cancelled)
    for key in {each.key for each in sleeping}:
        table.apply(key, 6)
        in_turn.applied(key)
    await settled()
    assert all(each.task.done() for each in waiters)
    assert len(in_turn) == 0


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=40))
@example([("wait", KEY, 3), ("wait", KEY, 3), ("turn",), ("cancel", 0), ("turn",), ("apply", KEY, 3)])
@example([("wait", KEY, 3), ("turn",), ("nothing new", KEY), ("apply", KEY, 3)])
@example([("wait", KEY, 3), ("turn",), ("nothing new", KEY), ("turn",), ("apply", KEY, 3)])
def test_in_any_order_of_waits_and_merges_nobody_sleeps_on(steps: list[tuple]) -> None:
    asyncio.run(run(steps))


async def test_what_is_never_merged_holds_a_message_up_for_a_while_only(caplog: pytest.LogCaptureFixture) -> None:
    in_turn = InTurn(FakeTable(ProfileState), longest=0.05)
    await in_turn.wait(KEY, replace(signal_batch("I live in Oslo"), after=1))
    assert "going on" in caplog.text
    assert len(in_turn) == 0
