"""What the user's sentences state, for facts and preferences: what profile slots hold, and more."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from agents.processor import SlotName
from agents.rules import slots, text
from agents.rules.chinese import clauses as chinese_clauses
from agents.rules.chinese import rules as chinese_rules
from agents.rules.english import clauses as english_clauses
from agents.rules.english import rules as english_rules
from agents.rules.rulebook import Clause, Finding, Rulebook
from schemas.flushes import BatchMessage
from schemas.pipeline import Language


@dataclass(frozen=True, slots=True)
class Statement:
    """A finding and how it was said.

    Attributes:
        language: of the rule that found it.
        clause: the words that it was found in.
        sentence: the sentence that these belong to.
        message_id: of the message that this is part of.
        implied: its subject is left out.
        hedged: the user is not sure of it.
    """

    finding: Finding
    language: Language
    clause: str
    sentence: str
    message_id: str
    implied: bool
    hedged: bool


@dataclass(frozen=True, slots=True)
class _Reader:
    language: Language
    script: re.Pattern[str]
    hedges: re.Pattern[str]
    books: tuple[Rulebook, Rulebook]

    def clauses(self, sentence: str) -> Iterator[Clause]:
        split = chinese_clauses.clauses if self.language == "zh" else english_clauses.clauses
        return split(sentence)


_READERS: Final = (
    _Reader(
        "en",
        re.compile(r"[A-Za-z]{2}"),
        re.compile(
            r"\b(?:maybe|perhaps|probably|possibly|I think|I guess|I believe|kind of|sort of)\b\s*", re.IGNORECASE
        ),
        english_rules.BOOKS,
    ),
    _Reader(
        "zh",
        re.compile(r"[\u4e00-\u9fff]"),
        re.compile(r"可能|大概|也许|或许|算是|估计|差不多"),
        chinese_rules.BOOKS,
    ),
)

_EVENTS: Final = frozenset(slot for slot in slots.FILLED if slot[0] == "life_event" and slot != slots.PLANS)
_TASTES: Final = frozenset({slots.LIKES, slots.DISLIKES})
_COUPLES: Final = frozenset(map(slots.person, ("girlfriend", "boyfriend", "partner")))
_GIVES_WAY_TO: Final[dict[SlotName, frozenset[SlotName]]] = {
    slots.LOCATION: frozenset({slots.WORK_PLACE}),
    slots.LINE_OF_WORK: frozenset({slots.TITLE}),
    slots.SPORTS: frozenset({slots.ABILITIES, slots.HABITS}),
    slots.INSTRUMENTS: frozenset({slots.ABILITIES, slots.LEARNING}),
    slots.LANGUAGES: frozenset({slots.ABILITIES}),
    slots.HABITS: frozenset({slots.EXERCISE, slots.SMOKING, slots.ALCOHOL}),
    slots.LIKES: slots.WISHES,
    slots.DISLIKES: slots.WISHES,
    slots.CHOICES: frozenset({slots.TOOLS, slots.COMMUNICATION, slots.TIME_HABITS, slots.CONTACT_TIMES}),
    slots.MARITAL_STATUS: _COUPLES,
}
"""What is said more exactly by a finding of the same clause in one of these slots."""


_REMEMBERED: Final = 2_000
"""Characters of a message up to which what it states is remembered for a while."""


def told(messages: Sequence[BatchMessage]) -> Iterator[Statement]:
    """Yield what the user's own messages state about the user, in order."""
    for message in messages:
        if message.role == "user":
            read = _told_again if len(message.content) <= _REMEMBERED else _told
            yield from read(message.message_id, message.content)


def _told(message_id: str, content: str) -> tuple[Statement, ...]:
    return tuple(each for sentence in text.statements(content) for each in _read(sentence, message_id))


# A message is read for facts, for preferences and for keywords, often at once.
_told_again: Final = lru_cache(maxsize=1024)(_told)


def _read(sentence: str, message_id: str) -> Iterator[Statement]:
    masked = text.mask_speech(sentence)
    for reader in _READERS:
        if not reader.script.search(masked):
            continue
        for clause in reader.clauses(masked):
            plain = reader.hedges.sub("", clause.text).lstrip()
            certain = clause if plain == clause.text else replace(clause, text=plain)
            hedged = certain is not clause or bool(reader.hedges.search(clause.opening))
            found = dict.fromkeys(finding for book in reader.books for finding in book.read(certain))
            for finding in _most_exact(list(found)):
                yield Statement(
                    finding, reader.language, clause.whole, sentence, message_id, implied=clause.implied, hedged=hedged
                )


def _most_exact(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings of a clause without those that another one says better.

    An event ("I moved to Oslo") is told only where no lasting fact comes of it ("I live in Oslo").
    """
    filled = {finding.slot for finding in findings}
    for finding in findings:
        if finding.slot in _EVENTS and not filled <= _EVENTS | _TASTES:
            continue
        if filled.isdisjoint(_GIVES_WAY_TO.get(finding.slot, ())):
            yield finding
