"""`required`: words of which a text must hold one for a pattern to match; `RequiredWords` finds the patterns that may.

A clause is read by a hundred rules, of which nearly all begin alike and need a word that is not there. To look for the
words of all of them at once takes less than to try one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from re import _constants as ops  # type: ignore[attr-defined]  # not public: `test_required.py` fails when it changes
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

from ahocorasick_rs import AhoCorasick, MatchKind

_NOTHING: Final[frozenset[str]] = frozenset()
_REPEATS: Final = frozenset({ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT})

_FOLDS: Final = str.maketrans({"\u0130": "i", "\u0131": "i", "\u017f": "s", "\u212a": "k"})
"""Letters that patterns take for ASCII ones where case makes no difference, and that `str.lower` does not."""


class RequiredWords:
    """Says which of many patterns may match a text.

    Args:
        patterns: regular expressions, with these flags.
    """

    def __init__(self, patterns: Sequence[str], flags: int = 0) -> None:
        words_of = [required(pattern, flags) for pattern in patterns]
        words = sorted(frozenset[str]().union(*words_of))
        self._count = len(words_of)
        self._always = [number for number, own in enumerate(words_of) if not own]
        self._patterns_of = [tuple(number for number, own in enumerate(words_of) if word in own) for word in words]
        self._automaton = AhoCorasick(words, matchkind=MatchKind.Standard)

    def candidates(self, text: str) -> Sequence[int]:
        """Return the places of the patterns that may match this text or a part of it, in order."""
        try:
            words = self._automaton.find_matches_as_indexes(_folded(text), overlapping=True)
        except UnicodeEncodeError:  # half of a surrogate pair, of which the automaton knows nothing
            return list(range(self._count))
        if not words:
            return self._always
        found = set(self._always)
        for word, _, _ in words:
            found.update(self._patterns_of[word])
        return sorted(found)


def required(pattern: str, flags: int = 0) -> frozenset[str]:
    """Return words of which each text that matches holds one, in small letters; none where there are no such words.

    Raises:
        re.error: when it is no pattern.
    """
    return _of_sequence(parser.parse(pattern, flags))


def _of_sequence(parts: Iterable[tuple[Any, Any]]) -> frozenset[str]:
    """Return what is rarest of what the parts require, all of which must be there."""
    return max(_of_parts(parts), key=_rarity, default=_NOTHING)


def _of_parts(parts: Iterable[tuple[Any, Any]]) -> Iterator[frozenset[str]]:
    for is_letter, group in groupby(parts, key=lambda part: part[0] is ops.LITERAL):
        if is_letter:
            yield frozenset({_folded("".join(chr(code) for _, code in group))})
        else:
            yield from (_of_part(op, value) for op, value in group)


def _of_part(op: Any, value: Any) -> frozenset[str]:
    if op is ops.SUBPATTERN:
        return _of_sequence(value[-1])
    if op is ops.ATOMIC_GROUP:
        return _of_sequence(value)
    if op is ops.ASSERT:
        return _of_sequence(value[1])
    if op in _REPEATS and value[0] > 0:
        return _of_sequence(value[2])
    if op is ops.BRANCH:
        branches = [_of_sequence(branch) for branch in value[1]]
        return frozenset().union(*branches) if all(branches) else _NOTHING
    return _NOTHING


def _rarity(words: frozenset[str]) -> tuple[int, int]:
    """Long words are rare, and so are few."""
    return min((len(word.strip()) for word in words), default=0), -len(words)


def _folded(text: str) -> str:
    return (text if text.isascii() else text.translate(_FOLDS)).lower()
