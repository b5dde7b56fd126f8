"""`Ledger` as a state machine: records that are read, read twice, finished in any order and taken away again."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from streams.ledger import Entry, Ledger, OutOfOrder
from streams.records import TopicPartition
from tests.support.fakes import FakeSource

PARTITIONS = st.integers(0, 1)


class Reading(RuleBasedStateMachine):
    """Two partitions whose records are delivered as Faust may: again, from the committed offset, or with a gap."""

    entries = Bundle("entries")

    @initialize(contiguous=st.booleans())
    def start(self, contiguous: bool) -> None:
        self.source = FakeSource()
        self.contiguous = contiguous
        self.ledger = Ledger(contiguous=contiguous)
        self.position = [0, 0]
        self.taken_from: list[int | None] = [None, None]
        self.open: list[dict[int, bool]] = [{}, {}]
        self.committed = [0, 0]

    @rule(target=entries, partition=PARTITIONS)
    def next_record(self, partition: int) -> Entry:
        event = self.source.event(self.position[partition], partition=partition)
        assert not self.ledger.has_taken(event)
        if self.taken_from[partition] is None:
            self.taken_from[partition] = self.position[partition]
        self.open[partition][self.position[partition]] = False
        self.position[partition] += 1
        return self.ledger.open(event)

    @rule(partition=PARTITIONS, back=st.integers(1, 4))
    def delivered_again(self, partition: int, back: int) -> None:
        offset = self.position[partition] - back
        first = self.taken_from[partition]
        if first is None or offset < 0:
            return
        event = self.source.event(offset, partition=partition)
        if offset >= first:
            assert self.ledger.has_taken(event)
        else:
            assert self.refuses(event)

    @rule(partition=PARTITIONS, gap=st.integers(1, 3))
    def delivered_too_early(self, partition: int, gap: int) -> None:
        event = self.source.event(self.position[partition] + gap, partition=partition)
        if self.contiguous and self.taken_from[partition] is not None:
            assert self.refuses(event)
        else:
            assert not self.ledger.has_taken(event)

    def refuses(self, event) -> bool:
        try:
            self.ledger.has_taken(event)
        except OutOfOrder:
            return True
        return False

    @rule(entry=entries)
    def finish(self, entry: Entry) -> None:
        if entry.done:
            return
        self.ledger.close(entry)
        partition, offset = entry.event.message.partition, entry.event.message.offset
        if entry.epoch != self.ledger.epoch:
            return
        self.open[partition][offset] = True
        while self.open[partition] and next(iter(self.open[partition].values())):
            first = next(iter(self.open[partition]))
            del self.open[partition][first]
            self.committed[partition] = first + 1

    @rule()
    def rebalance(self) -> None:
        """Everything is given up; whoever goes on begins at the committed offsets."""
        self.ledger.abandon()
        assert len(self.ledger) == 0
        self.source.acked.clear()
        self.position = list(self.committed)
        self.taken_from = [None, None]
        self.open = [{}, {}]

    @invariant()
    def what_is_acknowledged_is_what_is_finished_without_a_gap(self) -> None:
        for partition in (0, 1):
            acked = self.source.acked[partition]
            assert acked == list(range(self.committed[partition] - len(acked), self.committed[partition]))
        assert len(self.ledger) == sum(map(len, self.open))
        assert self.ledger.positions() == {
            TopicPartition("in", partition): next(iter(records), self.position[partition])
            for partition, records in enumerate(self.open)
            if self.taken_from[partition] is not None
        }


Reading.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestReading = Reading.TestCase
