"""The tag stage: configured tags with a value, and nothing else."""

from __future__ import annotations

import pytest

from agents.processor import StageFailed, Tagging
from agents.tag import failed_tagging, tag
from schemas.stages import Dropped, EventTag, Memo, ModelCall
from tests.support.records import memo

CALL = ModelCall(stage="tag", model="m", outcome="ok")


class Processor:
    def __init__(self, *tags: tuple[str, str], **fields) -> None:
        self.tagging = Tagging(tags=tuple(EventTag(tag=name, value=value) for name, value in tags), **fields)
        self.asked = 0

    async def tag(self, _memo: Memo) -> Tagging:
        self.asked += 1
        return self.tagging


async def test_configured_tags_are_kept_under_their_unified_names() -> None:
    found = await tag(
        memo(), Processor(("Life Goal", " learn Go "), ("emotion", "开心"), calls=(CALL,)), {"life_goal", "emotion"}
    )
    assert found.tags == (EventTag(tag="life_goal", value="learn Go"), EventTag(tag="emotion", value="开心"))
    assert (found.flush, found.branch, found.status, found.calls) == (memo().flush, "tag", "ok", (CALL,))
    assert (found.memo, found.candidates, found.dropped) == (None, (), ())


async def test_unknown_empty_and_repeated_tags_are_not_kept() -> None:
    given = (("mood", "x"), ("emotion", " "), ("emotion", "glad"), ("Emotion", "glad"), ("emotion", "sad"))
    found = await tag(memo(), Processor(*given), {"emotion"})
    assert found.tags == (EventTag(tag="emotion", value="glad"), EventTag(tag="emotion", value="sad"))
    assert found.dropped == (
        Dropped(stage="tag", reason="tag_not_configured", detail="mood"),
        Dropped(stage="tag", reason="empty_value", detail="emotion"),
    )


async def test_without_a_tag_left_the_answer_is_empty() -> None:
    found = await tag(memo(), Processor(("mood", "x")), {"emotion"})
    assert (found.status, found.tags) == ("empty", ())


async def test_without_configured_tags_nobody_is_asked() -> None:
    processor = Processor(("emotion", "glad"))
    found = await tag(memo(), processor, ())
    assert processor.asked == 0
    assert (found.branch, found.status, found.error) == ("tag", "empty", None)


@pytest.mark.parametrize("configured", [(), ("emotion",)])
@pytest.mark.parametrize(("status", "error"), [("empty", None), ("failed", "no_json: prose")])
async def test_a_memo_that_is_empty_or_failed_is_passed_on_unasked(
    status: str, error: str | None, configured: tuple[str, ...]
) -> None:
    processor = Processor(("emotion", "glad"))
    found = await tag(memo(status=status, bullets=(), error=error), processor, configured)
    assert processor.asked == 0
    assert (found.status, found.error) == (status, error)


def test_a_failed_tagging_says_why() -> None:
    found = failed_tagging(memo(), StageFailed("no_json", "prose", calls=[CALL]))
    assert (found.branch, found.status, found.error, found.calls) == ("tag", "failed", "no_json: prose", (CALL,))
    assert found.tags == ()
