"""`Wakefulness`: a process that has slept too long writes nothing more."""

from __future__ import annotations

import pytest

from streams.errors import DependencyDown
from streams.wakefulness import Suspended, Wakefulness
from tests.support.fakes import ManualClock


class Sleeper:
    def __init__(self, limit: float = 45.0) -> None:
        self.clock = ManualClock()
        self.told: list[Suspended] = []
        self.wakefulness = Wakefulness(limit, self.told.append, self.clock.monotonic)


def test_before_the_first_beat_nothing_is_suspicious() -> None:
    sleeper = Sleeper()
    sleeper.clock.advance(1_000)
    sleeper.wakefulness.check()
    assert sleeper.told == []


def test_a_process_that_is_awake_may_write() -> None:
    sleeper = Sleeper()
    for _ in range(100):
        sleeper.wakefulness.beat()
        sleeper.clock.advance(44)
        sleeper.wakefulness.check()
    assert sleeper.told == []


@pytest.mark.parametrize("first", ["check", "beat"])
def test_a_process_that_has_slept_writes_nothing_more_whoever_notices_first(first: str) -> None:
    sleeper = Sleeper()
    sleeper.wakefulness.beat()
    sleeper.clock.advance(46)
    if first == "beat":
        sleeper.wakefulness.beat()
    for _ in range(2):
        with pytest.raises(DependencyDown, match="suspended for 46 s"):
            sleeper.wakefulness.check()
        sleeper.wakefulness.beat()
        sleeper.clock.advance(1)
    assert [str(error)[:39] for error in sleeper.told] == ["this process was suspended for 46 s: it"]


def test_without_a_limit_sleep_is_harmless() -> None:
    sleeper = Sleeper(float("inf"))
    sleeper.wakefulness.beat()
    sleeper.clock.advance(1e9)
    sleeper.wakefulness.check()
    assert sleeper.told == []
