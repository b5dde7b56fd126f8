"""`Outstanding`: waiting until everything that was emitted has arrived."""

from __future__ import annotations

import asyncio

from streams.outstanding import Outstanding
from tests.support.fakes import settled


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
