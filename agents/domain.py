"""The domain stage: what a conversation is about, as short facts and keywords for recommendation.

It reads the batch itself and not its memo, since it is about the conversation and not only about its user. It is the
one stage that may fail without trace in the flush's outcome: a call that fails gives nothing, and is counted.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final

from agents.batch_parts import batch_parts
from agents.fact_processor import DomainProcessor, FoundDomain
from agents.processor import StageUnavailable
from agents.stage_agent import StageAgent, batch_heading, calls_of
from agents.wording import HAN, by_character, comparable, mentions
from schemas.flushes import BatchMessage, FlushBatch
from schemas.profiles import Profile, ProfileState, unify
from schemas.stages import Candidates, Domain, Dropped, TagHit
from streams.errors import DependencyDown, RecordFailed
from streams.runtime import Runtime
from streams.tables import RecordTable

MAX_TAGS: Final = 5
"""Tags of the catalogue that one conversation may get."""

MAX_KEYWORDS: Final = 20
MAX_FACTS: Final = 20

_FACT_CHARACTERS: Final = 29
_FACT_WORDS: Final = 29
"""A fact stays below thirty of either."""

_KEYWORD_CHARACTERS: Final = 10
_KEYWORD_WORDS: Final = 3
_LONGEST: Final = 300
"""Characters of a fact in words: thirty words are shorter."""

_NEAR_REPEAT: Final = 0.8
"""From which likeness in spelling on two keywords count as one."""

_TELLING: Final = re.compile(rf"\d|{HAN}")


async def describe(
    batch: FlushBatch, processor: DomainProcessor, catalogue: Mapping[str, str] | None, budget: int | None = None
) -> Candidates:
    """Return short facts and keywords of a batch.

    Args:
        batch: of lane ``memo``.
        processor: reads it.
        catalogue: names of the tags by their unified form; with it the keywords are tags of it, without it any.
        budget: tokens that the processor is given at once.

    Raises:
        StageFailed: when what the processor gave has not the form that was asked for.
    """
    started = time.perf_counter()
    try:
        found = await _described(batch, processor, budget)
    except (StageUnavailable, DependencyDown) as error:
        calls = error.calls if isinstance(error, StageUnavailable) else ()
        return Candidates(
            flush=batch.ref,
            branch="domain",
            status="failed",
            domain=Domain(),
            calls=calls,
            dropped=(Dropped(stage="domain", reason="call_failed", detail=str(error)[:200]),),
            error=str(error),
            duration_ms=(time.perf_counter() - started) * 1000,
        )
    dropped = list(found.dropped)
    domain = Domain(facts=_facts(found, dropped), domain=_keywords(found, catalogue, dropped))
    return Candidates(
        flush=batch.ref,
        branch="domain",
        status="ok" if domain.facts or domain.domain else "empty",
        domain=domain,
        hits=_hits(batch, domain.domain, dropped) if catalogue else (),
        calls=found.calls,
        dropped=tuple(dropped),
        duration_ms=(time.perf_counter() - started) * 1000,
    )


async def _described(batch: FlushBatch, processor: DomainProcessor, budget: int | None) -> FoundDomain:
    if budget is None or batch.ref.token_count <= budget:
        return await processor.describe(batch)
    parts = await asyncio.to_thread(batch_parts, batch, budget)
    found = [await processor.describe(part) for part in parts]
    return FoundDomain(
        domain=Domain(
            facts=tuple(fact for each in found for fact in each.domain.facts),
            domain=tuple(keyword for each in found for keyword in each.domain.domain),
        ),
        calls=tuple(call for each in found for call in each.calls),
        dropped=tuple(drop for each in found for drop in each.dropped),
    )


def _facts(found: FoundDomain, dropped: list[Dropped]) -> tuple[str, ...]:
    kept: dict[str, str] = {}
    for raw in found.domain.facts:
        fact = " ".join(raw.split())
        if not _has_words(fact):
            reason: str | None = "empty_value"
        elif not _fits(fact, _FACT_CHARACTERS, _FACT_WORDS):
            reason = "fact_too_long"
        elif comparable(fact) in kept:
            reason = "repeated_in_flush"
        else:
            reason = None if len(kept) < MAX_FACTS else "too_many_facts"
        if reason is None:
            kept[comparable(fact)] = fact
        else:
            dropped.append(Dropped(stage="domain", reason=reason, detail=fact[:200]))
    return tuple(kept.values())


def _keywords(found: FoundDomain, catalogue: Mapping[str, str] | None, dropped: list[Dropped]) -> tuple[str, ...]:
    kept: list[str] = []
    for raw in found.domain.domain:
        keyword = " ".join(raw.split())
        reason: str | None = None
        if catalogue is not None:
            name = catalogue.get(unify(keyword))
            reason = "not_in_catalogue" if name is None else "repeated_in_flush" if name in kept else None
            keyword = name or keyword
        elif not _has_words(keyword):
            reason = "empty_value"
        elif not _fits(keyword, _KEYWORD_CHARACTERS, _KEYWORD_WORDS):
            reason = "keyword_too_long"
        elif any(_near(keyword, each) for each in kept):
            reason = "repeated_in_flush"
        if reason is None and len(kept) >= (MAX_KEYWORDS if catalogue is None else MAX_TAGS):
            reason = "too_many_keywords"
        if reason is None:
            kept.append(keyword)
        else:
            dropped.append(Dropped(stage="domain", reason=reason, detail=keyword[:200]))
    return tuple(kept)


def _has_words(text: str) -> bool:
    return any(map(str.isalnum, text))


def _fits(text: str, characters: int, words: int) -> bool:
    if by_character(text):
        return len(text) <= characters
    return len(text.split(" ")) <= words and len(text) <= _LONGEST


def _near(one: str, other: str) -> bool:
    """Whether two keywords differ in spelling only; another number or character is another thing (四级, 六级)."""
    first, second = comparable(one).replace(" ", ""), comparable(other).replace(" ", "")
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    return matcher.ratio() >= _NEAR_REPEAT and not any(
        operation == "replace" and _TELLING.search(first[start:end])
        for operation, start, end, _, _ in matcher.get_opcodes()
    )


def _hits(batch: FlushBatch, tags: Sequence[str], dropped: list[Dropped]) -> tuple[TagHit, ...]:
    own = [message for message in batch.messages if message.role == "user" and message.content]
    hits: list[TagHit] = []
    for tag in tags:
        evidence = _evidence(tag, own)
        if evidence:
            hits.append(TagHit(name=tag, evidence=evidence))
        else:
            dropped.append(Dropped(stage="domain", reason="no_evidence", detail=tag[:200]))
    return tuple(hits)


def _evidence(tag: str, own: Sequence[BatchMessage]) -> tuple[str, ...]:
    """Return the user's messages that name a tag, or else all of them: it fits the conversation as a whole."""
    naming = [message for message in own if mentions(message.content, tag)]
    return tuple(message.message_id for message in naming or own)


def undescribed(batch: FlushBatch) -> Candidates:
    """Return the answer of this branch where nobody wants to know."""
    return Candidates(flush=batch.ref, branch="domain", status="empty")


def failed_description(batch: FlushBatch, failure: RecordFailed) -> Candidates:
    """Return the answer of this branch when the description has failed: the flush goes on without it."""
    return Candidates(
        flush=batch.ref,
        branch="domain",
        status="failed",
        domain=Domain(),
        calls=calls_of(failure),
        error=str(failure),
    )


def register(
    runtime: Runtime,
    processor: DomainProcessor | None,
    profiles: RecordTable[ProfileState],
    catalogue: Mapping[str, str] | None,
    budget: int,
) -> None:
    """Add the domain agent to an application; without a processor it answers that there is nothing."""

    async def run(batch: FlushBatch, _profile: Profile | None) -> Candidates:
        return undescribed(batch) if processor is None else await describe(batch, processor, catalogue, budget)

    StageAgent(
        runtime,
        stage="domain",
        lane="memo",
        branches=("domain",),
        source=runtime.topics.flushes,
        target=runtime.topics.candidates,
        record_type=FlushBatch,
        flush=lambda batch: batch.ref,
        heading=batch_heading,
        run=run,
        fail=failed_description,
        profiles=profiles,
        parks_unreadable=False,
    )
