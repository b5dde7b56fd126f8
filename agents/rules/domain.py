"""`Describer`: short facts and keywords of a conversation, for recommendation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from agents.rules import keywords, slots
from agents.rules.catalogue import Catalogue
from agents.rules.facts import candidates
from agents.rules.facts.statements import Statement, told
from schemas.flushes import BatchMessage
from schemas.pipeline import CatalogueTag
from schemas.stages import Domain

_HAN: Final = re.compile(r"[\u4e00-\u9fff]")
_FACTS: Final = 10
_FACT_CHARACTERS: Final = 30
_FACT_WORDS: Final = 30
_SPEAKERS: Final = frozenset({"user", "assistant"})
_TAGS: Final = 5
_KEYWORDS: Final = 8
_SUBJECTS: Final = slots.FAVORITES | {
    slots.LIKES, slots.HOBBIES, slots.SPORTS, slots.INSTRUMENTS, slots.LEARNING, slots.TOOLS, slots.TOPICS,
    slots.LOCATION, slots.WORK_PLACE, slots.COMPANY, slots.INDUSTRY, slots.TITLE, slots.MAJOR,
}  # fmt: skip


class Describer:
    """Finds the tags of a catalogue that the user names; without one, keywords by word lists and capitals."""

    def __init__(self, catalogue: Sequence[CatalogueTag]) -> None:
        self._catalogue = Catalogue(catalogue) if catalogue else None

    def describe(self, messages: Sequence[BatchMessage]) -> Domain:
        """Return facts on the user, and the tags that the user names, or keywords of what both sides said.

        The most frequent come first.
        """
        stated = list(told(messages))
        if self._catalogue is not None:
            own = (message.content for message in messages if message.role == "user")
            words: Sequence[str] = self._catalogue.named(own, limit=_TAGS)
        else:
            words = _keywords([message.content for message in messages if message.role in _SPEAKERS], stated)
        return Domain(facts=tuple(_facts(stated))[:_FACTS], domain=tuple(words))


def _keywords(spoken: Sequence[str], stated: Sequence[Statement]) -> Sequence[str]:
    """Return keywords, what the user says they like, do and know among them, and their name not."""
    found = [statement.finding for statement in stated if not statement.finding.retracts]
    named = [finding.value for finding in found if finding.slot in _SUBJECTS]
    own = {finding.value for finding in found if finding.slot in {slots.NAME, slots.NICKNAME}}
    return [word for word in keywords.keywords(spoken, named, limit=_KEYWORDS) if word not in own]


def _facts(stated: Iterable[Statement]) -> Iterator[str]:
    """Yield statements as facts, where they are short enough, each once."""
    for text in dict.fromkeys(candidates.word(statement, tastes=True) for statement in stated):
        if text is None:
            continue
        if len(text) < _FACT_CHARACTERS if _HAN.search(text) else len(text.split()) < _FACT_WORDS:
            yield text
