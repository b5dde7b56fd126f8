"""`SignalDetector`: whether a message may be telling something of its author, without a model.

The words of both languages lie in one Aho-Corasick automaton, which finds them all in one pass, whatever their number;
one regular expression of the same phrases reads less than a fifth as many messages. What the author only passes on
(quoted speech, code, quoted lines, addresses) holds no signals, nor do phrases that are known to mean something else
("要不要", "I have to").
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from importlib import resources
from itertools import product
from typing import Final, get_args

import msgspec
import yaml
from ahocorasick_rs import AhoCorasick, MatchKind

from schemas.flushes import FactSignal, PreferenceSignal, Signals
from schemas.pipeline import Language, SignalWords

MAX_CHARACTERS: Final = 20_000
"""How much of a text is read, from its beginning."""

_FILES: Final[dict[Language, str]] = {"zh": "signals_zh.yaml", "en": "signals_en.yaml"}
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The fast one, ten times as fast, is missing where PyYAML was built without its C library."""

_GROUP: Final = re.compile(r"[()]")

_FACTS: Final[tuple[FactSignal, ...]] = get_args(FactSignal)
_PREFERENCES: Final[tuple[PreferenceSignal, ...]] = get_args(PreferenceSignal)
_BITS: Final[dict[str, int]] = {signal: 1 << place for place, signal in enumerate((*_FACTS, *_PREFERENCES))}
_IGNORED: Final = 1 << len(_BITS)
_NOTHING: Final = Signals()

_LETTERS: Final = frozenset(chr(code) for code in range(0x2E80) if chr(code).isalnum()) | {"_"}
"""What words are made of that stand apart from each other; the scripts of East Asia begin at U+2E80."""

_GOES_ON: Final = _LETTERS | {"'"}
"""What a word may go on with: "can" in "can't" is another word."""

_ADDRESS: Final = r"[!-~]++(?:[^\W!-~]++[/?=&#._-][!-~]*+)*+"
"""The rest of a URL: other than ASCII only between its parts, since Chinese text may follow at once."""

_FOREIGN: Final = re.compile(
    # Each branch begins with a character of its own, so that the search skips from one of them to the next. None runs
    # over the mark that opens it, so that marks without an end cost no more than one pass.
    r'"[^"\n]{1,400}+"'
    r"|“[^“”]{1,2000}+”|「[^「」]{1,2000}+」|『[^『』]{1,2000}+』"
    r"|‘(?:[^‘’\n]|’(?=[a-z])){1,400}+’"
    r"|'(?<!\w')(?:[^'\n]|(?<=\w)'(?=\w)){3,400}+'(?!\w)"
    r"|`(?:``(?:[^`]|`(?!``))*+(?:```|\Z)|[^`\n]++`)"
    r"|>(?:(?<=^>)|(?<=^ >)|(?<=^  >)|(?<=^   >))[^\n]*+"
    rf"|h(?<![a-z]h)ttps?://{_ADDRESS}|w(?<![a-z]w)ww\.{_ADDRESS}",
    re.MULTILINE,
)

_MARKS: Final = ('"', "“", "「", "『", "‘", "'", "`", ">", "http", "www.")
"""What begins what is foreign. They are the first phrases of the automaton: looking for them costs nothing then."""
_APOSTROPHE: Final = _MARKS.index("'")

_CASUAL: Final = _BITS["time"] | _BITS["frequency"]
"""Signals whose words are used of anything: in a question that does not speak of its author they are none."""

_REST: Final = re.compile(r"(?:[^。！!?？\n.]++|\.(?!\s))*+[?？]?")
_BEFORE: Final = re.compile(r".*(?:[。！!?？\n]|\.(?=\s))", re.DOTALL)
"""What is left of a sentence, and what ends before it."""

_QUESTION_ENDS: Final = ("?", "？", "吗", "呢")
_AUTHOR: Final = re.compile(r"[我俺咱]|\b(?:i|my|me|mine|we|our)\b")


@cache
def shipped_words(language: Language) -> tuple[SignalWords, ...]:
    """Return the words that are shipped for a language, with all alternatives written out."""
    text = resources.files("agents").joinpath(_FILES[language]).read_text(encoding="utf-8")
    return tuple(
        msgspec.structs.replace(each, words=_written_out(each.words), ignore=_written_out(each.ignore))
        for each in msgspec.convert(yaml.load(text, _LOADER), tuple[SignalWords, ...])  # noqa: S506 - both are safe
    )


class SignalDetector:
    """Finds the signals in a message; it may be shared between threads.

    A word counts wherever it stands in what the author says themselves, with these rules:

    - Words are whole words where they are not Chinese; case and the form of an apostrophe make no difference.
    - A word within a longer one is part of it: "我不喜欢" is a dislike and nothing else.
    - A phrase to ignore takes the words that begin within it, unless one that begins with it is longer.
    - Words of time and frequency do not count in a question that does not speak of its author.

    Args:
        words: words and phrases in addition to the shipped ones, over which they have precedence. The shipped ones of
            both languages are always in force.
    """

    def __init__(self, words: Sequence[SignalWords] = ()) -> None:
        self._automaton, self._bits, self._edges = _compiled(tuple(words))

    def detect(self, text: str) -> Signals:
        """Return the signals in the first `MAX_CHARACTERS` of a text."""
        text = text[:MAX_CHARACTERS].lower()
        phrases, marked = self._found(text.replace("’", "'"))
        if not phrases:
            return _NOTHING
        bits_of = self._bits
        signals = 0
        for number, _, _ in phrases:
            signals |= bits_of[number]
        # One by one, since a loop over `_QUESTION_ENDS` takes three times as long.
        asked = signals & _CASUAL and ("?" in text or "？" in text or "吗" in text or "呢" in text)
        if marked or asked or signals & _IGNORED:
            signals = self._said(text, phrases, marked)
        return _signals(signals)

    def _said(self, text: str, phrases: list[tuple[int, int, int]], marked: bool) -> int:
        """Return the signals of those phrases that are the author's own and are not to be ignored."""
        words: list[tuple[int, int]] = []
        reach = 0
        for number, start, end in phrases:
            bits = self._bits[number]
            if bits == _IGNORED:
                reach = end
            elif start >= reach:
                words.append((start, bits))
        if marked:
            words = _outside([match.span() for match in _FOREIGN.finditer(text)], words)
        signals = judged = 0
        others = False
        for start, bits in words:
            if bits & _CASUAL and start >= judged:
                others, judged = _question_of_others(text, start, judged)
            signals |= bits & ~_CASUAL if others else bits
        return signals

    def _found(self, text: str) -> tuple[list[tuple[int, int, int]], bool]:
        """Return the phrases that lie in no other (number, beginning, end), in order, and whether there is a mark."""
        edges, marks, marked = self._edges, len(_MARKS), False
        found: list[tuple[int, int, int]] = []
        begun = ended = -1
        text += "  "  # so that each phrase has a character before and two after it
        # They are reported in the order of their ends, and where several end together the longest comes first.
        for phrase in self._automaton.find_matches_as_indexes(text, overlapping=True):
            number, start, end = phrase
            if number < marks:
                marked = marked or number != _APOSTROPHE or text[start - 1] not in _LETTERS
                if self._bits[number] == _IGNORED:
                    continue
            if end == ended:
                continue
            if (edge := edges[number]) is not None:
                begins, ends = edge
                if begins and text[start - 1] in _LETTERS:
                    continue
                if ends and (after := text[end]) in _GOES_ON and (after != "'" or text[end + 1] == "t"):
                    continue
            while start <= begun:
                found.pop()
                begun = found[-1][1] if found else -1
            found.append(phrase)
            begun, ended = start, end
        return found, marked


_Edges = tuple[bool, bool]


@lru_cache(maxsize=4)
def _compiled(words: tuple[SignalWords, ...]) -> tuple[AhoCorasick, tuple[int, ...], tuple[_Edges | None, ...]]:
    """Return the automaton of all phrases and, by their number in it, their signals' bits and their edges.

    The edges say whether a phrase begins and whether it ends with a letter, where it could be a part of a word; None
    where it does neither, as in Chinese.
    """
    own = [
        msgspec.structs.replace(each, words=tuple(map(_plain, each.words)), ignore=tuple(map(_plain, each.ignore)))
        for each in words
    ]
    phrases = dict.fromkeys(_MARKS, _IGNORED)
    for groups in (shipped_words("zh") + shipped_words("en"), own):
        for group in groups:
            bits = _BITS[group.signal]
            for word in group.words:
                phrases[word] = phrases.get(word, 0) & ~_IGNORED | bits
        for group in groups:
            phrases.update(dict.fromkeys(group.ignore, _IGNORED))
    phrases.pop("", None)
    edges = tuple(
        (phrase[0] in _LETTERS, phrase[-1] in _LETTERS) if not _LETTERS.isdisjoint((phrase[0], phrase[-1])) else None
        for phrase in phrases
    )
    return AhoCorasick(phrases, matchkind=MatchKind.Standard), tuple(phrases.values()), edges


def _written_out(patterns: Iterable[str]) -> tuple[str, ...]:
    """Replace each pattern by the phrases that it stands for, as texts are searched for them.

    ``A (b|c|)`` becomes ``a b``, ``a c`` and ``a``.
    """
    return tuple(
        dict.fromkeys(
            # An alternative of nothing leaves two spaces; there are too many phrases to take each apart.
            _plain(phrase) if "  " in phrase else phrase.strip()
            for pattern in map(_plain, patterns)
            for phrase in map("".join, product(*(part.split("|") for part in _GROUP.split(pattern))))
        )
    )


def _plain(phrase: str) -> str:
    return " ".join(phrase.lower().replace("’", "'").split())


def _outside(spans: list[tuple[int, int]], words: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the words, each with its beginning and bits, that begin in none of the spans, which come in order."""
    starts = [start for start, _ in spans]
    reach = [0, *(end for _, end in spans)]
    return [(start, bits) for start, bits in words if reach[bisect_right(starts, start)] <= start]


def _question_of_others(text: str, start: int, after: int) -> tuple[bool, int]:
    """Return whether what begins at `start` is in a question that does not speak of its author, and where that ends.

    Sentences end at `after` or earlier, or they end later.
    """
    rest = _REST.match(text, start)
    end = rest.end() if rest else start
    if not text.endswith(_QUESTION_ENDS, start, end):
        return False, end
    before = _BEFORE.match(text, after, start)
    return not _AUTHOR.search(text, before.end() if before else after, end), end


@cache
def _signals(bits: int) -> Signals:
    return Signals(
        facts=tuple(signal for signal in _FACTS if bits & _BITS[signal]),
        preferences=tuple(signal for signal in _PREFERENCES if bits & _BITS[signal]),
    )
