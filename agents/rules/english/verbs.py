"""English words in their other forms: "reading" for "read", and "hikes" for "hiking"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_IRREGULAR: Final = {"ski": "skiing", "die": "dying", "lie": "lying", "tie": "tying"}
_DOUBLED: Final = frozenset({"begin", "forget", "admit", "refer", "upset"})
_ONE_SYLLABLE: Final = re.compile(r"[^aeiou]*(?:qu)?[aeiou][bdfgklmnprstvz]")
_NO_FORM_OF_ANOTHER: Final = frozenset(
    {"evening", "morning", "wedding", "clothing", "ceiling", "during", "nothing", "something", "anything", "everything"}
    | {"news", "series", "species", "means", "physics", "politics", "economics", "mathematics", "athletics"}
)
_SHORTEST: Final = 3
_HISSING: Final = re.compile(r"(?:s|x|z|ch|sh)$")
_Y: Final = re.compile(r"(?<=[^aeiou])y$")
_L: Final = re.compile(r"(?<=[^aeiou][aeiou])l$")
_SILENT_E: Final = re.compile(r"(?<=\w[^eoy])e$")


def gerund(verb: str) -> str:
    """Return "reading" for "read", "baking" for "bake" and "running" for "run"."""
    lower = verb.lower()
    if lower in _IRREGULAR:
        return _IRREGULAR[lower]
    if lower in _DOUBLED or _ONE_SYLLABLE.fullmatch(lower):
        return f"{verb}{verb[-1]}ing"
    return f"{_SILENT_E.sub('', verb)}ing"


def doing(text: str) -> str:
    """Return "reading novels" for "read novels"."""
    verb, space, rest = text.partition(" ")
    return f"{gerund(verb)}{space}{rest}"


def forms(word: str) -> frozenset[str]:
    """Return a regular word in its forms, in small letters: "hike", "hikes", "hiked" and "hiking" for each of them.

    What only looks like a form of another word ("wine" of "win", "news" of "new") is none.
    """
    word = word.lower()
    if len(word) < _SHORTEST or not (word.isascii() and word.isalpha()):
        return frozenset({word})
    bases = list(_bases(word))
    found = frozenset({_plural(word)}).union(*map(_inflected, bases or [word]))
    return found - _NO_FORM_OF_ANOTHER | {word}


def _bases(word: str) -> Iterator[str]:
    """Yield what this may be the "-ing" or the plural of."""
    if word in _NO_FORM_OF_ANOTHER:
        return
    if word.endswith("ing"):
        stem = word.removesuffix("ing")
        yield from (base for base in (stem, f"{stem}e", stem[:-1]) if len(base) > 2 and word in _gerunds(base))
    elif word.endswith("s") and not word.endswith("ss"):
        candidates = (word[:-1], word[:-2], f"{word[:-3]}y")
        yield from (base for base in candidates if len(base) > 2 and _plural(base) == word)


def _inflected(base: str) -> frozenset[str]:
    past = base + "d" if base.endswith("e") else f"{_Y.sub('i', gerund(base).removesuffix('ing'))}ed"
    return _gerunds(base) | {base, _plural(base), past}


def _gerunds(base: str) -> frozenset[str]:
    """Return "traveling" and "travelling" for "travel": both are usual."""
    return frozenset({gerund(base), f"{_L.sub('ll', base)}ing"} if _L.search(base) else {gerund(base)})


def _plural(base: str) -> str:
    if _HISSING.search(base):
        return f"{base}es"
    return f"{_Y.sub('ie', base)}s"
