"""What a sentence states about its author, whatever mixture of Chinese and English it is in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from agents.rules import slots, text
from agents.rules.chinese import clauses as chinese_clauses
from agents.rules.chinese import rules as chinese_rules
from agents.rules.english import clauses as english_clauses
from agents.rules.english import rules as english_rules
from agents.rules.rulebook import Clause, Finding, Rulebook

__all__ = ["SIGNALS", "VERSION", "findings", "is_ready", "moods"]

_HAN: Final = re.compile(r"[\u4e00-\u9fff]")
_LATIN: Final = re.compile(r"[A-Za-z]")

_NO_TASTES: Final = frozenset({slots.COMMUNICATION, slots.TIME_HABITS, slots.QUIET_TIMES, slots.CONTACT_TIMES})

SIGNALS: Final = re.compile(f"{english_rules.SIGNALS.pattern}|{chinese_rules.SIGNALS.pattern}")
"""What a text must contain for any rule to have a chance."""

VERSION: Final = hashlib.sha256(
    b"".join(source.read_bytes() for source in sorted(Path(__file__).parent.rglob("*.py")))
).hexdigest()[:12]
"""Content hash of the rules: of this package's source, since patterns and cleaners decide together."""


def is_ready(text: str) -> bool:
    """Whether the rules of the languages that a text is in are compiled, so that it can be read at once."""
    return all(
        book.is_compiled or not script.search(text)
        for script, books in ((_LATIN, english_rules.BOOKS), (_HAN, chinese_rules.BOOKS))
        for book in books
    )


def findings(sentence: str) -> list[Finding]:
    """Return what the sentence states about its author, in order, each once."""
    if not SIGNALS.search(sentence):
        return []
    masked = text.mask_speech(sentence)
    found: dict[Finding, None] = {}
    if english_rules.SIGNALS.search(masked):
        for clause in english_clauses.clauses(masked):
            found.update(dict.fromkeys(_filling(english_rules.BOOKS, clause)))
    if _HAN.search(masked):
        for clause in chinese_clauses.clauses(masked):
            found.update(dict.fromkeys(_filling(chinese_rules.BOOKS, clause)))
    return list(found)


def _filling(books: Sequence[Rulebook], clause: Clause) -> Iterator[Finding]:
    """Yield what a clause states that fills a slot.

    What is done at some time is liked with its time, and a manner or a time to be disturbed is not liked or disliked.
    """
    found = [finding for book in books for finding in book.read(clause)]
    filled = {finding.slot for finding in found}
    for finding in found:
        if finding.slot == slots.TIME_HABITS:
            yield Finding(slots.LIKES, finding.value)
        elif finding.slot in slots.FILLED and not (finding.slot in slots.TASTES and filled & _NO_TASTES):
            yield finding


def moods(sentence: str) -> Iterator[str]:
    """Yield the moods that the author names."""
    masked = text.mask_speech(sentence)
    for clauses, pattern in (
        (english_clauses.clauses, english_rules.MOOD),
        (chinese_clauses.clauses, chinese_rules.MOOD),
    ):
        for clause in clauses(masked):
            match = pattern.match(clause.text)
            if match is not None:
                yield match["mood"]
