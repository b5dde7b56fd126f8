"""`Drain`: as long as it gets on; then what waits is parked; then what is left is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from streams.draining import Drain
from streams.errors import DependencyDown
from streams.lanes import KeyedLanes
from streams.ledger import Entry
from tests.support.fakes import FakeSource


class Work:
    """A stage whose service is away, and a drain that waits for its records."""

    def __init__(self, patience: float = 0.3) -> None:
        self.source = FakeSource()
        self.parked = 0
        self.steps = 0
        self.lanes = KeyedLanes("stage", self.source, handler=self._handle, give_up=self._give_up)
        self.lanes.resume()
        self.drain = Drain([self.lanes], lambda: (self.steps, self.lanes.ended), patience, lambda: self.lanes.running)

    async def _handle(self, entry: Entry) -> None:
        raise DependencyDown("away")

    async def _give_up(self, *_: object) -> None:
        self.parked += 1

    async def submit(self, *keys: bytes) -> None:
        for offset, key in enumerate(keys):
            await self.lanes.submit(self.source.event(offset, key=key))

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await asyncio.sleep(0.01)


async def test_what_moves_is_waited_for_beyond_the_patience() -> None:
    work = Work(patience=1.0)

    async def slow() -> None:
        for _ in range(15):
            await asyncio.sleep(0.1)
            work.steps += 1

    assert await work.drain.until_done(slow())
    assert work.steps == 15
    assert work.parked == 0


async def test_what_stands_still_is_parked_and_the_drain_is_complete() -> None:
    work = Work()
    await work.submit(b"a", b"a", b"b")
    assert await work.drain.until_done(work.until(lambda: work.lanes.running == 0))
    assert work.drain.parked == work.parked == 3


async def test_what_no_parking_helps_is_left() -> None:
    work = Work()
    ended = False

    async def never() -> None:
        nonlocal ended
        try:
            await asyncio.Event().wait()
        finally:
            ended = True

    await work.submit(b"a")
    assert not await work.drain.until_done(never())
    assert ended
    assert work.parked == 1


async def test_nothing_that_waits_in_a_stage_means_one_wait() -> None:
    work = Work()
    assert not await work.drain.until_done(work.until(lambda: False))
    assert not work.lanes.stopped
