"""`Catalogue`: which tags of a catalogue are named in texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from agents.rules.english.verbs import forms
from schemas.pipeline import CatalogueTag

_SPACES: Final = re.compile(r"[\s_-]+")
_LIST: Final = re.compile(
    r"\s*(?:[,，、;；/。.]|\b(?:and|or)\b|以及|(?<=[\u4e00-\u9fff])[和或及](?=[\u4e00-\u9fff]))\s*"
)
_AROUND: Final = re.compile(
    r"^(?:for example|such as|like|例如|比如|包括)[\s:：]*|^(?:or|and)\s+|(?:等等?|\betc)$", re.IGNORECASE
)
_TELLING: Final = re.compile(
    r"\b(?:about|with|for|of|the|user|users|who|how|what|when|that|to|in|on|is|are|not|all|any|anything|other|things?)\b|用户|的|是|等|关于|有关",
    re.IGNORECASE,
)
_LONGEST_ACRONYM: Final = 4
"""Letters of a name in capitals that is no other word only as it is written: IT."""
_MOST_WORDS: Final = 3
_MOST_CHARACTERS: Final = 6


class Catalogue:
    """Finds tags by their names, and by what their descriptions list.

    Case, and whether words are joined by spaces, hyphens or underscores, make no difference, and an English word counts
    in all its forms. A description counts where it is a list of names ("ski, snowboard, sledge") and no sentence.
    """

    def __init__(self, tags: Sequence[CatalogueTag]) -> None:
        self._names: dict[str, str] = {}
        spelled: dict[str, None] = {}
        for phrases in ([tag.name] for tag in tags), (_listed(tag.description) for tag in tags):
            for tag, named in zip(tags, phrases, strict=True):
                for form in (form for phrase in named for form in _forms(phrase)):
                    spelled.setdefault(form, None)
                    self._names.setdefault(_folded(form), tag.name)
        longest_first = sorted(spelled, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(_pattern, longest_first)), re.IGNORECASE)

    def named(self, texts: Iterable[str], *, limit: int) -> list[str]:
        """Return at most so many tags that the texts name: the most mentioned first, then by first mention."""
        found = (match for text in texts for match in self._pattern.finditer(text))
        counts = Counter(self._names[_folded(match[0])] for match in found)
        return [name for name, _ in counts.most_common(limit)]


def _folded(text: str) -> str:
    return _SPACES.sub(" ", text.strip().casefold())


def _forms(phrase: str) -> Iterator[str]:
    """Yield a phrase with its last word in every form; an acronym has no others."""
    if phrase.isupper():
        yield phrase
        return
    before, space, last = _folded(phrase).rpartition(" ")
    for form in forms(last):
        yield f"{before}{space}{form}"


def _listed(description: str) -> list[str]:
    """Return the names that a description lists; none when it is a sentence."""
    items = [_AROUND.sub("", part.strip()).strip() for part in _LIST.split(description)]
    names = [item for item in items if item]
    return names if len(names) > 1 and all(map(_is_name, names)) else []


def _is_name(text: str) -> bool:
    short = len(text.split()) <= _MOST_WORDS if text.isascii() else len(text) <= _MOST_CHARACTERS
    return short and not _TELLING.search(text)


def _pattern(phrase: str) -> str:
    spelled = re.escape(phrase).replace(r"\ ", r"[\s_-]+")
    if phrase.isupper() and len(phrase) <= _LONGEST_ACRONYM:
        spelled = f"(?-i:{spelled})"
    before = r"(?<![A-Za-z0-9])" if phrase[0].isascii() else ""
    after = r"(?![A-Za-z0-9])" if phrase[-1].isascii() else ""
    return f"{before}{spelled}{after}"
