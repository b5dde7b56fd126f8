"""Stage 3, tag: a memo to event tags, beside the extraction and independent of it."""

from __future__ import annotations

import time
from collections.abc import Collection

from agents.processor import Processor
from agents.stage_agent import StageAgent, calls_of
from schemas.profiles import Profile, ProfileState, unify
from schemas.stages import Candidates, Dropped, EventTag, Memo
from streams.errors import RecordFailed
from streams.runtime import Runtime
from streams.tables import RecordTable


async def tag(memo: Memo, processor: Processor, configured: Collection[str]) -> Candidates:
    """Return the event tags of a memo.

    Only tags whose (unified) names are in `configured` are kept; what is not is counted in `dropped`. Without
    configured tags, and for a memo that is empty or failed, the processor is not asked.

    Raises:
        StageFailed: when the processor cannot tag this memo.
        StageUnavailable: when it cannot now.
    """
    if memo.status != "ok" or not configured:
        status = memo.status if memo.status != "ok" else "empty"
        return Candidates(flush=memo.flush, branch="tag", status=status, error=memo.error)
    started = time.perf_counter()
    tagging = await processor.tag(memo)
    tags: list[EventTag] = []
    dropped = list(tagging.dropped)
    for given in tagging.tags:
        found = EventTag(tag=unify(given.tag), value=given.value.strip())
        if found.tag not in configured:
            dropped.append(Dropped(stage="tag", reason="tag_not_configured", detail=given.tag[:200]))
        elif not found.value:
            dropped.append(Dropped(stage="tag", reason="empty_value", detail=given.tag[:200]))
        elif found not in tags:
            tags.append(found)
    return Candidates(
        flush=memo.flush,
        branch="tag",
        status="ok" if tags else "empty",
        tags=tuple(tags),
        calls=tagging.calls,
        dropped=tuple(dropped),
        duration_ms=(time.perf_counter() - started) * 1000,
    )


def failed_tagging(memo: Memo, failure: RecordFailed) -> Candidates:
    """Return the answer of this branch when the tagging has failed: the flush goes on without tags."""
    return Candidates(flush=memo.flush, branch="tag", status="failed", calls=calls_of(failure), error=str(failure))


def register(
    runtime: Runtime,
    processor: Processor,
    profiles: RecordTable[ProfileState],
    configured: Collection[str],
) -> None:
    """Add the tag agent to an application."""

    async def run(memo: Memo, _profile: Profile | None) -> Candidates:
        return await tag(memo, processor, configured)

    StageAgent(
        runtime,
        stage="tag",
        lane="memo",
        branches=("tag",),
        source=runtime.topics.memos,
        target=runtime.topics.candidates,
        record_type=Memo,
        flush=lambda memo: memo.flush,
        run=run,
        fail=failed_tagging,
        profiles=profiles,
        parks_unreadable=False,
    )
