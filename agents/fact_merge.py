"""Merging lane ``facts``: what a message says about its author, against the facts that are known now.

A fact that is known word for word is a repeat, without asking. Otherwise it is set against the known fact that the
processor saw it contradict, and those that are nearest in meaning, one after the other until one is not different. The
processor says how two relate: a duplicate is counted, an update replaces the text, a conflict makes the known one
invalid and the new one is added, and what is different from all, or near to nothing, is added. Preferences are merged
by `agents.preference_merge`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Final

from agents.asked import Asked
from agents.delta_writer import DeltaWriter
from agents.fact_processor import FactProcessor, Relation
from agents.flush_record import flush_record
from agents.nearest import Nearest
from agents.policy import MergePolicy
from agents.preference_merge import PreferenceMerge
from agents.wording import comparable
from schemas.deltas import FactDetail, Operation
from schemas.facts import Fact
from schemas.ids import fact_id
from schemas.profiles import ProfileState
from schemas.stages import Candidates, FactCandidate

_REPEAT_WEIGHT: Final = 0.05
"""What each repeat adds to a fact's importance."""


async def merge_facts(
    state: ProfileState,
    found: Candidates,
    *,
    processor: FactProcessor,
    nearest: Nearest,
    policy: MergePolicy,
    now: datetime,
) -> ProfileState:
    """Apply a flush of lane ``facts`` to a profile; returns the record to be kept, as `agents.merge.merge_flush` does.

    Raises:
        StageFailed: when the processor cannot compare these facts.
        StageUnavailable: when it cannot now.
    """
    started = time.perf_counter()
    writer = DeltaWriter(
        state.profile, found.flush, processor=processor.name, pipeline_version=policy.pipeline_version, now=now
    )
    asked = Asked(processor)
    facts = FactMerge(found, writer, asked, nearest, policy)
    for number, fact in enumerate(found.facts):
        await facts.save(number, fact)
    preferences = PreferenceMerge(found, writer, asked, nearest, policy)
    for number, preference in enumerate(found.preferences):
        await preferences.save(number, preference)
    return flush_record(
        state,
        {"facts": found},
        writer,
        calls=asked.calls,
        dropped=asked.dropped,
        error=None,
        duration_ms=(time.perf_counter() - started) * 1000,
        processor=processor.name,
        policy=policy,
        now=now,
    )


class FactMerge:
    """Saves the facts of one flush.

    Args:
        found: the answer of the branch.
        writer: takes the changes.
        asked: puts questions to the processor.
        nearest: finds known facts by meaning.
        policy: similarity and limits.
    """

    def __init__(
        self, found: Candidates, writer: DeltaWriter, asked: Asked, nearest: Nearest, policy: MergePolicy
    ) -> None:
        self._flush = found.flush
        self._session = found.session_id
        self._occurred = {message.message_id: message.occurred_at for message in found.messages}
        self._writer = writer
        self._asked = asked
        self._nearest = nearest
        self._limits = policy.facts

    async def save(self, number: int, fact: FactCandidate) -> None:
        """Save a fact; `number` is its place among those of the flush."""
        known = self._writer.profile.facts
        repeated = next((each for each in known if each.fact_id == fact.repeats), None)
        repeated = repeated or next((each for each in known if comparable(each.text) == comparable(fact.text)), None)
        if repeated is not None:
            self._confirm(fact, repeated, "said again")
            return
        async for other in self._compared(fact, known):
            relation = await self._asked.relation("fact", other.text, fact.text)
            if relation is None:
                break  # the model makes no sense: asking on would only cost more
            if relation != "different":
                self._relate(number, fact, other, relation)
                return
        self._create(number, fact, "first mention")

    async def _compared(self, fact: FactCandidate, known: tuple[Fact, ...]) -> AsyncIterator[Fact]:
        """Yield the known facts that a new one is set against, in this order."""
        contradicted = next((each for each in known if each.fact_id == fact.conflicts_with), None)
        if contradicted is not None:
            yield contradicted
        near = await self._nearest.find(
            fact.text,
            [each.text for each in known],
            limit=self._limits.nearest,
            floor=self._limits.similarity,
        )
        for each in near:
            if known[each.place] is not contradicted:
                yield known[each.place]

    def _relate(self, number: int, fact: FactCandidate, known: Fact, relation: Relation) -> None:
        if relation == "duplicate":
            self._confirm(fact, known, f"said again as: {fact.text}")
        elif self._flush.redrive and self._said_at(fact) < known.last_confirmed:
            reason = f"came late, before what is known was confirmed: {relation}"
            self._write("overtaken", fact, known, reason=reason)
        elif relation == "update":
            importance = max(known.importance, fact.confidence)
            self._write("update", fact, known, reason="what is known has changed", importance=importance)
        else:
            self._write(
                "invalidate",
                fact,
                known,
                reason=f"contradicted by: {fact.text}",
                replaced_by=fact_id(self._flush.flush_id, number),
            )
            self._create(number, fact, f"contradicts: {known.text}")

    def _confirm(self, fact: FactCandidate, known: Fact, reason: str) -> None:
        self._write(
            "confirm",
            fact,
            known,
            reason=reason,
            mentions=known.times_mentioned + 1,
            importance=min(1.0, round(known.importance + _REPEAT_WEIGHT, 6)),
        )

    def _create(self, number: int, fact: FactCandidate, reason: str) -> None:
        while len(known := self._writer.profile.facts) >= self._limits.max_facts:
            least = min(known, key=lambda each: (each.importance, each.last_confirmed))
            self._write(
                "delete",
                fact,
                least,
                reason=f"the least important of {self._limits.max_facts} facts gives way",
            )
        self._write("add", fact, None, reason=reason, number=number)

    def _write(
        self,
        op: Operation,
        fact: FactCandidate,
        known: Fact | None,
        *,
        reason: str,
        number: int = 0,
        mentions: int | None = None,
        importance: float | None = None,
        replaced_by: str | None = None,
    ) -> None:
        """Write a change that `fact` makes: to a known fact, or as the new one at place `number` of the flush."""
        takes_text = op in {"add", "update"}
        before = known.text if known else None
        after = fact.text if takes_text else before if op in {"confirm", "overtaken"} else None
        confidence = fact.confidence if takes_text or known is None else known.confidence
        if importance is None:
            importance = known.importance if known else fact.confidence
        self._writer.write(
            "fact",
            op,
            fact.category if takes_text or known is None else known.category,
            "",
            before=before,
            after=after,
            added=fact.text if takes_text or op == "overtaken" else None,
            reason=reason,
            evidence=fact.evidence,
            hits=mentions or (known.times_mentioned if known else 1),
            said_at=self._said_at(fact),
            item_id=known.fact_id if known else fact_id(self._flush.flush_id, number),
            fact=FactDetail(
                confidence=confidence, importance=importance, session_id=self._session, replaced_by=replaced_by
            ),
        )

    def _said_at(self, fact: FactCandidate) -> datetime:
        return max(self._occurred[message_id] for message_id in fact.evidence)
