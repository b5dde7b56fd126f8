"""The extract stage: what makes a candidate, and what is counted as dropped."""

from __future__ import annotations

import pytest

from agents.extract import MAX_VALUE_CHARACTERS, extract, failed_extraction
from agents.processor import Extraction, StageFailed
from schemas.stages import Candidate, Dropped, Memo, ModelCall
from tests.support.records import candidate, memo

CALL = ModelCall(stage="extract", model="m", outcome="ok")


class Processor:
    def __init__(self, *candidates: Candidate, **fields) -> None:
        self.extraction = Extraction(candidates=candidates, **fields)
        self.asked = 0

    async def extract(self, memo: Memo, known: object) -> Extraction:
        self.asked += 1
        return self.extraction


async def kept(*candidates: Candidate, allowed=None) -> tuple[list[Candidate], list[tuple[str, str]]]:
    found = await extract(memo(), Processor(*candidates), [], allowed)
    return list(found.candidates), [(each.reason, each.detail) for each in found.dropped]


async def test_a_candidate_is_unified_and_keeps_what_it_says() -> None:
    given = candidate(" 绿茶 Tea ", " Interest Area/Hot  Drinks", assertion="inferred", evidence=("m2", "m0", "m2"))
    found = await extract(memo(), Processor(given, calls=(CALL,)), [])
    assert found.candidates == (
        Candidate(
            topic="interest_area",
            sub_topic="hot_drinks",
            memo="绿茶 Tea",
            evidence=("m2", "m0"),
            assertion="inferred",
        ),
    )
    assert (found.flush, found.branch, found.status, found.memo) == (memo().flush, "extract", "ok", memo())
    assert (found.calls, found.dropped, found.tags, found.error) == ((CALL,), (), (), None)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (candidate("tea", " /drinks"), "unnamed_slot"),
        (candidate("tea", "interest/ "), "unnamed_slot"),
        (candidate(" \t"), "empty_value"),
        (candidate("x" * (MAX_VALUE_CHARACTERS + 1)), "value_too_long"),
        (candidate("tea", evidence=()), "no_evidence"),
        (candidate("tea", evidence=("m1",)), "no_evidence"),
        (candidate("tea", evidence=("m9", "1")), "no_evidence"),
    ],
)
async def test_what_is_no_candidate_is_counted(given: Candidate, reason: str) -> None:
    found = await extract(memo(), Processor(given), [])
    assert (found.status, found.candidates) == ("empty", ())
    (dropped,) = found.dropped
    assert (dropped.stage, dropped.reason) == ("extract", reason)
    assert len(dropped.detail) <= 200


async def test_the_longest_value_is_kept() -> None:
    candidates, dropped = await kept(candidate("x" * MAX_VALUE_CHARACTERS))
    assert (len(candidates), dropped) == (1, [])


async def test_strict_mode_keeps_only_the_slots_allowed() -> None:
    allowed = {("interest", "drinks")}
    candidates, dropped = await kept(candidate("tea", "Interest/Drinks"), candidate("x", "a/b"), allowed=allowed)
    assert [each.memo for each in candidates] == ["tea"]
    assert dropped == [("slot_not_configured", "a/b: x")]
    assert await kept(candidate("tea"), allowed=set()) == ([], [("slot_not_configured", "interest/drinks: tea")])


async def test_a_repeat_within_the_flush_counts_once() -> None:
    again = candidate("tea ", "Interest/DRINKS", evidence=("m2",))
    retracted = candidate("tea", retracts=True)
    candidates, dropped = await kept(candidate("tea"), again, retracted, candidate("coffee"))
    assert [(each.memo, each.retracts) for each in candidates] == [("tea", False), ("tea", True), ("coffee", False)]
    assert dropped == [("repeated_in_flush", "interest/drinks: tea")]


async def test_what_the_processor_dropped_is_counted_first() -> None:
    earlier = Dropped(stage="extract", reason="unreadable_line", detail="?")
    found = await extract(memo(), Processor(candidate(""), dropped=(earlier,)), [])
    assert [each.reason for each in found.dropped] == ["unreadable_line", "empty_value"]


@pytest.mark.parametrize(("status", "error"), [("empty", None), ("failed", "no_json: prose")])
async def test_a_memo_that_is_empty_or_failed_is_passed_on_unasked(status: str, error: str | None) -> None:
    processor = Processor(candidate("tea"))
    basis = memo(status=status, bullets=(), error=error)
    found = await extract(basis, processor, [])
    assert processor.asked == 0
    assert (found.branch, found.status, found.error, found.memo) == ("extract", status, error, basis)
    assert found.candidates == ()


def test_a_failed_extraction_hands_the_memo_on() -> None:
    found = failed_extraction(memo(), StageFailed("no_json", "prose", calls=[CALL]))
    assert (found.branch, found.status, found.error, found.calls) == ("extract", "failed", "no_json: prose", (CALL,))
    assert found.memo == memo()
