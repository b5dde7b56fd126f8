"""`agents.moved`: where a message was first, as its header says, and which copies have been seen."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agents.moved import MOVED_HEADER, Origin, merged, origin_of
from schemas.codec import decode, encode
from schemas.windows import WindowState

ORIGINS = st.builds(Origin, st.text(min_size=1), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))


@given(ORIGINS)
def test_a_header_says_where_a_message_was(origin: Origin) -> None:
    assert origin_of([("other", b"x"), origin.header()]) == origin


@given(ORIGINS, ORIGINS)
def test_of_several_headers_the_last_one_counts(first: Origin, last: Origin) -> None:
    """Each worker that moves a message adds its own behind."""
    assert origin_of([first.header(), last.header()]) == last


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b":",
        b"::",
        b":0:1",
        b"log:0",
        b"log:0:",
        b"log::1",
        b"log:-1:1",
        b"log:1:+1",
        b"log:1:1 ",
        b"log:1:1\n",
        b"log:1: 1",
        b"log:1:1_0",
        "log:1:\u0661".encode(),
        b"log:1:\xff",
        b"log:0:" + b"9" * 5_000,
        b"log:" + b"9" * 5_000 + b":0",
    ],
)
def test_what_looks_like_such_a_header_is_none(value: bytes | None) -> None:
    assert origin_of([(MOVED_HEADER, value)]) is None


def test_without_the_header_a_message_was_not_moved() -> None:
    assert origin_of([]) is None
    assert origin_of([("other", None)]) is None


@given(st.lists(st.tuples(st.sampled_from([MOVED_HEADER, "other"]), st.none() | st.binary(max_size=40))))
def test_whatever_clients_write_is_a_place_or_none(headers: list[tuple[str, bytes | None]]) -> None:
    origin = origin_of(headers)
    assert origin is None or origin_of([origin.header()]) == origin


def test_a_long_header_takes_no_long_time() -> None:
    started = time.perf_counter()
    for value in (b":" * 1_000_000, b"0:" * 500_000, b"log" * 300_000 + b":0:0:"):
        assert origin_of([(MOVED_HEADER, value)]) is None
    assert time.perf_counter() - started < 1


@given(st.lists(st.none() | ORIGINS), st.lists(st.none() | ORIGINS))
def test_what_was_seen_is_the_same_in_one_go_or_in_two(first: list[Origin | None], second: list[Origin | None]) -> None:
    together = merged({}, [*first, *second])
    assert merged(merged({}, first), second) == together
    assert set(together) == {origin.place for origin in (*first, *second) if origin}
    for origin in filter(None, (*first, *second)):
        assert together[origin.place] >= origin.offset


@given(st.lists(ORIGINS))
def test_what_was_seen_survives_its_record(origins: list[Origin]) -> None:
    state = WindowState(moved=merged({}, origins))
    assert decode(encode(state), WindowState) == state


class Copies(RuleBasedStateMachine):
    """Messages of one user that are moved, again and again, by a worker that dies before it can acknowledge."""

    @initialize()
    def start(self) -> None:
        self.written: dict[int, int] = {0: 0, 1: 0}
        self.acknowledged: dict[int, int] = {0: 0, 1: 0}
        self.reading: dict[int, int] = {0: 0, 1: 0}
        self.seen: dict[str, int] = {}
        self.taken: list[Origin] = []

    @rule(partition=st.integers(0, 1))
    def publish(self, partition: int) -> None:
        self.written[partition] += 1

    @precondition(lambda self: any(self.reading[each] < self.written[each] for each in (0, 1)))
    @rule(partition=st.integers(0, 1), acknowledged=st.booleans())
    def move(self, partition: int, acknowledged: bool) -> None:
        offset = self.reading[partition]
        if offset == self.written[partition]:
            return
        self.reading[partition] += 1
        if acknowledged:
            self.acknowledged[partition] = offset + 1
        origin = origin_of([Origin("log", partition, offset).header()])
        assert origin is not None
        if origin.offset > self.seen.get(origin.place, -1):
            self.taken.append(origin)
            self.seen = merged(self.seen, [origin])

    @rule()
    def die(self) -> None:
        self.reading = dict(self.acknowledged)

    @invariant()
    def each_is_taken_once_and_in_order(self) -> None:
        for partition in (0, 1):
            taken = [origin.offset for origin in self.taken if origin.partition == partition]
            assert taken == list(range(len(taken)))
            assert len(taken) >= self.acknowledged[partition]


TestCopies = Copies.TestCase
