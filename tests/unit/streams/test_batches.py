"""`BatchLane`: batches by size and time, the same batch until it is taken, acknowledged only then."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest

from streams.batches import BatchLane
from streams.errors import DependencyDown
from streams.ledger import Entry
from tests.support.fakes import INSTANT, FakeSource, RecordedBackoff, eventually, settled, stream_of

HOUR = 3600.0


class Store:
    """A lane into a store that takes, refuses or keeps waiting."""

    def __init__(
        self,
        max_records: int = 3,
        max_seconds: float = HOUR,
        gather: float = HOUR,
        backoff=INSTANT,
        contiguous: bool = True,
    ) -> None:
        self.source = FakeSource()
        self.tries: list[list[int]] = []
        self.written: list[list[int]] = []
        self.acked_at_write: list[list[int]] = []
        self.faults: list[Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.lane = BatchLane(
            "store",
            self.source,
            write=self._write,
            max_records=max_records,
            max_seconds=max_seconds,
            gather=gather,
            backoff=backoff,
            contiguous=contiguous,
        )
        self.lane.resume()

    async def _write(self, batch: Sequence[Entry]) -> None:
        offsets = [entry.event.message.offset for entry in batch]
        self.tries.append(offsets)
        self.acked_at_write.append(list(self.acked))
        await self.gate.wait()
        if self.faults:
            raise self.faults.pop(0)
        self.written.append(offsets)

    async def submit(self, *offsets: int) -> None:
        for offset in offsets:
            await self.lane.submit(self.source.event(offset, key=f"user {offset % 2}".encode()))

    @property
    def acked(self) -> list[int]:
        return self.source.acked[0]


async def test_a_full_batch_is_written_at_once_in_order_and_then_acknowledged() -> None:
    store = Store(max_records=3)
    await store.submit(0, 1)
    await settled()
    assert store.tries == []
    await store.submit(2)
    await eventually(lambda: store.acked)
    assert store.written == [[0, 1, 2]]
    assert store.acked_at_write == [[]]
    assert store.acked == [0, 1, 2]


@pytest.mark.parametrize("contiguous", [True, False])
async def test_a_gap_ends_the_process_only_where_no_record_is_ever_deleted(contiguous: bool) -> None:
    store = Store(max_records=2, contiguous=contiguous)
    await store.submit(0, 7)
    await settled()
    assert (store.written, len(store.source.crashes)) == ([], 1) if contiguous else ([[0, 7]], 0)


async def test_a_batch_that_does_not_fill_is_written_when_its_time_is_up() -> None:
    store = Store(max_records=100, max_seconds=0.01)
    await store.submit(0, 1)
    await eventually(lambda: store.acked == [0, 1])
    assert store.written == [[0, 1]]


async def test_what_comes_after_a_pause_waits_only_for_what_came_with_it() -> None:
    store = Store(max_records=100, gather=0.01)
    await store.submit(0, 1)
    await eventually(lambda: store.written == [[0, 1]])


async def test_of_records_that_keep_coming_writes_begin_as_far_apart_as_they_may() -> None:
    store = Store(max_records=100, gather=0.0, max_seconds=0.2)
    began: list[float] = []
    write = store.lane._write

    async def timed(batch: Sequence[Entry]) -> None:
        began.append(asyncio.get_running_loop().time())
        await write(batch)

    store.lane._write = timed
    for offset in range(3):
        await store.submit(offset)
        await eventually(lambda written=offset + 1: len(store.written) == written)
    assert [later - earlier > 0.19 for earlier, later in pairwise(began)] == [True, True]


async def test_after_a_pause_as_long_as_that_nothing_of_it_is_left_to_wait_for() -> None:
    store = Store(max_records=100, gather=0.0)
    store.lane._began = asyncio.get_running_loop().time() - HOUR
    await store.submit(0)
    await eventually(lambda: store.written == [[0]])


async def test_more_than_one_batch_goes_out_in_order_one_at_a_time() -> None:
    store = Store(max_records=2, max_seconds=0.01)
    store.gate.clear()
    await store.submit(0, 1)
    await eventually(lambda: store.tries)
    await store.submit(2, 3, 4)
    await settled()
    assert store.tries == [[0, 1]]
    store.gate.set()
    await eventually(lambda: len(store.acked) == 5)
    assert store.written == [[0, 1], [2, 3], [4]]
    assert store.acked == [0, 1, 2, 3, 4]


async def test_the_same_batch_is_written_again_until_it_is_taken() -> None:
    backoff = RecordedBackoff()
    store = Store(max_records=2, backoff=backoff)
    store.faults = [DependencyDown("down"), DependencyDown("down", retry_after=8.0), ValueError("surprise")]
    await store.submit(0, 1, 2)
    await eventually(lambda: store.written)
    assert store.tries[:4] == [[0, 1]] * 4
    assert store.acked_at_write[:4] == [[]] * 4
    assert backoff.asked == [(1, None), (2, 8.0), (3, None)]
    assert store.acked == [0, 1]


async def test_the_stream_is_not_read_while_two_batches_wait() -> None:
    store = Store(max_records=2)
    store.gate.clear()
    reading = asyncio.create_task(store.lane.consume(stream_of([store.source.event(n) for n in range(10)])))
    await eventually(lambda: store.lane.running == 6)
    await settled()
    assert store.lane.running == 6
    store.gate.set()
    await reading
    await eventually(lambda: len(store.acked) == 10)
    assert store.written == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


async def test_a_drain_writes_what_was_taken_without_waiting_for_more() -> None:
    store = Store(max_records=100)
    await store.submit(0, 1)
    await settled()
    store.lane.begin_drain()
    await store.submit(2)
    assert len(store.lane.ledger) == 2, "a record that comes during a drain is not taken"
    await eventually(lambda: store.acked == [0, 1])
    await settled()
    assert store.lane.running == 0


async def test_a_drain_during_a_write_writes_the_rest_too() -> None:
    store = Store(max_records=2)
    store.gate.clear()
    await store.submit(0, 1, 2)
    await eventually(lambda: store.tries)
    store.lane.begin_drain()
    store.gate.set()
    await eventually(lambda: store.acked == [0, 1, 2])
    assert store.written == [[0, 1], [2]]


async def test_abandoning_cancels_the_write_and_forgets_everything() -> None:
    store = Store(max_records=2)
    store.gate.clear()
    await store.submit(0, 1, 2)
    await eventually(lambda: store.tries)
    store.lane.abandon()
    store.gate.set()
    await settled()
    assert store.written == []
    assert store.acked == []
    assert len(store.lane.ledger) == 0
    assert store.lane.running == 0


@pytest.mark.parametrize("drained", [False, True])
async def test_after_a_rebalance_batches_wait_for_more_again(drained: bool) -> None:
    store = Store(max_records=2)
    await store.submit(0)
    if drained:
        store.lane.begin_drain()
        await eventually(lambda: store.acked == [0])
    store.lane.abandon()
    store.lane.resume()
    store.tries.clear()
    await store.submit(5)
    await settled()
    assert store.tries == []
    await store.submit(6)
    await eventually(lambda: store.tries == [[5, 6]])


async def test_abandoning_before_the_first_turn_leaves_nothing_behind() -> None:
    store = Store(max_records=2)
    await store.submit(0, 1)
    store.lane.abandon()
    await settled()
    await store.submit(0)
    await settled()
    assert store.tries == []
    await store.submit(1)
    await eventually(lambda: store.acked == [0, 1])
    assert store.tries == [[0, 1]]
