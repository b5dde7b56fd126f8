"""`keywords`: what texts are about, by word lists, titles and capitals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from agents.rules.chinese import words as zh_words
from agents.rules.english import words as en_words

_CHARACTERS: Final = 10
_WORDS: Final = 3


def _longest_first(words: Iterable[str]) -> str:
    return "|".join(sorted(set(words), key=lambda word: (-len(word), word)))


def _listed(*alternations: str) -> set[str]:
    return {word for alternation in alternations for word in alternation.split("|")}


_CHINESE_WORDS: Final = _listed(
    zh_words.PLACES,
    zh_words.COMPANIES,
    zh_words.INDUSTRIES,
    zh_words.SPORTS,
    zh_words.INSTRUMENTS,
    zh_words.CONDITIONS,
    zh_words.PETS,
    zh_words.OCCUPATIONS,
    zh_words.LANGUAGES,
    zh_words.TOPICS,
) - {"美的", "得物", "字节", "理想汽车"}  # company names that are words, or parts of words
_ENGLISH_WORDS: Final = _listed(
    en_words.SPORTS,
    en_words.INSTRUMENTS,
    en_words.PETS,
    en_words.CONDITIONS,
    en_words.OCCUPATIONS,
    en_words.TOPICS,
)
_PATTERNS: Final = (
    re.compile(r"《(?P<title>[^》\n]{1,10})》"),
    re.compile(r"[\"“](?P<title>[A-Z][\w'’]*(?: [\w'’]+){0,2})[\"”]"),
    re.compile(f"(?P<title>{_longest_first(_CHINESE_WORDS)})"),
    re.compile(rf"\b(?P<title>{_longest_first(_ENGLISH_WORDS)})(?=(?:s|es)?\b)", re.IGNORECASE),
    # A name in Latin letters among Chinese characters.
    re.compile(r"(?<=[\u4e00-\u9fff])(?P<title>[A-Z][A-Za-z0-9+#.]*[A-Za-z0-9+#])(?=[\u4e00-\u9fff，。、！？]|$)"),
    # Capitals within an English sentence.
    re.compile(r"(?<=[a-z,] )(?P<title>[A-Z][a-z]\w+(?: [A-Z]\w+)*|[A-Z]{2,6})\b(?!['’](?!s\b))"),
)


def keywords(texts: Sequence[str], named: Iterable[str] = (), *, limit: int) -> tuple[str, ...]:
    """Return at most so many words for what the texts are about: the most mentioned first, then by first mention.

    None is longer than ten characters in Chinese or three words in English, and none is part of another.

    Args:
        texts: what was said.
        named: words that these texts are known to be about.
        limit: how many at the most.
    """
    known = [word for word in named if _is_short(word)]
    patterns = (re.compile(f"(?P<title>{_longest_first(map(re.escape, known))})"), *_PATTERNS) if known else _PATTERNS
    counts: Counter[str] = Counter()
    spelled: dict[str, str] = {}
    for text in texts:
        for word in _words(text, patterns):
            key = word.casefold()
            counts[key] += 1
            spelled.setdefault(key, word)
    chosen: list[str] = []
    for key, _ in counts.most_common():
        if not any(key in other or other in key for other in chosen):
            chosen.append(key)
    return tuple(spelled[key] for key in chosen[:limit])


def _words(text: str, patterns: Iterable[re.Pattern[str]]) -> Iterator[str]:
    """Yield the words in order; where two overlap, the one that begins first."""
    found = [(match.start("title"), match["title"]) for pattern in patterns for match in pattern.finditer(text)]
    end = 0
    for start, word in sorted(found, key=lambda item: (item[0], -len(item[1]))):
        if start >= end:
            end = start + len(word)
            if _is_short(word):
                yield word


def _is_short(word: str) -> bool:
    if not word.isascii():
        return len(word) <= _CHARACTERS
    return len(word.split()) <= _WORDS and word.casefold() not in en_words.NEVER_A_NAME | en_words.NEVER_A_PLACE
