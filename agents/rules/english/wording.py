"""English values put into the words of a sentence about someone else."""

from __future__ import annotations

import re
from typing import Final

_THEIRS: Final = (
    (re.compile(r"\bmy own\b", re.IGNORECASE), "their own"),
    (re.compile(r"\b(?:my|our)\b", re.IGNORECASE), "their"),
    (re.compile(r"\b(?:myself|ourselves)\b", re.IGNORECASE), "themselves"),
    (re.compile(r"\b(?:me|us)\b", re.IGNORECASE), "them"),
)
_IRREGULAR: Final = {"do": "does", "go": "goes", "have": "has", "am": "is", "are": "is", "cannot": "cannot"}
_NO_PRESENT: Final = re.compile(r"(?:quit|stopped|gave up|never|always|often|rarely|seldom|usually|hardly ever)\b")
_COUNTED: Final = re.compile(
    r"(?:an?|the|no|two|three|four|five|six|several|many|some|a few|\d+)\b|.*\b(?:kids|children)$", re.IGNORECASE
)
_VOWEL: Final = re.compile(r"(?!uni|eu|use|one)[aeiou]|hour|honest", re.IGNORECASE)


def theirs(text: str) -> str:
    """Return "their dog" for "my dog"."""
    for word, other in _THEIRS:
        text = word.sub(other, text)
    return text


def one(text: str) -> str:
    """Return "a cat" for "cat", and counted things as they are."""
    text = theirs(text)
    if _COUNTED.match(text):
        return text
    return f"{'an' if _VOWEL.match(text) else 'a'} {text}"


def pet(text: str) -> str:
    """Return "a cat called Mochi" for "Mochi (cat)", and "a cat" for "cat"."""
    name, bracket, kind = text.rstrip(")").partition(" (")
    return f"{one(kind)} called {name}" if bracket else one(text)


def does(text: str) -> str:
    """Return "goes running" for "go running": the verb in the third person."""
    text = theirs(text)
    verb, space, rest = text.partition(" ")
    if adverb := _NO_PRESENT.match(text):
        if adverb[0] in {"quit", "stopped", "gave up"}:
            return text
        return f"{adverb[0]} {does(text[adverb.end() :].strip())}"
    return f"{_third_person(verb)}{space}{rest}"


def _third_person(verb: str) -> str:
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if re.search(r"(?:s|sh|ch|x|z|o)$", verb):
        return verb + "es"
    return re.sub(r"(?<=[^aeiou])y$", "ie", verb) + "s"


def eats(text: str) -> str:
    """Return "pork" for "no pork": what was given up and is eaten again."""
    return text.removeprefix("no ")


def small(text: str) -> str:
    """Return "no allergies" for "No allergies"."""
    return text[:1].lower() + text[1:]
