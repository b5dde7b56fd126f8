"""`Windows` and the horizon: whatever happens, no window reaches back further than it may."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from streams.windows import Closed, WindowPolicy, Windows

USERS = {f"u{number}".encode(): number % 2 for number in range(6)}
"""Users and their partitions."""


def itself(offset: int) -> int:
    return offset


def windows(**policy) -> Windows[int]:
    return Windows(WindowPolicy(**({"tokens": 10_000, "messages": 10_000, "horizon": 3} | policy)))


def add(found: Windows[int], key: bytes, offset: int, partition: int = 0) -> list[tuple[bytes, list[int], str]]:
    closed = found.add(key, offset, tokens=1, session=None, now=0.0, partition=partition)
    return brief([*closed, *found.beyond_horizon(partition, offset, itself)])


def brief(closed: Iterable[Closed[int]]) -> list[tuple[bytes, list[int], str]]:
    return [(window.key, window.items, window.trigger) for window in closed]


def test_a_window_closes_when_its_first_message_lies_beyond_the_horizon() -> None:
    found = windows(horizon=3)
    assert [add(found, b"a", offset) for offset in (0, 1, 2, 3)] == [[], [], [], []]
    assert add(found, b"b", 4) == [(b"a", [0, 1, 2, 3], "horizon")]


def test_the_oldest_close_first_and_no_more_than_must() -> None:
    found = windows(horizon=3)
    for offset, key in enumerate((b"c", b"a", b"b", b"c")):
        add(found, key, offset)
    assert brief(found.beyond_horizon(0, 5, itself)) == [(b"c", [0, 3], "horizon"), (b"a", [1], "horizon")]
    assert b"b" in found


def test_a_window_that_has_closed_begins_anew() -> None:
    found = windows(horizon=3)
    add(found, b"a", 0)
    add(found, b"b", 1)
    found.close(b"a", "flush")
    add(found, b"a", 3)
    assert brief(found.beyond_horizon(0, 5, itself)) == [(b"b", [1], "horizon")]


def test_a_partition_is_not_closed_for_another() -> None:
    found = windows(horizon=3)
    add(found, b"a", 0, partition=0)
    assert add(found, b"b", 1_000, partition=1) == []
    assert brief(found.beyond_horizon(2, 1_000, itself)) == []


def test_gaps_count_as_what_lies_between() -> None:
    """Records of the partition that enter no window are read again as well."""
    found = windows(horizon=3)
    add(found, b"a", 0)
    assert add(found, b"a", 50) == [(b"a", [0, 50], "horizon")]


def test_what_is_forgotten_has_no_horizon() -> None:
    found = windows(horizon=3)
    add(found, b"a", 0)
    found.clear()
    assert found.oldest(0) is None
    assert brief(found.beyond_horizon(0, 1_000, itself)) == []


class Horizon(RuleBasedStateMachine):
    """Records of two partitions, some of which enter windows, beside timers, control events and lost partitions."""

    @initialize(
        horizon=st.integers(1, 8), tokens=st.integers(3, 30), messages=st.integers(1, 6), by_session=st.booleans()
    )
    def start(self, horizon: int, tokens: int, messages: int, by_session: bool) -> None:
        self.policy = WindowPolicy(
            tokens=tokens, messages=messages, idle=20.0, age=50.0, by_session=by_session, horizon=horizon
        )
        self.windows: Windows[int] = Windows(self.policy)
        self.now = 0.0
        self.ends = [0, 0]
        self.open: dict[bytes, list[int]] = {}

    @rule(user=st.sampled_from(sorted(USERS)), tokens=st.integers(0, 12), session=st.sampled_from([None, "s"]))
    def message(self, user: bytes, tokens: int, session: str | None) -> None:
        partition = USERS[user]
        offset = self.ends[partition]
        waiting = [*self.open.pop(user, []), offset]
        for window in self.windows.add(user, offset, tokens=tokens, session=session, now=self.now, partition=partition):
            assert window.trigger in {"tokens", "messages", "session"}
            assert window.items == waiting[: len(window.items)]
            del waiting[: len(window.items)]
        if waiting:
            self.open[user] = waiting
        self.read_on(partition)

    @rule(partition=st.integers(0, 1), records=st.integers(1, 5))
    def records_without_a_window(self, partition: int, records: int) -> None:
        for _ in range(records):
            self.read_on(partition)

    def read_on(self, partition: int) -> None:
        """Read the next record of a partition: the oldest windows close until the rest may stay."""
        offset = self.ends[partition]
        self.ends[partition] += 1
        for window in self.windows.beyond_horizon(partition, offset, itself):
            mine = {key: items for key, items in self.open.items() if USERS[key] == partition}
            assert window.trigger == "horizon"
            assert window.key == min(mine, key=lambda key: mine[key][0]), "an older one stays open"
            assert offset - window.items[0] > self.policy.horizon, "it could have stayed open"
            self.leaves(window)

    def leaves(self, window: Closed[int]) -> None:
        assert window.items == self.open.pop(window.key)

    @rule(seconds=st.integers(1, 30))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        for window in self.windows.due(self.now):
            assert window.trigger in {"idle", "age"}
            self.leaves(window)

    @rule(user=st.sampled_from(sorted(USERS)))
    def flush(self, user: bytes) -> None:
        for window in self.windows.close(user, "flush"):
            self.leaves(window)

    @rule()
    def shutdown(self) -> None:
        for window in self.windows.close_all("shutdown"):
            self.leaves(window)
        assert self.open == {}

    @rule()
    def partitions_are_lost(self) -> None:
        self.windows.clear()
        self.open.clear()

    @invariant()
    def no_window_reaches_back_beyond_the_horizon(self) -> None:
        for partition, end in enumerate(self.ends):
            firsts = [items[0] for key, items in self.open.items() if USERS[key] == partition]
            assert all(end - 1 - first <= self.policy.horizon for first in firsts)
            held = sum(len(items) for key, items in self.open.items() if USERS[key] == partition)
            assert held <= self.policy.horizon + 1
            oldest = self.windows.oldest(partition)
            assert (oldest.items[0] if oldest else None) == min(firsts, default=None)

    @invariant()
    def what_is_open_is_what_was_added(self) -> None:
        assert {user: list(self.windows.items_of(user)) for user in USERS if user in self.windows} == self.open
        assert self.windows.items == sum(map(len, self.open.values()))
        assert len(self.windows) == len(self.open)


Horizon.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestHorizon = Horizon.TestCase
