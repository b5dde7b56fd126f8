"""`Lifecycle`: drain within a limit, give up what is left, start afresh."""

from __future__ import annotations

import asyncio

import pytest

from streams.lifecycle import Lifecycle
from tests.support.fakes import eventually, settled


class Part:
    """A participant that notes what it is told."""

    def __init__(self, running: int = 0) -> None:
        self.told: list[str] = []
        self.running = running

    def begin_drain(self) -> None:
        self.told.append("drain")

    def abandon(self) -> None:
        self.told.append("abandon")
        self.running = 0

    def resume(self) -> None:
        self.told.append("resume")


def lifecycle(*parts: Part, seconds: float = 60.0) -> Lifecycle:
    found = Lifecycle(seconds)
    for part in parts:
        found.register(part)
    return found


async def test_a_drain_that_ends_in_time_is_followed_by_a_fresh_start() -> None:
    first, second = Part(), Part()
    found = lifecycle(first, second)
    found.begin_drain()
    await settled()
    assert first.told == second.told == ["drain"]
    found.resume()
    assert first.told == second.told == ["drain", "abandon", "resume"]


async def test_what_still_runs_at_the_deadline_is_given_up_and_said(caplog: pytest.LogCaptureFixture) -> None:
    busy, idle = Part(running=2), Part()
    lifecycle(busy, idle, seconds=0.01).begin_drain()
    await eventually(lambda: "abandon" in busy.told)
    assert busy.told == idle.told == ["drain", "abandon"]
    assert "2 records were still being processed after 0 s" in caplog.text


async def test_what_a_log_that_is_not_kept_loses_is_said(caplog: pytest.LogCaptureFixture) -> None:
    found = lifecycle(part := Part(running=2), seconds=0.01)
    found.log_is_kept = False
    found.begin_drain()
    await eventually(lambda: "abandon" in part.told)
    assert "given up here and lost" in caplog.text


async def test_a_deadline_with_nothing_running_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    part = Part()
    lifecycle(part, seconds=0.01).begin_drain()
    await eventually(lambda: "abandon" in part.told)
    assert caplog.text == ""


@pytest.mark.parametrize("end", ["resume", "close"])
async def test_no_deadline_is_left_after_the_drain(end: str) -> None:
    part = Part()
    found = lifecycle(part, seconds=0.01)
    found.begin_drain()
    found.begin_drain()
    getattr(found, end)()
    told = list(part.told)
    after = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, after.set)
    await after.wait()
    assert part.told == told


async def test_a_second_drain_does_not_postpone_the_deadline() -> None:
    part = Part(running=1)
    found = lifecycle(part, seconds=0.02)
    loop = asyncio.get_running_loop()
    began = loop.time()
    found.begin_drain()
    for wait in (0.005, 0.01, 0.015):
        loop.call_at(began + wait, found.begin_drain)
    await eventually(lambda: "abandon" in part.told)
    assert part.told.index("abandon") <= 4
    assert part.told.count("abandon") == 1


async def test_a_later_drain_has_a_deadline_of_its_own() -> None:
    part = Part(running=1)
    found = lifecycle(part, seconds=0.01)
    found.begin_drain()
    await eventually(lambda: part.told.count("abandon") == 1)
    found.resume()
    part.told.clear()
    found.begin_drain()
    await eventually(lambda: part.told == ["drain", "abandon"])


async def test_closing_forgets_everything_and_does_not_start_again() -> None:
    part = Part()
    lifecycle(part).close()
    assert part.told == ["abandon"]


async def test_drained_waits_until_nothing_runs() -> None:
    busy, idle = Part(running=2), Part()
    found = lifecycle(busy, idle)
    found.begin_drain()
    waiting = asyncio.create_task(found.drained())
    await settled()
    assert not waiting.done()
    busy.running = 0
    await waiting
    assert busy.told == ["drain"]


async def test_drained_waits_no_longer_than_the_drain_may_take() -> None:
    class Stubborn(Part):
        def abandon(self) -> None:
            self.told.append("abandon")

    stubborn = Stubborn(running=1)
    found = lifecycle(stubborn, seconds=0.01)
    found.begin_drain()
    await found.drained()
    assert stubborn.told == ["drain", "abandon"]


async def test_nothing_is_drained_before_a_drain() -> None:
    await lifecycle(Part(running=1)).drained()
