"""What a sentence states about its author, whatever mixture of Chinese and English it is in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agents.rules import text
from agents.rules.chinese import clauses as chinese_clauses
from agents.rules.chinese import rules as chinese_rules
from agents.rules.english import clauses as english_clauses
from agents.rules.english import rules as english_rules
from agents.rules.rulebook import Finding

__all__ = ["SIGNALS", "VERSION", "findings", "moods"]

_HAN: Final = re.compile(r"[\u4e00-\u9fff]")

SIGNALS: Final = re.compile(f"{english_rules.SIGNALS.pattern}|{chinese_rules.SIGNALS.pattern}")
"""What a text must contain for any rule to have a chance."""

VERSION: Final = hashlib.sha256(
    b"".join(source.read_bytes() for source in sorted(Path(__file__).parent.rglob("*.py")))
).hexdigest()[:12]
"""Content hash of the rules: of this package's source, since patterns and cleaners decide together."""


def findings(sentence: str) -> list[Finding]:
    """Return what the sentence states about its author, in order, each once."""
    if not SIGNALS.search(sentence):
        return []
    masked = text.mask_speech(sentence)
    found: dict[Finding, None] = {}
    if english_rules.SIGNALS.search(masked):
        for clause in english_clauses.clauses(masked):
            found.update(dict.fromkeys(english_rules.BOOK.read(clause)))
    if _HAN.search(masked):
        for clause in chinese_clauses.clauses(masked):
            found.update(dict.fromkeys(chinese_rules.BOOK.read(clause)))
    return list(found)


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
