"""The facts stage: a message with a signal in it to what it says about its author.

Facts and preferences are asked for apart, each only where its kind of signal was seen. What comes back is believed as
far as the message bears it out: a fact must be in the message's own words to a good part, in its language, with no name
that the user has not given, and no repeat of another; a quotation must be in the message.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Collection, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from agents.batch_parts import batch_parts, references
from agents.fact_processor import FactProcessor, FoundFacts, FoundPreferences
from agents.in_place import computed, is_short
from agents.in_turn import InTurn
from agents.processor import StageFailed
from agents.quotes import own_words
from agents.stage_agent import PartlyFailed, StageAgent, batch_heading, calls_of
from agents.wording import (
    comparable,
    missing_names,
    own_statements,
    rather_from,
    same_language,
    says_something,
    shared_share,
    turns_round,
)
from schemas.facts import Fact, Preference
from schemas.flushes import BatchMessage, FlushBatch
from schemas.profiles import Profile, ProfileState
from schemas.stages import Candidates, Dropped, FactCandidate, PreferenceCandidate, StageName
from streams.errors import RecordFailed
from streams.runtime import Runtime
from streams.tables import RecordTable

MAX_STATEMENT_CHARACTERS: Final = 300
"""A fact or a preference is one short sentence."""

MAX_QUOTE_CHARACTERS: Final = 100

_LEAST_SHARED: Final = 1 / 3
"""Share of a fact's words that the message must hold."""

MAX_STATEMENTS: Final = 10
"""Facts, and preferences, that one message may bring: each may cost a comparison by the model."""

_LEAST_STRENGTH: Final = 0.05
"""Below this nothing was observed."""


async def read_facts(
    batch: FlushBatch, processor: FactProcessor, profile: Profile | None, *, shown: int = 20, budget: int | None = None
) -> Candidates:
    """Return what the message of a batch says about its author.

    What the message copies from messages that are not the user's is taken out first (`agents.quotes`); of a message
    that is nothing else, the processor is not asked. What it gives is checked, and what is not kept is counted in
    `dropped`.

    Args:
        batch: of lane ``facts``.
        processor: reads it.
        profile: of the user, as it is known now.
        shown: how many known facts, and how many preferences, the processor is shown: the most recently confirmed.
        budget: tokens that it is given at once.

    Raises:
        PartlyFailed: when the processor can read it for facts and not for preferences, or the other way round.
        StageFailed: when the processor cannot read this message.
        StageUnavailable: when it cannot now.
    """
    started = time.perf_counter()
    short = is_short([message.content for message in batch.messages])
    given = await computed(short, own_words, batch)
    parts = [given] if any(map(_is_own, given.messages)) else []
    if parts and budget is not None and batch.ref.token_count > budget:
        parts = await asyncio.to_thread(batch_parts, given, budget)
    facts = sorted(profile.facts if profile else (), key=lambda fact: fact.last_confirmed, reverse=True)[:shown]
    preferences = sorted(
        profile.preferences if profile else (), key=lambda preference: preference.last_confirmed, reverse=True
    )[:shown]
    halves = [await _both(_facts(part, processor, facts), _preferences(part, processor, preferences)) for part in parts]
    found = [half for both in halves for half in both if not isinstance(half, StageFailed)]
    failures = _failures(halves)
    calls = (
        *(call for each in found for call in each.calls),
        *(call for _, failure in failures for call in failure.calls),
    )
    if failures and len(failures) == _asked(batch):
        raise StageFailed(failures[0][1].reason, failures[0][1].detail, calls)
    answer = await computed(short, _checked, batch, given, found, facts, preferences)
    answer = replace(
        answer,
        calls=calls,
        error="; ".join(str(failure) for _, failure in failures) or None,
        duration_ms=(time.perf_counter() - started) * 1000,
    )
    if failures:
        raise PartlyFailed(answer, failures)
    return answer


def _checked(
    batch: FlushBatch,
    given: FlushBatch,
    found: Sequence[FoundFacts | FoundPreferences],
    facts: Sequence[Fact],
    preferences: Sequence[Preference],
) -> Candidates:
    """Return what of all that was found can be used; it reads the message, which may be long."""
    check = _Check(given, [drop for each in found for drop in each.dropped])
    kept_facts = check.facts((fact for each in found if isinstance(each, FoundFacts) for fact in each.facts), facts)
    kept_preferences = check.preferences(
        (preference for each in found if isinstance(each, FoundPreferences) for preference in each.preferences),
        preferences,
    )
    return Candidates(
        flush=batch.ref,
        branch="facts",
        status="ok" if kept_facts or kept_preferences else "empty",
        facts=kept_facts,
        preferences=kept_preferences,
        messages=references(batch),
        session_id=batch.messages[-1].session_id,
        dropped=tuple(check.dropped),
    )


def _asked(batch: FlushBatch) -> int:
    """Return how many of the two questions a batch puts."""
    return bool(batch.signals and batch.signals.facts) + bool(batch.signals and batch.signals.preferences)


def _failures(halves: Sequence[_Both]) -> list[tuple[StageName, StageFailed]]:
    """Return the first failure of each half."""
    failures: list[tuple[StageName, StageFailed]] = []
    names: tuple[StageName, StageName] = ("facts_half", "preferences_half")
    for name, half in zip(names, zip(*halves, strict=True), strict=True) if halves else ():
        failed = next((each for each in half if isinstance(each, StageFailed)), None)
        if failed is not None:
            failures.append((name, failed))
    return failures


async def _both(facts: Awaitable[FoundFacts], preferences: Awaitable[FoundPreferences]) -> _Both:
    """Wait for both: one that has failed for good does not take the other with it."""
    found, liked = await asyncio.gather(facts, preferences, return_exceptions=True)
    for half in (found, liked):
        if isinstance(half, BaseException) and not isinstance(half, StageFailed):
            raise half
    return found, liked  # type: ignore[return-value]  # nothing else is left


async def _facts(part: FlushBatch, processor: FactProcessor, known: Sequence[Fact]) -> FoundFacts:
    if part.signals is None or not part.signals.facts:
        return FoundFacts()
    return await processor.extract_facts(part, known)


async def _preferences(part: FlushBatch, processor: FactProcessor, known: Sequence[Preference]) -> FoundPreferences:
    if part.signals is None or not part.signals.preferences:
        return FoundPreferences()
    return await processor.extract_preferences(part, known)


_Both = tuple[FoundFacts | StageFailed, FoundPreferences | StageFailed]


class _Check:
    """Keeps what the user's own messages bear out; what they do not is added to `dropped` with the reason."""

    def __init__(self, batch: FlushBatch, dropped: list[Dropped]) -> None:
        own = list(filter(_is_own, batch.messages))
        self.dropped = dropped
        self._citable = {message.message_id for message in own}
        self._text = _joined(own)
        self._stated = own_statements(self._text)
        self._conversation = _joined([*filter(_is_own, batch.context), *own])
        self._others = _joined(turn for turn in (*batch.context, *batch.messages) if not _is_own(turn))

    def facts(self, given: Iterable[FactCandidate], known: Sequence[Fact]) -> tuple[FactCandidate, ...]:
        """Return the facts that can be used."""
        ids = {fact.fact_id: fact.text for fact in known}
        kept: dict[str, FactCandidate] = {}
        for raw in given:
            repeats = raw.repeats if raw.repeats in ids else None
            fact = replace(
                raw,
                text=raw.text.strip() if repeats is None else ids[repeats],
                confidence=_share(raw.confidence),
                evidence=self._cited(raw.evidence),
                conflicts_with=raw.conflicts_with if raw.conflicts_with in ids else None,
                repeats=repeats,
            )
            reason = self._objection(fact.text, fact.evidence, kept)
            if reason is None and repeats is None:
                reason = self._doubt(fact.text)
            if reason is None:
                kept[comparable(fact.text)] = fact
            else:
                self._drop("facts", reason, fact.text)
        return tuple(kept.values())

    def preferences(
        self, given: Iterable[PreferenceCandidate], known: Sequence[Preference]
    ) -> tuple[PreferenceCandidate, ...]:
        """Return the preferences that can be used."""
        ids = {preference.preference_id for preference in known}
        kept: dict[str, PreferenceCandidate] = {}
        for raw in given:
            preference = replace(
                raw,
                text=raw.text.strip(),
                strength=_share(raw.strength),
                quote=self._quote(raw.quote),
                evidence=self._cited(raw.evidence),
                opposes=raw.opposes if raw.opposes in ids else None,
            )
            reason = self._objection(preference.text, preference.evidence, kept)
            if reason is None and not same_language(preference.text, self._text):
                reason = "other_language"
            if reason is None and preference.strength < _LEAST_STRENGTH:
                reason = "no_strength"
            if reason is None:
                kept[comparable(preference.text)] = preference
            else:
                self._drop("preferences", reason, preference.text)
        return tuple(kept.values())

    def _objection(self, text: str, evidence: tuple[str, ...], kept: Collection[str]) -> str | None:
        if not says_something(text):
            return "empty_value"
        if len(text) > MAX_STATEMENT_CHARACTERS:
            return "value_too_long"
        if not evidence:
            return "no_evidence"
        if comparable(text) in kept:
            return "repeated_in_flush"
        return "too_many" if len(kept) >= MAX_STATEMENTS else None

    def _doubt(self, text: str) -> str | None:
        """Return why the message does not bear a fact out, or None."""
        if not same_language(text, self._text):
            return "other_language"
        if shared_share(text, self._stated) < _LEAST_SHARED or rather_from(text, self._others, self._text):
            return "not_in_message"
        if turns_round(text, self._text):
            return "turned_round"
        # The user's earlier turns may say whom the message speaks of.
        return "unknown_name" if missing_names(text, self._conversation) else None

    def _cited(self, evidence: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cited for cited in evidence if cited in self._citable))

    def _quote(self, quote: str) -> str:
        """Return the user's words behind a preference: as they were given, or the message's beginning."""
        quote = quote.strip()
        if not comparable(quote) or comparable(quote) not in comparable(self._text):
            quote = self._text.strip()
        return quote if len(quote) <= MAX_QUOTE_CHARACTERS else quote[: MAX_QUOTE_CHARACTERS - 1] + "…"

    def _drop(self, stage: StageName, reason: str, text: str) -> None:
        self.dropped.append(Dropped(stage=stage, reason=reason, detail=text[:200]))


def _is_own(message: BatchMessage) -> bool:
    return message.role == "user" and bool(message.content.strip())


def _joined(messages: Iterable[BatchMessage]) -> str:
    return "\n".join(message.content for message in messages)


def _share(number: float) -> float:
    """Return a number within 0 and 1; what is none counts as one half."""
    return min(max(number, 0.0), 1.0) if math.isfinite(number) else 0.5


def failed_facts(batch: FlushBatch, failure: RecordFailed) -> Candidates:
    """Return the answer when a message could not be read: it ends the flush."""
    return Candidates(
        flush=batch.ref,
        branch="facts",
        status="failed",
        messages=references(batch),
        calls=calls_of(failure),
        error=str(failure),
    )


def register(
    runtime: Runtime,
    processor: FactProcessor,
    profiles: RecordTable[ProfileState],
    in_turn: InTurn,
    *,
    shown: int,
    budget: int,
) -> None:
    """Add the facts agent to an application."""

    async def run(batch: FlushBatch, profile: Profile | None) -> Candidates:
        return await read_facts(batch, processor, profile, shown=shown, budget=budget)

    StageAgent(
        runtime,
        stage="facts",
        lane="facts",
        branches=("facts",),
        source=runtime.topics.flushes,
        target=runtime.topics.candidates,
        record_type=FlushBatch,
        flush=lambda batch: batch.ref,
        heading=batch_heading,
        run=run,
        fail=failed_facts,
        profiles=profiles,
        wait=in_turn.wait,
        parks_unreadable=False,
    )
