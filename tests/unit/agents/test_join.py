"""`Join`: the answers of a flush, once all of its branches have given one."""

from __future__ import annotations

from itertools import permutations

import pytest

from agents.join import Join
from schemas.stages import Candidates
from streams.ledger import Entry
from tests.support.fakes import FakeSource
from tests.support.records import candidate, described, extracted, flush_ref, found, tagged


def entry(offset: int) -> Entry:
    return Entry(FakeSource().event(offset), epoch=0)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_flush_is_complete_with_its_last_branch(order: tuple[int, ...]) -> None:
    answers = [extracted(candidate("tea")), tagged(), described()]
    entries = [entry(0), entry(1), entry(2)]
    join = Join()
    *earlier, last = order
    for place in earlier:
        assert join.add(entries[place], answers[place]) is None
        assert join.holds(entries[place], answers[place])
    parts = join.add(entries[last], answers[last])
    assert parts is not None
    assert parts.answers == {"extract": answers[0], "tag": answers[1], "domain": answers[2]}
    assert set(map(id, join.take(flush_ref()))) == set(map(id, entries))
    assert len(join) == 0


def test_a_flush_of_lane_facts_is_complete_with_its_only_branch() -> None:
    join = Join()
    only = entry(0)
    parts = join.add(only, found())
    assert parts is not None
    assert (parts.answers, parts.entries, parts.flush) == ({"facts": found()}, {"facts": only}, found().flush)
    assert join.take(found().flush) == (only,)


def test_the_lanes_of_one_message_do_not_mix() -> None:
    join = Join()
    memo = extracted(ref=flush_ref(9, 9))
    assert join.add(entry(0), memo) is None
    parts = join.add(entry(1), found())
    assert parts is not None
    assert list(parts.answers) == ["facts"]
    assert len(join) == 2


def test_the_first_of_two_answers_of_a_branch_stands() -> None:
    join = Join()
    first, repeat = entry(0), entry(1)
    join.add(first, extracted(candidate("tea")))
    assert join.add(repeat, extracted(candidate("coffee"))) is None
    assert join.holds(first, extracted())
    assert not join.holds(repeat, extracted())
    assert join.add(entry(2), tagged()) is None
    parts = join.add(entry(3), described())
    assert parts is not None
    assert parts.answers["extract"].candidates[0].memo == "tea"
    assert parts.entries["extract"] is first


def test_flushes_do_not_mix() -> None:
    join = Join()
    other: Candidates = tagged(ref=flush_ref(3, 4))
    assert join.add(entry(0), extracted()) is None
    assert join.add(entry(1), other) is None
    assert len(join) == 2
    assert len(join.take(other.flush)) == 1
    assert len(join) == 1


def test_a_complete_flush_stays_until_it_is_taken() -> None:
    join = Join()
    last = entry(1)
    join.add(entry(0), extracted())
    join.add(entry(2), described())
    assert join.add(last, tagged()) is join.add(last, tagged())
    assert len(join) == 1


def test_taking_what_is_not_there_gives_nothing() -> None:
    join = Join()
    assert join.take(flush_ref(40, 42)) == ()
    assert not join.holds(entry(0), tagged())
    join.add(entry(0), tagged())
    join.clear()
    assert join.take(flush_ref()) == ()
