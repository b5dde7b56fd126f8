"""`Outstanding`: waiting until everything that was emitted has arrived."""

from __future__ import annotations

import asyncio

from schemas.deltas import FlushEvent, Timings
from schemas.flushes import FlushRef
from schemas.ids import event_id
from streams.outstanding import OpenFlushes, Outstanding
from tests.support.fakes import settled
from tests.support.records import CLOSED, flush_ref


async def test_nothing_outstanding_is_not_waited_for() -> None:
    await Outstanding().wait_empty()


async def test_the_last_arrival_ends_the_wait() -> None:
    outstanding = Outstanding()
    outstanding.add(["a", "b"])
    outstanding.add(["b", "c"])
    assert len(outstanding) == 3
    waiting = asyncio.create_task(outstanding.wait_empty())
    outstanding.remove(["a", "b"])
    await settled()
    assert not waiting.done()
    outstanding.remove(["c"])
    await waiting
    assert len(outstanding) == 0


async def test_names_that_were_never_added_are_ignored() -> None:
    outstanding = Outstanding()
    outstanding.remove(["x"])
    outstanding.add(["a"])
    outstanding.remove(["x"])
    assert len(outstanding) == 1


async def test_adding_nothing_leaves_nothing_to_wait_for() -> None:
    outstanding = Outstanding()
    outstanding.add([])
    await outstanding.wait_empty()


async def test_what_was_empty_is_waited_for_again() -> None:
    outstanding = Outstanding()
    outstanding.add(["a"])
    outstanding.remove(["a"])
    outstanding.add(["b"])
    waiting = asyncio.create_task(outstanding.wait_empty())
    await settled()
    assert not waiting.done()
    outstanding.remove(["b"])
    await waiting


def ended(ref: FlushRef) -> FlushEvent:
    return FlushEvent(
        event_id=event_id(ref.flush_id),
        flush=ref,
        outcome="forgotten" if ref.lane == "forget" else "applied",
        memo=(),
        tags=(),
        messages=(),
        delta_ids=(),
        first_version=None,
        last_version=None,
        calls=(),
        dropped=(),
        errors={},
        timings=Timings(),
        recorded_at=CLOSED,
        processor="rules",
        pipeline_version="p1",
    )


def test_a_flush_is_outstanding_until_each_store_has_its_end() -> None:
    outstanding = Outstanding()
    stores = [OpenFlushes(name, outstanding) for name in ("archive", "index")]
    ref = flush_ref()
    for flushes in stores:
        flushes.add(ref)
    assert len(outstanding) == 2
    stores[0].ended([ended(ref)])
    stores[0].ended([ended(ref)])
    assert len(outstanding) == 1
    stores[1].ended([ended(ref)])
    assert len(outstanding) == 0


def test_the_flushes_before_it_end_with_the_one_that_forgets_their_user() -> None:
    outstanding = Outstanding()
    flushes = OpenFlushes("index", outstanding)
    before, forgets, after = flush_ref(0, 2), flush_ref(3, 3, lane="forget"), flush_ref(4, 5)
    other = flush_ref(1, 2, user_id="bob", flush_id="of bob")
    for ref in (before, other, forgets, after):
        flushes.add(ref)
    flushes.ended([ended(forgets)])
    assert len(outstanding) == 2
    flushes.ended([ended(other), ended(after)])
    assert len(outstanding) == 0
