"""Token counts without a tokenizer: never fewer than o200k has, which the models of the day count in, mostly more.

A tokenizer's vocabulary takes megabytes. What is known of it here is a list of common words and Chinese characters, a
token each, and the bounds that the rest cannot exceed: that of UTF-8 bytes, as no token is less than one, and, in
words, that two letters next to each other are a token, apart from a few pairs that are not.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

_PARTS: Final = re.compile(
    r"""
    (\ [A-Za-z][a-z]+) (?=[\x00-&(-@\[-`{-\x7f]|\Z)  # a word alone, not the beginning of something longer
    | (
        \ ?[a-z]+
        | [0-9]{1,3}
        | [^\x00-\x7f]+
        | [\x00-\x7f]
    )
    """,
    re.VERBOSE,
)
RARE_PAIRS: Final = re.compile("bq|gk|gq|jv|jz|kq|kz|lq|nq|qf|qg|qj|qk|qv|qz|rj|tq|wq|wz|xg|xj|xk|xq|xv|xw|yq|zj|zq|zv")
"""The pairs of small letters that are not a token."""


class CommonTokens(NamedTuple):
    """What is known to be a token each: words after a space, and characters."""

    words: frozenset[str]
    characters: frozenset[str]


@cache
def common_tokens() -> CommonTokens:
    """Return the common words, without the space, and characters."""
    characters, _, words = files(__package__).joinpath("common_tokens.txt").read_text("utf-8").partition("\n")
    return CommonTokens(frozenset(words.split()), frozenset(characters))


def estimate_tokens(text: str) -> int:
    """Return a number of tokens that `text` does not exceed in o200k.

    On English chat it is about twice the exact number, on Chinese 1.6 times; on other scripts it is more.
    Whoever has a tokenizer gets more into the same budget with its count.
    """
    words, characters = common_tokens()
    total = 0
    for word, other in _PARTS.findall(text):
        if word:
            total += 1 if word[1:] in words else _letters(word)
        elif other > "\x7f":
            # One more, for what it may share with the digits and spaces beside it.
            total += 1 + sum(1 if each in characters else _size(each) for each in other)
        elif "a" <= other[-1] <= "z":
            total += _letters(other)
        else:
            total += 1
    return total


def _letters(found: str) -> int:
    """Return how many tokens letters may be, a space or a capital before them included."""
    if RARE_PAIRS.search(found):
        return len(found)
    capital = 2 if found[1:2].isupper() else 0  # with the space: what it makes a token with is not known
    return capital + (2 * (len(found) - capital) + 2) // 3


def _size(character: str) -> int:
    return len(character.encode("utf-8", "replace"))
