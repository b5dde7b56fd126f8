"""Stage 2, extract: a memo to candidates for profile slots, each citing the user's own messages."""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from typing import Final

from agents.processor import Processor, SlotName
from agents.stage_agent import StageAgent, calls_of, known_slots
from schemas.profiles import Profile, ProfileState, unify
from schemas.stages import Candidate, Candidates, Dropped, Memo
from streams.errors import RecordFailed
from streams.runtime import Runtime
from streams.tables import RecordTable

MAX_VALUE_CHARACTERS: Final = 4_000
"""Longest value of one candidate: a profile is made of short statements, not of documents."""


async def extract(
    memo: Memo,
    processor: Processor,
    known: Sequence[SlotName],
    allowed: Container[SlotName] | None = None,
) -> Candidates:
    """Return the candidates of a memo.

    A candidate is kept if it names a slot, has a value, and cites messages of this flush that the user wrote.
    `allowed` are the slots of strict mode; None allows every slot. What is not kept is counted in `dropped`. A memo
    that is empty or failed is passed on as such, without asking the processor.

    Raises:
        StageFailed: when the processor cannot extract from this memo.
        StageUnavailable: when it cannot now.
    """
    if memo.status != "ok":
        return Candidates(flush=memo.flush, branch="extract", status=memo.status, memo=memo, error=memo.error)
    started = time.perf_counter()
    extraction = await processor.extract(memo, known)
    citable = {message.message_id for message in memo.messages if message.role == "user"}
    candidates: list[Candidate] = []
    dropped = list(extraction.dropped)
    for given in extraction.candidates:
        candidate = Candidate(
            topic=unify(given.topic),
            sub_topic=unify(given.sub_topic),
            memo=given.memo.strip(),
            evidence=tuple(dict.fromkeys(cited for cited in given.evidence if cited in citable)),
            assertion=given.assertion,
            retracts=given.retracts,
        )
        reason = _objection(candidate, candidates, allowed)
        if reason is None:
            candidates.append(candidate)
        else:
            detail = f"{candidate.topic}/{candidate.sub_topic}: {candidate.memo}"
            dropped.append(Dropped(stage="extract", reason=reason, detail=detail[:200]))
    return Candidates(
        flush=memo.flush,
        branch="extract",
        status="ok" if candidates else "empty",
        memo=memo,
        candidates=tuple(candidates),
        calls=extraction.calls,
        dropped=tuple(dropped),
        duration_ms=(time.perf_counter() - started) * 1000,
    )


def _objection(candidate: Candidate, earlier: Sequence[Candidate], allowed: Container[SlotName] | None) -> str | None:
    if not (candidate.topic and candidate.sub_topic):
        return "unnamed_slot"
    if not candidate.memo:
        return "empty_value"
    if len(candidate.memo) > MAX_VALUE_CHARACTERS:
        return "value_too_long"
    if not candidate.evidence:
        return "no_evidence"
    if allowed is not None and (candidate.topic, candidate.sub_topic) not in allowed:
        return "slot_not_configured"
    if any(
        (known.topic, known.sub_topic, known.memo, known.retracts)
        == (candidate.topic, candidate.sub_topic, candidate.memo, candidate.retracts)
        for known in earlier
    ):
        return "repeated_in_flush"
    return None


def failed_extraction(memo: Memo, failure: RecordFailed) -> Candidates:
    """Return the answer of this branch when the extraction has failed."""
    return Candidates(
        flush=memo.flush,
        branch="extract",
        status="failed",
        memo=memo,
        calls=calls_of(failure),
        error=str(failure),
    )


def register(
    runtime: Runtime,
    processor: Processor,
    profiles: RecordTable[ProfileState],
    allowed: Container[SlotName] | None,
) -> None:
    """Add the extract agent to an application."""

    async def run(memo: Memo, profile: Profile | None) -> Candidates:
        return await extract(memo, processor, known_slots(profile), allowed)

    StageAgent(
        runtime,
        stage="extract",
        lane="memo",
        branches=("extract",),
        source=runtime.topics.memos,
        target=runtime.topics.candidates,
        record_type=Memo,
        flush=lambda memo: memo.flush,
        run=run,
        fail=failed_extraction,
        profiles=profiles,
    )
