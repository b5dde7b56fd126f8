"""`RuleProcessor`: every stage's judgement by signal words and patterns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, ParamSpec, TypeVar

from agents.fact_processor import FoundDomain, FoundFacts, FoundPreferences, Related
from agents.in_place import computed, is_short
from agents.processor import (
    Extraction,
    MergeAnswer,
    Organisation,
    Proposal,
    Shortening,
    SlotName,
    StoredValue,
    Summary,
    Tagging,
)
from agents.rules import exclusions, merging, reading, relations, slots, tagging, text
from agents.rules.facts import candidates, wishes
from agents.rules.rulebook import Finding
from schemas.facts import Fact, Preference
from schemas.flushes import BatchMessage, FlushBatch
from schemas.pipeline import PipelineConfig
from schemas.stages import Candidate, Memo, MemoBullet

if TYPE_CHECKING:
    from agents.rules.domain import Describer

P = ParamSpec("P")
R = TypeVar("R")

_REMEMBERED: Final = 1024
"""Sentences of which it is remembered for a while what they state."""


class RuleProcessor:
    """Reads what users plainly state about themselves; needs no model and always gives the same answer.

    It raises nothing, and its slots have English names in both languages (`agents.rules.slots`).

    Attributes:
        name: ``rules``.
        version: content hash of the rules.
        answers: of a model: none.
    """

    def __init__(self, config: PipelineConfig) -> None:
        self.name = "rules"
        self.answers = 0
        self.version = reading.VERSION
        # A sentence is read for the summary and, soon after, for what it puts into slots.
        self._stated = lru_cache(_REMEMBERED)(_stated)
        self._tags = config.event_tags
        self._domain = _describer(config) if config.reads_domain else None
        self._reads_moods = any(tagging.family(tag) == "mood" for tag in config.event_tags)

    async def summarise(self, batch: FlushBatch, known: Sequence[SlotName]) -> Summary:
        """Return the sentences of the user's own messages that state something, verbatim, one bullet each."""
        own = [message for message in batch.messages if message.role == "user"]
        return await _computed(_contents(own), self._summarise, own)

    async def extract(self, memo: Memo, known: Sequence[SlotName]) -> Extraction:
        """Return what the bullets say.

        A slot that holds several values gets one candidate with all of them, and one with all that is taken back. A
        slot that holds one value gets each in the order they were said, so that the profile shows how it changed.
        """
        return await _computed([bullet.text for bullet in memo.bullets], self._extract, memo.bullets)

    async def tag(self, memo: Memo) -> Tagging:
        """Return moods and goals, for the configured tags that ask for them."""
        return Tagging(tags=tagging.tags(memo, self._tags))

    async def merge(self, proposals: Sequence[Proposal], memo: Memo) -> MergeAnswer:
        """Decide on every proposal."""
        return MergeAnswer(decisions=merging.decide(proposals))

    async def organise(self, topic: str, values: Sequence[StoredValue], limit: int) -> Organisation:
        """Leave the topic as it is: rules cannot tell which slots mean the same."""
        return Organisation()

    async def shorten(self, topic: str, value: StoredValue, budget: int) -> Shortening:
        """Leave the value as it is: rules cannot say it in fewer words without losing some of it."""
        return Shortening()

    async def extract_facts(self, batch: FlushBatch, known: Sequence[Fact]) -> FoundFacts:
        """Return what the user's messages state, worded in the third person and in their language.

        Likes and dislikes, and what the user does not eat, are preferences only.
        """
        facts = await _computed(_contents(batch.messages), candidates.extract, batch.messages, known)
        return FoundFacts(facts=facts)

    async def extract_preferences(self, batch: FlushBatch, known: Sequence[Preference]) -> FoundPreferences:
        """Return how the user's messages want things to be, and what the user likes and dislikes.

        Habits are told as preferences only where the messages are not read for facts too.
        """
        habits = batch.signals is not None and not batch.signals.facts
        found = await _computed(_contents(batch.messages), wishes.extract, batch.messages, known, habits=habits)
        return FoundPreferences(preferences=found)

    async def relate(self, kind: Literal["fact", "preference"], known: str, new: str) -> Related:
        """Compare two statements by their wording."""
        return Related(relation=relations.facts(known, new) if kind == "fact" else relations.preferences(known, new))

    async def describe(self, batch: FlushBatch) -> FoundDomain:
        """Return facts on the user, and the tags that are named, or keywords; nothing unless configured."""
        if self._domain is None:
            return FoundDomain()
        return FoundDomain(domain=await _computed(_contents(batch.messages), self._domain.describe, batch.messages))

    def _summarise(self, messages: Sequence[BatchMessage]) -> Summary:
        return Summary(
            bullets=tuple(
                MemoBullet(text=sentence, evidence=(message.message_id,))
                for message in messages
                for sentence in self._telling(message)
            )
        )

    def _extract(self, bullets: Sequence[MemoBullet]) -> Extraction:
        tally = _Tally()
        for bullet in bullets:
            for finding in self._stated(bullet.evidence, bullet.text):
                tally.add(finding, bullet.evidence)
        return Extraction(candidates=tuple(tally.candidates()))

    def _telling(self, message: BatchMessage) -> Iterator[str]:
        if not reading.SIGNALS.search(message.content):
            return
        for sentence in text.statements(message.content):
            if self._stated((message.message_id,), sentence) or (self._reads_moods and any(reading.moods(sentence))):
                yield sentence


def _stated(_message_ids: tuple[str, ...], sentence: str) -> tuple[Finding, ...]:
    """Return what a sentence of these messages states."""
    return tuple(reading.findings(sentence))


def _describer(config: PipelineConfig) -> Describer:
    from agents.rules.domain import Describer  # its word lists take a while, and few configurations ask for it

    return Describer(config.tag_catalogue)


def _contents(messages: Iterable[BatchMessage]) -> list[str]:
    return [message.content for message in messages]


async def _computed(texts: Sequence[str], function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function that reads these texts: in a thread when that takes longer than the loop may wait."""
    return await computed(is_short(texts) and all(map(reading.is_ready, texts)), function, *args, **kwargs)


class _Tally:
    """What several statements amount to, the later ones outweighing the earlier."""

    def __init__(self) -> None:
        self._said: dict[SlotName, dict[str, _Item]] = {}
        self._retracted: dict[SlotName, dict[str, _Item]] = {}

    def add(self, finding: Finding, evidence: tuple[str, ...]) -> None:
        if finding.retracts:
            self._retract(finding.slot, finding.value, evidence, implied=finding.if_known)
            return
        for slot, values in exclusions.ended(finding.slot, finding.value):
            for value in values or (slots.WHATEVER,):
                self._retract(slot, value, evidence, implied=True)
        key = merging.item_key(finding.value)
        for slot, value in exclusions.contrary(finding):
            said = finding.flips and slot in slots.TASTES
            self._retract(slot, value, evidence, implied=not said)
        for taken_back in (key, slots.WHATEVER):
            self._retracted.get(finding.slot, {}).pop(taken_back, None)
        items = self._said.setdefault(finding.slot, {})
        if slots.holds_one_value(finding.slot) and key in items and key != next(reversed(items)):
            items.pop(key)
        items.setdefault(key, _Item(finding.value)).cite(evidence)

    def _retract(self, slot: SlotName, value: str, evidence: tuple[str, ...], *, implied: bool = False) -> None:
        key = merging.item_key(value)
        said = self._said.get(slot, {})
        for gone in [each for each, item in said.items() if merging.is_gone(slot, item.value, value)]:
            del said[gone]
        item = self._retracted.setdefault(slot, {}).setdefault(key, _Item(value, implied=True))
        item.implied = item.implied and implied
        item.cite(evidence)

    def candidates(self) -> Iterator[Candidate]:
        """Yield what is taken back, then what is said.

        Where one value replaces another anyway, the old one need not be taken back. What is taken back only because its
        opposite was said is ``inferred``: mostly, there is nothing of it in the profile.
        """
        for slot, items in self._retracted.items():
            if slots.holds_one_value(slot) and self._said.get(slot):
                continue
            for implied in (False, True):
                if taken_back := [item for item in items.values() if item.implied is implied]:
                    yield _candidate(slot, taken_back, retracts=True)
        for slot, items in self._said.items():
            if slots.holds_one_value(slot):
                yield from (_candidate(slot, [item]) for item in items.values())
            elif items:
                yield _candidate(slot, list(items.values()))


def _candidate(slot: SlotName, items: Sequence[_Item], *, retracts: bool = False) -> Candidate:
    topic, sub_topic = slot
    return Candidate(
        topic=topic,
        sub_topic=sub_topic,
        memo=slots.SEPARATOR.join(item.value for item in items),
        evidence=tuple(dict.fromkeys(cited for item in items for cited in item.evidence)),
        assertion="inferred" if retracts and items[0].implied else "said",
        retracts=retracts,
    )


class _Item:
    def __init__(self, value: str, *, implied: bool = False) -> None:
        self.value = value
        self.implied = implied
        self.evidence: tuple[str, ...] = ()

    def cite(self, evidence: tuple[str, ...]) -> None:
        self.evidence = tuple(dict.fromkeys((*self.evidence, *evidence)))
