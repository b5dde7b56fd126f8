"""Token counts with the real o200k tokenizer, whose ranks come with its package."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import quicktok


@cache
def _encoding() -> Any:
    return quicktok.get_encoding("o200k_base")


def count_tokens(text: str) -> int:
    """Return the number of o200k tokens in `text`, special-token markers counted as plain text."""
    return int(_encoding().count(text))


_BREAKS: Final = (
    re.compile(r"(?<=\n)"),
    re.compile(r"(?<=[。！？；!?;])|(?<=\.)(?=\s)"),
    re.compile(r"(?<=\s)"),
    re.compile(""),
)
"""Where a text may be cut, from the best place to the last resort: lines, sentences, words, characters."""


def split_text(text: str, budget: int) -> list[str]:
    """Cut a text into consecutive pieces of at most `budget` tokens; together they are the text.

    A single character of more tokens than the budget is a piece of its own.
    """
    return list(_split(text, budget, 0))


def _split(text: str, budget: int, level: int) -> Iterator[str]:
    if count_tokens(text) <= budget or len(text) <= 1:
        yield text
        return
    piece, size = "", 0
    for part in _BREAKS[level].split(text):
        tokens = count_tokens(part)
        if piece and size + tokens > budget:
            yield from _split(piece, budget, level + 1) if level + 1 < len(_BREAKS) else (piece,)
            piece, size = "", 0
        piece += part
        size += tokens
    if piece:
        yield from _split(piece, budget, level + 1) if level + 1 < len(_BREAKS) else (piece,)
