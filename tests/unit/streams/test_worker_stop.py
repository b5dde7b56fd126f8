"""`Worker.stop`: a worker is awake until its applications have stopped."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from streams.app import Worker


class Stopping:
    """An application that stops when the test lets it."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.begun = asyncio.Event()
        self.end = asyncio.Event()

    async def stop(self) -> None:
        self.begun.set()
        await self.end.wait()
        if self.failure is not None:
            raise self.failure


def stopping(app: Stopping) -> Any:
    """Return a worker of which only how it stops is real."""
    worker: Any = Worker.__new__(Worker)
    worker._pipeline = worker._archive = worker._index = SimpleNamespace(app=app)
    worker.window = SimpleNamespace(signalled=0, spared=0)
    worker._beating = asyncio.create_task(asyncio.Event().wait())
    return worker


async def test_it_says_that_it_is_awake_until_everything_has_stopped() -> None:
    app = Stopping()
    worker = stopping(app)
    stop = asyncio.create_task(worker.stop())
    await asyncio.wait_for(app.begun.wait(), 10)
    await asyncio.sleep(0)
    assert not worker._beating.cancelling()
    app.end.set()
    await asyncio.wait_for(stop, 10)
    assert worker._beating.cancelling()


async def test_it_does_not_beat_on_after_a_stop_that_failed() -> None:
    app = Stopping(OSError("broken"))
    app.end.set()
    worker = stopping(app)
    with pytest.raises(OSError, match="broken"):
        await worker.stop()
    assert worker._beating.cancelling()
