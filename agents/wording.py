"""Comparing short statements by their words: whether two are the same, and whether one bears out the other."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence, Set
from functools import cached_property, lru_cache
from typing import Final

_HAN_RANGES: Final = r"\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

HAN: Final = f"[{_HAN_RANGES}]"
"""Pattern of a Chinese character."""

_EDGES: Final = " \t\r\n.,;:!?。，；：！？、…\"'“”‘’"
_SPACES: Final = re.compile(r"\s+")
_WORD: Final = rf"[^\W_{_HAN_RANGES}]+"
_UNIT: Final = re.compile(f"{HAN}|{_WORD}")
_PIECE: Final = re.compile(f"(?=({HAN}{{2}}))|({_WORD})")
_HAN: Final = re.compile(HAN)
_LETTERS: Final = re.compile(rf"[^\W\d_{_HAN_RANGES}]+")
_NUMBER: Final = re.compile(r"\d+")
_CALLED: Final = re.compile(f"[姓叫]({HAN})")
_POSSESSIVE: Final = re.compile(r"(?<=\w)['’]s\b")
_STEM: Final = 4
"""Letters that two forms of a word share."""

_REMEMBERED: Final = 16
"""Texts whose words are kept: the statements of a message are compared with the same few."""

_QUOTED_LINES: Final = re.compile(r"```.*?(?:```|\Z)|^[ \t]*>.*?$", re.DOTALL | re.MULTILINE)
_SENTENCE: Final = re.compile(r"[^.!?。！？\n]+")
_THE_USER: Final = re.compile(r"\bthe user\b|用户", re.IGNORECASE)
"""People do not speak so of themselves, instructions do."""

_QUOTATION: Final = re.compile(r"\"[^\"\n]{1,2000}\"|“[^”]{1,2000}”|「[^」]{1,2000}」|『[^』]{1,2000}』", re.DOTALL)

_NEGATION: Final = re.compile(
    r"不(?![错仅但同论断]|过(?!敏))|没(?!错)|n['’]t\b"
    r"|\b(?:not|no|never|none|without|nor|neither|cannot|hardly)\b",
    re.IGNORECASE,
)
_ENDED: Final = re.compile(
    r"了|\b(?:stopped|quit|gave up|given up|used to|former|ex|left|lost|divorced|died|passed away|ran away|put down"
    r"|gave away|sold|moved|resigned|retired)\b",
    re.IGNORECASE,
)

_EMPTY: Final = frozenset("用户的是在有了和与不没我他她它你们也都就很岁")
_EMPTY_WORDS: Final = frozenset(
    _UNIT.findall(
        "user users the a an is are was has have had and or of to in at on for with as that this their they them"
        " his her i my me not no does do did be been years old"
    )
)
"""What any statement about a user may hold."""


def comparable(text: str) -> str:
    """Return a statement in the form in which repeats are equal: width, case, spaces and end marks do not count."""
    return _SPACES.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip(_EDGES)


def shared_share(statement: str, source: str) -> float:
    """Return the share of a statement's words that occur in a text, from 0 to 1; Chinese counts by the character.

    Words that any statement about a user may hold do not count, and numbers only where there is nothing else; a
    statement of nothing at all shares all of it.
    """
    wanted, present = _words(statement).telling, _words(source).telling
    wanted = {unit for unit in wanted if not unit.isdecimal()} or wanted
    return sum(_holds(present, unit) for unit in wanted) / len(wanted) if wanted else 1.0


def own_statements(text: str) -> str:
    """Return a text without what its author only passes on: quotations, code, sentences about "the user"."""
    text = _QUOTED_LINES.sub(" ", text)
    # Sentence by sentence: one expression for it would look at a long text once for each of its characters.
    text = _SENTENCE.sub(lambda sentence: " " if _THE_USER.search(sentence[0]) else sentence[0], text)
    return _QUOTATION.sub(" ", text)


def turns_round(statement: str, source: str) -> bool:
    """Whether a statement denies something where the text that it comes from denies nothing."""
    return bool(_NEGATION.search(statement)) and not (_NEGATION.search(source) or _ENDED.search(source))


def says_something(statement: str) -> bool:
    """Whether a statement holds any word that not every statement about a user may hold."""
    return bool(_words(statement).telling)


def missing_names(statement: str, source: str) -> list[str]:
    """Return the names and numbers of a statement that do not occur in a text.

    Words with a capital are names, except the first one, and so are words of letters within Chinese; of a Chinese
    name, which follows 姓 or 叫, the first character counts. Numbers are compared where the text has any in digits,
    since it may spell them out; a year may be given by its last two digits.
    """
    text, given = _words(statement).text, _words(source)
    chinese = by_character(text)
    names = [name[0] for name in _LETTERS.finditer(text) if chinese or (name.start() > 0 and not name[0].islower())]
    missing = [
        name
        for name in names
        if len(name) > 1 and name.casefold() not in _EMPTY_WORDS and not _holds(given.letters, name.casefold())
    ]
    missing += [name for name in _CALLED.findall(text) if name not in given.units]
    if given.numbers:
        endings = tuple(number for number in given.numbers if len(number) == 2)
        missing += [
            number
            for number in _NUMBER.findall(text)
            if number not in given.numbers and not (len(number) == 4 and number.endswith(endings))
        ]
    return missing


def rather_from(statement: str, other: str, source: str) -> bool:
    """Whether a statement holds more that occurs in another text alone than it shares with its source.

    Chinese counts by pairs of characters here: single ones are too common to tell where they are from.
    """
    wanted, own = _words(statement).pieces, _words(source).pieces
    return len((wanted & _words(other).pieces) - own) > len(wanted & own)


def same_language(statement: str, source: str) -> bool:
    """Whether a statement is in a language of the text that it comes from, as far as their scripts tell.

    What the statement takes over from the text, such as names, tells nothing of its own language. A text with words
    in both scripts may be in either language.
    """
    given = _words(source)
    added = _words(statement).units - given.units
    characters = sum(_HAN.match(unit) is not None for unit in added)
    words = sum(unit.isalpha() for unit in added) - characters
    if characters == words or not given.character_count + given.word_count:
        return True
    if characters > words:
        return given.character_count >= given.word_count or not _EMPTY.isdisjoint(given.units)
    return 2 * given.word_count >= given.character_count


def by_character(text: str) -> bool:
    """Whether a text has more Chinese characters than words, so that its length counts in characters."""
    words = _words(text)
    return words.character_count > words.word_count


def mentions(text: str, name: str) -> bool:
    """Whether a text names something: where the name is in letters, as words of its own, also in the plural."""
    bare = comparable(name.replace("_", " "))
    before = r"(?<![a-z0-9])" if bare[:1].isascii() else ""
    after = r"(?:e?s)?(?![a-z0-9])" if bare[-1:].isascii() else ""
    return bool(bare) and re.search(before + re.escape(bare) + after, comparable(text)) is not None


def spelling_similarity(one: str, other: str) -> float:
    """Return how alike two statements are spelled, from 0 to 1: the Dice coefficient of their pairs of characters."""
    pairs, others = _pairs(one), _pairs(other)
    total = pairs.total() + others.total()
    return 2 * (pairs & others).total() / total if total else 0.0


def _pairs(text: str) -> Counter[str]:
    bounded = f" {comparable(text)} "
    return Counter(bounded[place : place + 2] for place in range(len(bounded) - 1))


class _Words:
    """What a text is made of, each as far as it is asked for.

    Args:
        text: as it is; its possessive endings are left out.
    """

    def __init__(self, text: str) -> None:
        self.text = _POSSESSIVE.sub("", unicodedata.normalize("NFKC", text))
        self._folded = self.text.casefold()

    @cached_property
    def units(self) -> Set[str]:
        """Its words, and its Chinese characters."""
        return frozenset(_UNIT.findall(self._folded))

    @cached_property
    def telling(self) -> Set[str]:
        """Those of them that not any statement about a user may hold."""
        return self.units - _EMPTY - _EMPTY_WORDS

    @cached_property
    def pieces(self) -> Set[str]:
        """Its words, and its pairs of Chinese characters."""
        return {pair or word for pair, word in _PIECE.findall(self._folded)} - _EMPTY_WORDS - {"用户"}

    @cached_property
    def _lettered(self) -> Sequence[str]:
        return list(map(str.casefold, _LETTERS.findall(self.text)))

    @cached_property
    def letters(self) -> Set[str]:
        """Its words as far as they are letters."""
        return frozenset(self._lettered)

    @cached_property
    def numbers(self) -> Set[str]:
        """Its numbers in digits."""
        return frozenset(_NUMBER.findall(self.text))

    @cached_property
    def character_count(self) -> int:
        """How many Chinese characters it has."""
        return len(_HAN.findall(self.text))

    @property
    def word_count(self) -> int:
        """How many words of letters."""
        return len(self._lettered)


_words: Final = lru_cache(_REMEMBERED)(_Words)


def _holds(units: Set[str], unit: str) -> bool:
    """Whether a word is among those of a text, or another form of it."""
    return unit in units or (len(unit) >= _STEM and any(each.startswith(unit[:_STEM]) for each in units))
