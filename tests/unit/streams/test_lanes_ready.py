"""`KeyedLanes` whose records wait for others: they hold no handler slot, and no drain."""

from __future__ import annotations

import asyncio

import pytest

from streams.errors import DependencyDown
from streams.lanes import KeyedLanes
from streams.ledger import Entry
from tests.support.fakes import INSTANT, FakeSource, eventually, settled


class Stage:
    """Lanes whose records wait until the test lets them."""

    def __init__(self, concurrency: int = 1) -> None:
        self.source = FakeSource()
        self.gates: dict[int, asyncio.Event] = {}
        self.troubles: dict[int, list[Exception]] = {}
        self.handled: list[int] = []
        self.handling: dict[int, asyncio.Event] = {}
        self.forgets = 0
        self.lanes = KeyedLanes(
            "stage",
            self.source,
            handler=self._handle,
            give_up=self._give_up,
            ready=self._ready,
            concurrency=concurrency,
            attempts=1,
            backoff=INSTANT,
            on_forget=self._forgotten,
        )
        self.lanes.resume()

    def gate(self, offset: int) -> asyncio.Event:
        """Let a record wait until the event is set."""
        return self.gates.setdefault(offset, asyncio.Event())

    async def submit(self, offset: int, key: str) -> None:
        await self.lanes.submit(self.source.event(offset, key=key.encode()))

    async def _ready(self, entry: Entry) -> None:
        offset = entry.event.message.offset
        if self.troubles.get(offset):
            raise self.troubles[offset].pop()
        if offset in self.gates:
            await self.gates[offset].wait()

    async def _handle(self, entry: Entry) -> None:
        offset = entry.event.message.offset
        if offset in self.handling:
            await self.handling[offset].wait()
        self.handled.append(offset)

    async def _give_up(self, *_: object) -> None:
        raise AssertionError("nothing is given up")

    def _forgotten(self) -> None:
        self.forgets += 1


async def test_who_waits_holds_no_place_and_keeps_its_own_user_in_order() -> None:
    stage = Stage(concurrency=1)
    gate = stage.gate(0)
    for offset, key in enumerate(("a", "a", "b", "c")):
        await stage.submit(offset, key)
    await eventually(lambda: len(stage.handled) == 2)
    await settled()
    assert stage.handled == [2, 3]
    assert stage.lanes.running == 2
    assert stage.source.acked[0] == []
    gate.set()
    await eventually(lambda: stage.lanes.running == 0)
    assert stage.handled == [2, 3, 0, 1]
    assert stage.source.acked[0] == [0, 1, 2, 3]


async def test_what_goes_wrong_while_waiting_is_waited_out() -> None:
    stage = Stage()
    stage.troubles[0] = [DependencyDown("away")] * 3
    await stage.submit(0, "a")
    await eventually(lambda: stage.source.acked[0] == [0])
    assert stage.handled == [0]


async def test_a_drain_forgets_who_waits_once_nothing_else_runs() -> None:
    stage = Stage(concurrency=2)
    stage.gate(1)
    running = stage.handling[0] = asyncio.Event()
    for offset, key in enumerate(("a", "b", "b")):
        await stage.submit(offset, key)
    await settled()
    stage.lanes.begin_drain()
    await settled()
    assert (stage.lanes.running, len(stage.lanes.ledger)) == (3, 3)
    running.set()
    await eventually(lambda: stage.lanes.running == 0)
    assert stage.source.acked[0] == [0]
    assert len(stage.lanes.ledger) == 0
    assert stage.forgets == 1
    assert stage.handled == [0]
    await settled()
    assert [task for task in asyncio.all_tasks() if task.get_name() == "stage lane"] == []


@pytest.mark.parametrize("begun_before", [True, False])
async def test_a_drain_forgets_at_once_where_everybody_waits(begun_before: bool) -> None:
    stage = Stage()
    stage.gate(0)
    await stage.submit(0, "a")
    if begun_before:
        await settled()
    stage.lanes.begin_drain()
    await eventually(lambda: stage.lanes.running == 0)
    assert len(stage.lanes.ledger) == 0
    assert stage.source.acked[0] == []


async def test_a_drain_finishes_what_is_ready() -> None:
    stage = Stage()
    running = stage.handling[0] = asyncio.Event()
    for offset in range(3):
        await stage.submit(offset, "a")
    await settled()
    stage.lanes.begin_drain()
    running.set()
    await eventually(lambda: stage.lanes.running == 0)
    assert stage.handled == [0, 1, 2]
    assert stage.source.acked[0] == [0, 1, 2]


async def test_after_a_drain_who_waited_waits_again() -> None:
    stage = Stage()
    gate = stage.gate(0)
    await stage.submit(0, "a")
    stage.lanes.begin_drain()
    await eventually(lambda: stage.lanes.running == 0)
    stage.lanes.abandon()
    stage.lanes.resume()
    await stage.submit(0, "a")
    await settled()
    assert stage.lanes.running == 1
    gate.set()
    await eventually(lambda: stage.source.acked[0] == [0])
    assert stage.handled == [0]
