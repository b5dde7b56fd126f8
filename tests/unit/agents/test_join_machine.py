"""`Join` as a state machine: answers in any order, twice, of several attempts, and flushes that end meanwhile."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from agents.join import Join
from schemas.flushes import FlushRef
from schemas.stages import Candidates
from streams.ledger import Entry
from tests.support.fakes import FakeSource
from tests.support.records import flush_ref

FIRST = flush_ref(0, 2)
FLUSHES = (
    FIRST,
    flush_ref(3, 4),
    flush_ref(3, 3, lane="facts"),
    flush_ref(5, 5, lane="forget"),
    replace(FIRST, redrive=1, only=("extract", "tag")),
    replace(FIRST, redrive=1, only=("domain",)),
    replace(FIRST, redrive=2, only=("extract", "tag")),
)


class Joining(RuleBasedStateMachine):
    """The merge's view of the candidates topic."""

    @initialize()
    def start(self) -> None:
        self.join = Join()
        self.source = FakeSource()
        self.offset = 0
        self.waiting: dict[FlushRef, dict[str, tuple[Entry, Candidates]]] = {}

    @rule(flush=st.sampled_from(FLUSHES), data=st.data())
    def answer(self, flush: FlushRef, data: st.DataObject) -> None:
        branch = data.draw(st.sampled_from(flush.branches))
        answer = Candidates(flush=flush, branch=branch, status="empty", error=f"{self.offset}")
        entry = Entry(self.source.event(self.offset), epoch=0)
        self.offset += 1
        expected = self.waiting.setdefault(flush, {})
        expected.setdefault(branch, (entry, answer))
        parts = self.join.add(entry, answer)
        assert (parts is not None) == (set(expected) == set(flush.branches))
        assert self.join.holds(entry, answer) == (expected[branch][0] is entry)
        if parts is not None:
            assert parts.flush == flush
            assert parts.answers == {name: first for name, (_, first) in expected.items()}
            assert all(parts.entries[name] is first for name, (first, _) in expected.items())

    @rule(flush=st.sampled_from(FLUSHES))
    def ends(self, flush: FlushRef) -> None:
        taken = self.join.take(flush)
        assert [id(entry) for entry in taken] == [id(entry) for entry, _ in self.waiting.pop(flush, {}).values()]

    @rule()
    def partitions_are_lost(self) -> None:
        self.join.clear()
        self.waiting.clear()

    @invariant()
    def nothing_else_is_kept(self) -> None:
        assert len(self.join) == len(self.waiting)


Joining.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestJoining = Joining.TestCase
