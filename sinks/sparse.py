"""Sparse vectors: the words of a text, weighted as BM25 does, so that a name or a rare word is found as it is written.

A store that knows the frequencies of words multiplies each weight by the word's rarity (Qdrant: the modifier IDF). What
is here needs no store and no model, so every vector is the same on each machine and on each release of the store.

Chinese and Japanese have no gaps between words, and a segmenter cuts "喜欢喝茶" and "喝龙井茶" in ways that do not
meet: what counts there is each character and each pair of neighbours. `benchmarks.recall` compares the two.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from sinks.embeddings import clean

_SATURATION: Final = 1.2
_LENGTH_PENALTY: Final = 0.75
_TYPICAL_LENGTH: Final = 12.0
"""Words in what profiles hold, in the middle: BM25's k, b and average length."""

_ACCENTS: Final = re.compile("[\u0300-\u036f]")
_RUNS: Final = re.compile(
    "([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+)|[^\\W_\u3040-\u30ff\u3400-\u9fff]+"
)
_ENGLISH: Final = (
    "a about am an and any are as at be been being but by can could did do does doing for from had has have he "
    "her hers him his how i if in into is it its me my no not of on or our s she should so t than that the their "
    "them then there these they this those to too us user users was we were what when where which who whom whose "
    "why will with would you your"
)
_FUNCTION_WORDS: Final = frozenset(_ENGLISH.split())
_CHINESE_FUNCTION_WORDS: Final = re.compile(
    "用户|什么|怎么|怎样|哪里|哪个|哪些|哪|谁|多少|有没有|是不是|这个|那个|我们|他们|她们|你们|[的了吗呢吧啊是在有我你他她它和与也都就]"
)


class SparseVector(NamedTuple):
    """A vector of which only the numbers that are not 0 are written down.

    Attributes:
        indices: places, each below 2**32, none twice.
        values: the number at each of them.
    """

    indices: list[int]
    values: list[float]


def sparse_passage(text: str) -> SparseVector:
    """Return the vector of a text that will be searched; of a very long one, the beginning counts."""
    counts = Counter(map(_place, _terms(text)))
    length = _LENGTH_PENALTY * counts.total() / _TYPICAL_LENGTH + 1 - _LENGTH_PENALTY
    weights = [count * (_SATURATION + 1) / (count + _SATURATION * length) for count in counts.values()]
    return SparseVector(list(counts), weights)


def sparse_query(text: str) -> SparseVector:
    """Return the vector of a text to search with: each word counts once; empty when only function words are in it."""
    places = list(dict.fromkeys(map(_place, _terms(text))))
    return SparseVector(places, [1.0] * len(places))


def _terms(text: str) -> Iterator[str]:
    normal = unicodedata.normalize("NFKD", clean(text)).casefold()
    normal = unicodedata.normalize("NFC", _ACCENTS.sub("", normal))
    for match in _RUNS.finditer(normal):
        if match[1] is None:
            if match[0] not in _FUNCTION_WORDS:
                yield _stem(match[0])
            continue
        for run in _CHINESE_FUNCTION_WORDS.split(match[1]):
            yield from run
            yield from (run[start : start + 2] for start in range(len(run) - 1))


def _stem(word: str) -> str:
    """Take the endings of English plurals and verbs off: "parties" and "party", "stopped" and "stopping" are one."""
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if len(word) > 5 and word.endswith("ing"):
        word = _single(word[:-3])
    elif len(word) > 4 and word.endswith("ed"):
        word = _single(word[:-2])
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 3 and word.endswith("y") else word


def _single(word: str) -> str:
    """Write the last consonant once that was doubled before an ending."""
    return word[:-1] if len(word) > 2 and word[-1] == word[-2] and word[-1] not in "ls" else word


def _place(term: str) -> int:
    return zlib.crc32(term.encode("utf-8", "replace"))
