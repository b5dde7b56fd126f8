"""`Ledger`: acknowledgements leave in offset order, whatever is finished first."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.ledger import Ledger
from streams.records import TopicPartition
from tests.support.fakes import FakeSource


@pytest.fixture
def source() -> FakeSource:
    return FakeSource()


def test_a_finished_record_waits_for_every_earlier_one_of_its_partition(source: FakeSource) -> None:
    ledger = Ledger()
    first, second, third = (ledger.open(source.event(offset)) for offset in (3, 4, 7))
    ledger.close(second)
    ledger.close(third)
    assert source.acked == {}
    assert len(ledger) == 3
    ledger.close(first)
    assert source.acked == {0: [3, 4, 7]}
    assert len(ledger) == 0
    assert ledger.positions() == {TopicPartition("in", 0): 8}
    assert ledger.opened == 3


def test_only_the_finished_head_is_acknowledged(source: FakeSource) -> None:
    ledger = Ledger()
    entries = [ledger.open(source.event(offset)) for offset in range(4)]
    for index in (1, 0, 3):
        ledger.close(entries[index])
    assert source.acked == {0: [0, 1]}
    assert ledger.positions() == {TopicPartition("in", 0): 2}


def test_partitions_and_topics_do_not_wait_for_each_other(source: FakeSource) -> None:
    ledger = Ledger()
    ledger.open(source.event(0, partition=0))
    other_partition = ledger.open(source.event(10, partition=1))
    other_topic = ledger.open(source.event(20, partition=0, topic="other"))
    ledger.close(other_partition)
    ledger.close(other_topic)
    assert source.acked == {1: [10], 0: [20]}
    assert ledger.positions() == {
        TopicPartition("in", 0): 0,
        TopicPartition("in", 1): 11,
        TopicPartition("other", 0): 21,
    }


def test_abandoned_records_are_forgotten_and_never_acknowledged(source: FakeSource) -> None:
    ledger = Ledger()
    first, second = (ledger.open(source.event(offset)) for offset in range(2))
    ledger.close(second)
    ledger.abandon()
    assert len(ledger) == 0
    ledger.close(first)
    assert source.acked == {}


def test_a_late_record_of_an_earlier_epoch_does_not_touch_the_same_offset_read_again(source: FakeSource) -> None:
    ledger = Ledger()
    stale = ledger.open(source.event(5))
    ledger.abandon()
    fresh = ledger.open(source.event(5))
    ledger.close(stale)
    assert source.acked == {}
    assert not fresh.done
    ledger.close(fresh)
    assert source.acked == {0: [5]}


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=40).flatmap(
        lambda partitions: st.tuples(st.just(partitions), st.permutations(range(len(partitions))))
    )
)
def test_in_any_order_of_finishing_what_is_acknowledged_is_a_prefix(
    scenario: tuple[list[int], list[int]],
) -> None:
    partitions, order = scenario
    source = FakeSource()
    ledger = Ledger()
    entries = [ledger.open(source.event(offset, partition=p)) for offset, p in enumerate(partitions)]
    offsets = defaultdict(list)
    for offset, partition in enumerate(partitions):
        offsets[partition].append(offset)
    closed: set[int] = set()
    for index in order:
        ledger.close(entries[index])
        closed.add(index)
        for partition, everything in offsets.items():
            expected = []
            for offset in everything:
                if offset not in closed:
                    break
                expected.append(offset)
            assert source.acked[partition] == expected
    assert len(ledger) == 0
