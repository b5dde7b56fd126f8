"""`LLMProcessor`: asks the model, then believes nothing of the answer that it can check.

What cannot be used is dropped with its reason: numbers that were not given, values that say nothing, slots and
tags outside the configuration, decisions on unknown proposals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

from agents.fact_processor import FoundDomain, FoundFacts, FoundPreferences, Related
from agents.llm import domain, facts, merging, organising
from agents.llm.answers import dropped
from agents.llm.client import Completed, ModelClient, Prompt, T
from agents.llm.formats import (
    BULLETS,
    COMPARED_FACTS,
    DECISIONS,
    DOMAIN,
    FACTS,
    GROUPS,
    PREFERENCES,
    RELATION,
    SHORT,
    SLOTS,
    TAGS,
    AnswerFormat,
    SlotItem,
)
from agents.llm.nothing import is_nothing
from agents.llm.prompts import Prompts, numbered, own
from agents.llm.relations import relation_in
from agents.llm.values import Numbers
from agents.processor import (
    Extraction,
    MergeAnswer,
    Organisation,
    Proposal,
    Shortening,
    SlotName,
    StageFailed,
    StageUnavailable,
    StoredValue,
    Summary,
    Tagging,
)
from agents.slots import slot_definitions
from schemas.facts import Fact, Preference
from schemas.flushes import FlushBatch
from schemas.pipeline import PipelineConfig
from schemas.profiles import unify
from schemas.stages import Candidate, Dropped, EventTag, Memo, MemoBullet
from streams.settings import ModelSettings

_SUMMARY_TEMPERATURE: Final = 0.2
_TEMPERATURE: Final = 0.0
_RELATION_TOKENS: Final = 256
"""Room for one word, and for some thought before it."""

_NAME_LIMIT: Final = 64
_VALUE_LIMIT: Final = 4_000
"""Characters of a name and of a value; a model that runs on writes more."""


class LLMProcessor:
    """Implements `agents.processor.PipelineProcessor` with a language model.

    Args:
        settings: the model server; it must name a model, unless `config` does.
        config: language, slots, tags and models; a model named here is used instead of the one in `settings`.
        client: calls the server; made from `settings` when not given.

    Attributes:
        name: the model of all stages but the summary, which may have its own.
        version: content hash of the prompts in force.
    """

    def __init__(self, settings: ModelSettings, config: PipelineConfig, *, client: ModelClient | None = None) -> None:
        self.name = config.best_llm_model or settings.name
        self._summary_name = config.summary_llm_model or settings.summary_name or self.name
        self._settings = settings
        self._strict = config.profile_strict_mode
        self._slots = slot_definitions(config)
        self._tags = {unify(tag.name): tag.name for tag in config.event_tags}
        self._reads_domain = config.reads_domain
        self._prompts = Prompts(config)
        self.version = self._prompts.version
        self._client = client or ModelClient(settings)

    async def close(self) -> None:
        """Close the connections to the model server."""
        await self._client.close()

    @property
    def answers(self) -> int:
        """How often the model server has given a completion so far."""
        return self._client.answers

    async def summarise(self, batch: FlushBatch, known: Sequence[SlotName]) -> Summary:
        """Sum up what the batch's user says about themselves; without a message of theirs no model is asked."""
        ids = {number: message.message_id for number, message in numbered(batch) if number}
        if not ids:
            return Summary()
        done = await self._ask(
            BULLETS,
            self._prompts.summary(batch, known),
            model=self._summary_name,
            temperature=_SUMMARY_TEMPERATURE,
        )
        bullets: list[MemoBullet] = []
        drops = list(done.answer.dropped)
        for item in done.answer.items:
            text = item.text.without_bullet()
            drops += _unknown_numbers(BULLETS, item.messages, ids)
            evidence = tuple(ids[number] for number in item.messages if number in ids)
            if reason := _unusable(text):
                drops.append(dropped(BULLETS, reason, text))
            elif not evidence:
                drops.append(dropped(BULLETS, "no_evidence", text))
            else:
                bullets.append(MemoBullet(text=text, evidence=evidence))
        return Summary(bullets=tuple(bullets), calls=done.calls, dropped=tuple(drops))

    async def extract(self, memo: Memo, known: Sequence[SlotName]) -> Extraction:
        """Turn a memo's bullets into candidates, one for each slot and one for what is taken back from it."""
        if not memo.bullets:
            return Extraction()
        done = await self._ask(SLOTS, self._prompts.extract(memo, known))
        drops = list(done.answer.dropped)
        bullets = dict(enumerate(memo.bullets, start=1))
        found: list[Candidate] = []
        for item in done.answer.items:
            drops += _unknown_numbers(SLOTS, item.bullets, bullets)
            cited = [bullets[number] for number in item.bullets if number in bullets]
            candidate = _candidate(item, cited)
            if reason := self._refusal(candidate):
                drops.append(dropped(SLOTS, reason, f"{candidate.topic}/{candidate.sub_topic}: {candidate.memo}"))
            else:
                found.append(candidate)
        order = {ref.message_id: position for position, ref in enumerate(memo.messages)}
        return Extraction(candidates=_joined(found, order), calls=done.calls, dropped=tuple(drops))

    async def tag(self, memo: Memo) -> Tagging:
        """Tag a memo; without configured tags, or bullets, no model is asked."""
        if not self._tags or not memo.bullets:
            return Tagging()
        done = await self._ask(TAGS, self._prompts.tag(memo))
        drops = list(done.answer.dropped)
        tags: dict[EventTag, None] = {}
        for item in done.answer.items:
            name = self._tags.get(unify(item.tag))
            if name is None:
                drops.append(dropped(TAGS, "unknown_tag", f"{item.tag}: {item.value}"))
            elif reason := _unusable(item.value):
                drops.append(dropped(TAGS, reason, f"{item.tag}: {item.value}"))
            else:
                tags[EventTag(tag=name, value=str(item.value))] = None
        return Tagging(tags=tuple(tags), calls=done.calls, dropped=tuple(drops))

    async def merge(self, proposals: Sequence[Proposal], memo: Memo) -> MergeAnswer:
        """Decide on every proposal: one that the model passes over is asked once more alone, then kept."""
        if not proposals:
            return MergeAnswer()
        done = await self._ask(DECISIONS, self._prompts.merge(proposals, memo))
        decided, drops = merging.decisions(done.answer.items, proposals)
        missing = [proposal for proposal in proposals if proposal.number not in decided]
        alone = await asyncio.gather(
            *(self._decide_alone(proposal, memo) for proposal in missing), return_exceptions=True
        )
        calls = list(done.calls)
        drops = [*done.answer.dropped, *drops]
        unavailable: StageUnavailable | None = None
        for proposal, result in zip(missing, alone, strict=True):
            if isinstance(result, StageUnavailable):
                unavailable = unavailable or result
                calls += result.calls
            elif isinstance(result, BaseException):
                raise result
            else:
                calls += result.calls
                drops += result.dropped
                decided[proposal.number] = result.decisions[0]
        if unavailable:
            raise StageUnavailable(unavailable.reason, unavailable.detail, calls, unavailable.retry_after)
        ordered = tuple(decided[proposal.number] for proposal in proposals)
        return MergeAnswer(decisions=ordered, calls=tuple(calls), dropped=tuple(drops))

    async def organise(self, topic: str, values: Sequence[StoredValue], limit: int) -> Organisation:
        """Regroup a topic: the groups that are as they should be, though they may leave values out."""
        done = await self._ask(GROUPS, self._prompts.organise(topic, values, limit))
        allowed = {sub_topic for name, sub_topic in self._slots if name == topic} if self._strict else None
        groups, drops = organising.groups(done.answer.items, values, allowed)
        return Organisation(groups=groups, calls=done.calls, dropped=(*done.answer.dropped, *drops))

    async def shorten(self, topic: str, value: StoredValue, budget: int) -> Shortening:
        """Say a value in fewer words; how many they are, and what they have left out, is not checked here."""
        done = await self._ask(SHORT, self._prompts.shorten(topic, value, budget))
        memo = str(done.answer.items[-1].memo)
        if reason := _unusable(memo):
            return Shortening(calls=done.calls, dropped=(*done.answer.dropped, dropped(SHORT, reason, memo)))
        return Shortening(value=memo, calls=done.calls, dropped=done.answer.dropped)

    async def extract_facts(self, batch: FlushBatch, known: Sequence[Fact]) -> FoundFacts:
        """Return the facts of the user's messages; without such a message no model is asked."""
        said = own(batch)
        if not said:
            return FoundFacts()
        compared = bool(known or batch.context)
        done = await self._ask(
            COMPARED_FACTS if compared else FACTS, self._prompts.facts(batch, known, compared=compared)
        )
        evidence = tuple(message.message_id for message in said)
        found, drops = facts.fact_candidates(done.answer.items, known, evidence)
        return FoundFacts(facts=found, calls=done.calls, dropped=(*done.answer.dropped, *drops))

    async def extract_preferences(self, batch: FlushBatch, known: Sequence[Preference]) -> FoundPreferences:
        """Return the preferences in the user's messages; without such a message no model is asked."""
        said = own(batch)
        if not said:
            return FoundPreferences()
        done = await self._ask(PREFERENCES, self._prompts.preferences(batch, known))
        found, drops = facts.preference_candidates(done.answer.items, known, said)
        return FoundPreferences(preferences=found, calls=done.calls, dropped=(*done.answer.dropped, *drops))

    async def relate(self, kind: Literal["fact", "preference"], known: str, new: str) -> Related:
        """Say how two statements relate; when the model gives no usable answer, there is no relation."""
        try:
            done = await self._ask(RELATION, self._prompts.relation(kind, known, new), max_tokens=_RELATION_TOKENS)
        except StageFailed as failure:
            return Related(calls=failure.calls, dropped=(dropped(RELATION, "unreadable_relation", str(failure)),))
        answer = done.answer.items[-1].relation
        relation = relation_in(answer)
        drops = () if relation else (dropped(RELATION, "unreadable_relation", answer),)
        return Related(relation=relation, calls=done.calls, dropped=(*done.answer.dropped, *drops))

    async def describe(self, batch: FlushBatch) -> FoundDomain:
        """Return facts and keywords; when none are wanted, or the user says nothing, no model is asked."""
        if not self._reads_domain or not own(batch):
            return FoundDomain()
        done = await self._ask(DOMAIN, self._prompts.domain(batch))
        found, drops = domain.described(done.answer.items[-1])
        return FoundDomain(domain=found, calls=done.calls, dropped=(*done.answer.dropped, *drops))

    async def _decide_alone(self, proposal: Proposal, memo: Memo) -> MergeAnswer:
        """Ask about one proposal; whatever the model answers now, there is a decision."""
        try:
            done = await self._ask(DECISIONS, self._prompts.merge([proposal], memo))
        except StageFailed as failure:
            return MergeAnswer(decisions=(merging.fallback(proposal, failure.reason),), calls=failure.calls)
        decided, drops = merging.decisions(done.answer.items, [proposal])
        decision = decided.get(proposal.number) or merging.fallback(proposal, "no_decision")
        return MergeAnswer(decisions=(decision,), calls=done.calls, dropped=(*done.answer.dropped, *drops))

    async def _ask(
        self,
        answer_format: AnswerFormat[T],
        prompt: Prompt,
        *,
        model: str | None = None,
        temperature: float = _TEMPERATURE,
        max_tokens: int | None = None,
    ) -> Completed[T]:
        limit = self._settings.max_completion_tokens
        return await self._client.complete(
            prompt,
            answer_format,
            model=model or self.name,
            temperature=temperature,
            max_tokens=limit if max_tokens is None else min(max_tokens, limit),
        )

    def _refusal(self, candidate: Candidate) -> str | None:
        """Return why a candidate cannot be kept, or None."""
        if is_nothing(candidate.topic) or is_nothing(candidate.sub_topic):
            return "no_slot"
        if len(candidate.topic) > _NAME_LIMIT or len(candidate.sub_topic) > _NAME_LIMIT:
            return "name_too_long"
        if reason := _unusable(candidate.memo):
            return reason
        if self._strict and (candidate.topic, candidate.sub_topic) not in self._slots:
            return "slot_not_configured"
        return None if candidate.evidence else "no_evidence"


def _unusable(text: str) -> str | None:
    """Return why a text is no value, or None."""
    if is_nothing(text):
        return "says_nothing"
    return "value_too_long" if len(text) > _VALUE_LIMIT else None


def _unknown_numbers(answer_format: AnswerFormat[T], numbers: Numbers, given: Container[int]) -> Iterator[Dropped]:
    for number in numbers:
        if number not in given:
            yield dropped(answer_format, "unknown_number", str(number))
    for text in numbers.unreadable:
        yield dropped(answer_format, "unknown_number", text)


def _candidate(item: SlotItem, cited: Iterable[MemoBullet]) -> Candidate:
    said = item.assertion.lower() == "said"
    return Candidate(
        topic=unify(item.topic),
        sub_topic=unify(item.sub_topic),
        memo=str(item.memo),
        evidence=tuple(dict.fromkeys(message_id for bullet in cited for message_id in bullet.evidence)),
        assertion="said" if said else "inferred",
        retracts=item.retracts,
    )


def _joined(candidates: Iterable[Candidate], order: Mapping[str, int]) -> tuple[Candidate, ...]:
    """Join the memos of each slot, exact repeats once; what is taken back stays apart from what is said."""
    groups: dict[tuple[str, str, bool], list[Candidate]] = {}
    for candidate in candidates:
        groups.setdefault((candidate.topic, candidate.sub_topic, candidate.retracts), []).append(candidate)
    return tuple(_one(group, order) for group in groups.values())


def _one(group: Sequence[Candidate], order: Mapping[str, int]) -> Candidate:
    evidence = {message_id for each in group for message_id in each.evidence}
    all_said = all(each.assertion == "said" for each in group)
    return msgspec.structs.replace(
        group[0],
        memo="; ".join(dict.fromkeys(each.memo for each in group)),
        evidence=tuple(sorted(evidence, key=lambda message_id: (order.get(message_id, len(order)), message_id))),
        assertion="said" if all_said else "inferred",
    )
