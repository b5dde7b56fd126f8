"""Stage 1, summary: a flush batch to a memo whose every bullet cites the user's own messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from agents.batch_parts import batch_parts, references
from agents.processor import Processor, SlotName
from agents.quotes import own_words
from agents.stage_agent import StageAgent, batch_heading, calls_of, known_slots
from schemas.flushes import FlushBatch
from schemas.profiles import Profile, ProfileState
from schemas.stages import Dropped, Memo, MemoBullet
from streams.errors import RecordFailed
from streams.runtime import Runtime
from streams.tables import RecordTable


async def summarise(
    batch: FlushBatch, processor: Processor, known: Sequence[SlotName], budget: int | None = None
) -> Memo:
    """Return the memo of a batch.

    What the user's messages copy from messages that are not the user's is taken out first (`agents.quotes`). A batch
    of more than `budget` tokens, which holds a message that is larger, is summarised in parts. A bullet is kept if it
    has text and cites messages of this batch that the user wrote; citations of anything else are removed. What is not
    kept is counted in `dropped`.

    Raises:
        StageFailed: when the processor cannot summarise this batch.
        StageUnavailable: when it cannot now.
    """
    started = time.perf_counter()
    given = own_words(batch)
    parts = [given]
    if budget is not None and batch.ref.token_count > budget:
        parts = await asyncio.to_thread(batch_parts, given, budget)
    summaries = [await processor.summarise(part, known) for part in parts]
    citable = {message.message_id for message in given.messages if message.role == "user" and message.content}
    bullets: list[MemoBullet] = []
    dropped = [drop for summary in summaries for drop in summary.dropped]
    for bullet in (bullet for summary in summaries for bullet in summary.bullets):
        text = bullet.text.strip()
        evidence = tuple(dict.fromkeys(cited for cited in bullet.evidence if cited in citable))
        if not text:
            dropped.append(Dropped(stage="summary", reason="empty_bullet"))
        elif not evidence:
            dropped.append(Dropped(stage="summary", reason="no_evidence", detail=text[:200]))
        else:
            bullets.append(MemoBullet(text=text, evidence=evidence))
    return Memo(
        flush=batch.ref,
        status="ok" if bullets else "empty",
        messages=references(batch),
        bullets=tuple(bullets),
        calls=tuple(call for summary in summaries for call in summary.calls),
        dropped=tuple(dropped),
        duration_ms=(time.perf_counter() - started) * 1000,
    )


def failed_memo(batch: FlushBatch, failure: RecordFailed) -> Memo:
    """Return the memo of a batch that could not be summarised: it ends the flush."""
    return Memo(
        flush=batch.ref,
        status="failed",
        messages=references(batch),
        calls=calls_of(failure),
        error=str(failure),
    )


def register(
    runtime: Runtime, processor: Processor, profiles: RecordTable[ProfileState], budget: int | None = None
) -> None:
    """Add the summary agent to an application."""

    async def run(batch: FlushBatch, profile: Profile | None) -> Memo:
        return await summarise(batch, processor, known_slots(profile), budget)

    StageAgent(
        runtime,
        stage="summary",
        lane="memo",
        branches=("extract", "tag"),
        source=runtime.topics.flushes,
        target=runtime.topics.memos,
        record_type=FlushBatch,
        flush=lambda batch: batch.ref,
        heading=batch_heading,
        run=run,
        fail=failed_memo,
        profiles=profiles,
    )
