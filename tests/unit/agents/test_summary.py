"""The summary stage: bullets that cite the user's own messages, and nothing else."""

from __future__ import annotations

from msgspec.structs import replace

from agents.processor import StageFailed, Summary
from agents.summary import failed_memo, summarise
from schemas.flushes import FlushBatch
from schemas.stages import Dropped, MemoBullet, MessageRef, ModelCall
from streams.errors import RecordFailed
from tests.support.records import SAID, flush_batch, flush_ref

CALL = ModelCall(stage="summary", model="m", outcome="ok")


class Processor:
    def __init__(self, *bullets: MemoBullet, **fields) -> None:
        self.summary = Summary(bullets=bullets, **fields)
        self.known: list[object] = []

    async def summarise(self, batch: FlushBatch, known: object) -> Summary:
        self.known.append(known)
        return self.summary


def bullet(text: str, *evidence: str) -> MemoBullet:
    return MemoBullet(text=text, evidence=evidence)


async def test_good_bullets_are_kept_in_order_with_everything_the_flush_needs() -> None:
    batch = flush_batch()
    processor = Processor(bullet("  likes tea ", "m0"), bullet("lives in Oslo", "m2", "m0"), calls=(CALL,))
    memo = await summarise(batch, processor, [("a", "b")])
    assert memo.bullets == (bullet("likes tea", "m0"), bullet("lives in Oslo", "m2", "m0"))
    assert (memo.flush, memo.status, memo.calls, memo.dropped, memo.error) == (batch.ref, "ok", (CALL,), (), None)
    assert memo.messages[1] == MessageRef(message_id="m1", role="assistant", occurred_at=SAID.replace(minute=1))
    assert len(memo.messages) == 3
    assert processor.known == [[("a", "b")]]


async def test_citations_of_anything_but_the_users_messages_are_removed() -> None:
    memo = await summarise(flush_batch(), Processor(bullet("likes tea", "m1", "m2", "m9", "m2", "")), [])
    assert memo.bullets == (bullet("likes tea", "m2"),)
    assert memo.dropped == ()


async def test_what_has_no_text_or_no_evidence_is_counted() -> None:
    earlier = Dropped(stage="summary", reason="unknown_message_number", detail="[9]")
    processor = Processor(
        bullet("said by the assistant", "m1"), bullet(" \n ", "m0"), bullet("x" * 300), dropped=(earlier,)
    )
    memo = await summarise(flush_batch(), processor, [])
    assert (memo.status, memo.bullets) == ("empty", ())
    assert memo.dropped == (
        earlier,
        Dropped(stage="summary", reason="no_evidence", detail="said by the assistant"),
        Dropped(stage="summary", reason="empty_bullet"),
        Dropped(stage="summary", reason="no_evidence", detail="x" * 200),
    )


async def test_a_batch_that_says_nothing_is_empty() -> None:
    memo = await summarise(flush_batch(), Processor(calls=(CALL,)), [])
    assert (memo.status, memo.bullets, memo.calls) == ("empty", (), (CALL,))


def test_a_failed_memo_says_why_and_keeps_the_calls_and_messages() -> None:
    memo = failed_memo(flush_batch(), StageFailed("no_json", "prose", calls=[CALL]))
    assert (memo.status, memo.error, memo.calls, memo.bullets) == ("failed", "no_json: prose", (CALL,), ())
    assert [each.message_id for each in memo.messages] == ["m0", "m1", "m2"]
    assert failed_memo(flush_batch(), RecordFailed("internal_error", "bug")).calls == ()


async def test_a_message_larger_than_the_budget_is_read_in_parts_and_nothing_of_it_is_left_out() -> None:
    big = "I like tea. " * 60
    batch = flush_batch(flush_ref(token_count=300))
    messages = tuple(
        replace(message, content=text) for message, text in zip(batch.messages, ("Hi.", big, "Bye."), strict=True)
    )
    seen: list[FlushBatch] = []

    class Reader:
        async def summarise(self, part: FlushBatch, known: object) -> Summary:
            seen.append(part)
            return Summary(bullets=(bullet(f"part {len(seen)}", "m0"),), calls=(CALL,))

    memo = await summarise(replace(batch, messages=messages), Reader(), (), 100)
    assert len(seen) > 2
    assert "".join(message.content for part in seen for message in part.messages) == "Hi." + big + "Bye."
    assert [found.text for found in memo.bullets] == [f"part {number}" for number in range(1, len(seen) + 1)]
    assert memo.calls == (CALL,) * len(seen)
    assert [message.message_id for message in memo.messages] == ["m0", "m1", "m2"]
    assert len((await summarise(batch, Reader(), (), 300)).calls) == 1
