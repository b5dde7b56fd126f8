"""`own_words`: takes out of the user's messages what is copied from the prompt, a memory, a tool or the assistant.

What comes back as a quotation is known already, or was never the user's. A copy is a whole sentence of an earlier
message that is not the user's (of a system or tool message also a whole line), of some length, that stands by itself in
the user's message: at its beginning, or after a line break, a colon, a quotation mark or the end of a sentence.
Fragments do not count, so that a user may answer in the words of the question.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from schemas.flushes import BatchMessage, FlushBatch

MARK: Final = "[…]"
"""Stands where a copy was."""

_LEAST: Final = 20
"""Columns of the shortest copy: shorter sentences are said twice by chance. A Chinese character takes two."""

_WIDE: Final = 0x2E80
_SENTENCE: Final = re.compile(r"[^\n。！？.!?]+(?:\.(?!\s|$)[^\n。！？.!?]*)*[。！？.!?]+")
_LINE: Final = re.compile(r"[^\n]+")
_EDGES: Final = " \t\r-*•>\"'“”‘’「」『』()（）。！？.!?;；"
_BEFORE: Final = frozenset("\n。！？.!?:：;；,，\"'“‘「『(（>-*•")
_AFTER: Final = frozenset("\n。！？.!?;；,，\"'”’」』)）")


def own_words(batch: FlushBatch) -> FlushBatch:
    """Return the batch with `MARK` where the user's messages copy earlier ones.

    A message that is nothing but copies becomes empty.
    """
    foreign: dict[str, str] = {}
    for message in batch.context:
        foreign.update(_sources(message))
    messages: list[BatchMessage] = []
    for message in batch.messages:
        foreign.update(_sources(message))
        content = _without(message.content, foreign) if message.role == "user" else message.content
        messages.append(message if content == message.content else replace(message, content=content))
    return replace(batch, messages=tuple(messages))


def _sources(message: BatchMessage) -> Iterator[tuple[str, str]]:
    """Yield what would be a copy if it came again: in its plain form, and as it is."""
    if message.role == "user":
        return
    for text in _passages(message):
        bare = text.strip(_EDGES)
        if len(bare) >= _LEAST or _width(bare) >= _LEAST:
            yield _plain(bare), bare


def _passages(message: BatchMessage) -> Iterable[str]:
    yield from _SENTENCE.findall(message.content)
    if message.role != "assistant":  # whose lines are often options to choose from
        yield from _LINE.findall(message.content)


def _without(content: str, foreign: dict[str, str]) -> str:
    plain = _plain(content)
    # The longest first: a line goes as a whole before the sentences in it.
    for source in sorted((source for source in foreign if source in plain), key=len, reverse=True):
        words = map(re.escape, foreign[source].split())
        content = re.sub(r"\s+".join(words), _unless_embedded, content, flags=re.IGNORECASE)
    return content if any(map(str.isalnum, content)) or MARK not in content else ""


def _unless_embedded(match: re.Match[str]) -> str:
    before = match.string[: match.start()].rstrip(" \t")[-1:]
    after = match.string[match.end() :].lstrip(" \t")[:1]
    alone = (not before or before in _BEFORE) and (not after or after in _AFTER)
    return MARK if alone else match[0]


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _width(text: str) -> int:
    return sum(2 if ord(character) >= _WIDE else 1 for character in text)
