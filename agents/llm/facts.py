"""The facts and preferences that a model reads in a message, put in terms of what is known.

Whether the message bears them out is for the stage to see (`agents.facts`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from agents.llm.answers import dropped
from agents.llm.formats import FACTS, PREFERENCES, AnswerFormat, FactItem, PreferenceItem
from agents.llm.nothing import is_nothing
from agents.llm.values import Reference
from agents.wording import comparable, shared_share
from schemas.facts import FACT_CATEGORIES, PREFERENCE_CATEGORIES, Fact, Preference
from schemas.flushes import BatchMessage
from schemas.profiles import unify
from schemas.stages import Dropped, FactCandidate, PreferenceCandidate

Category = TypeVar("Category", bound=str)
Known = TypeVar("Known", Fact, Preference)

_TEXT_LIMIT: Final = 500
"""Characters of a fact or preference; a model that runs on writes more."""

_LEAST_SHARED: Final = 0.5
"""Share of a fact's words that the known fact must have of which it is said to be a repeat."""

_FIRST_PERSON: Final = re.compile(r"(?:I|I['’](?:m|ve|d|ll)|[Mm]y)\s|我")
"""How the user's own sentence begins, where it was not put in the third person."""

_QUOTE_LIMIT: Final = 200
_EDGES: Final = " \t\r\n\"'“”‘’「」『』`。."
_QUOTED: Final = re.compile(r"[\"“‘「『'](.+)[\"”’」』']", re.DOTALL)
_SPEAKER: Final = re.compile(
    r"\s*(?:(?:the\s+)?user\s+(?:says|said|writes|wrote|asks|asked(?:\s+for)?)\b|用户(?:说道?|表示|要求)?)\s*[:：,，]?",
    re.IGNORECASE,
)
_SAME_SIGNS: Final = str.maketrans("“”‘’，。！？；：（）", "\"\"'',.!?;:()")
"""Signs that models write for one another, one character for one."""


def fact_candidates(
    items: Iterable[FactItem], known: Sequence[Fact], evidence: tuple[str, ...]
) -> tuple[tuple[FactCandidate, ...], list[Dropped]]:
    """Return the usable facts and what was dropped.

    A reference to a fact that was not shown is dropped, and so is a repeat of one that says something else; the fact
    itself stays. A known fact that is given as a new one is a repeat.

    Args:
        items: the model's facts.
        known: the known facts that were shown, in their order.
        evidence: ids of the messages that were read.
    """
    found: list[FactCandidate] = []
    drops: list[Dropped] = []
    for item in items:
        text = item.fact.without_bullet()
        reason = _unusable(text)
        repeated = _referred(item.repeats, known, FACTS, drops)
        if repeated is not None and reason is None and shared_share(text, repeated.text) < _LEAST_SHARED:
            drops.append(dropped(FACTS, "unrelated_number", f"{item.repeats}: {text}"))
            repeated = None
        repeated = repeated or _same(text, known)
        contradicted = _referred(item.conflicts_with, known, FACTS, drops)
        if repeated is None and reason is not None:
            drops.append(dropped(FACTS, reason, text))
            continue
        found.append(
            FactCandidate(
                text=repeated.text if repeated else text,
                category=repeated.category if repeated else _category(item.category, FACT_CATEGORIES),
                confidence=float(item.confidence),
                evidence=evidence,
                conflicts_with=contradicted.fact_id if contradicted and contradicted is not repeated else None,
                repeats=repeated.fact_id if repeated else None,
            )
        )
    return tuple(found), drops


def preference_candidates(
    items: Iterable[PreferenceItem], known: Sequence[Preference], said: Sequence[BatchMessage]
) -> tuple[tuple[PreferenceCandidate, ...], list[Dropped]]:
    """Return the usable preferences and what was dropped.

    A reference to a preference that was not shown is dropped; the preference itself stays.

    Args:
        items: the model's preferences.
        known: the known preferences that were shown, in their order.
        said: the messages that were read.
    """
    found: list[PreferenceCandidate] = []
    drops: list[Dropped] = []
    evidence = tuple(message.message_id for message in said)
    for item in items:
        text = item.preference.without_bullet()
        opposed = _referred(item.opposite_of, known, PREFERENCES, drops)
        if reason := _unusable(text):
            drops.append(dropped(PREFERENCES, reason, text))
            continue
        found.append(
            PreferenceCandidate(
                text=text,
                category=_category(item.category, PREFERENCE_CATEGORIES),
                strength=float(item.strength),
                evidence=evidence,
                quote=quote(item.evidence, [message.content for message in said]),
                opposes=opposed.preference_id if opposed else None,
            )
        )
    return tuple(found), drops


def quote(evidence: str, texts: Iterable[str]) -> str:
    """Return the part of the texts that is given as evidence, as it stands there; empty where it does not.

    What models put around a quotation ("the user said ...", quotation marks) does not count.
    """
    texts = list(texts)
    for words in _worded(evidence):
        pattern = r"\s+".join(map(re.escape, words.translate(_SAME_SIGNS).split()))
        for text in texts:
            if match := re.search(pattern, text.translate(_SAME_SIGNS), re.IGNORECASE):
                return text[match.start() : match.end()]
    return ""


def _worded(evidence: str) -> Iterator[str]:
    if len(evidence) > 2 * _QUOTE_LIMIT:
        return
    bare = _SPEAKER.sub("", evidence, count=1)
    inner = _QUOTED.search(evidence)
    for words in (evidence, bare, inner[1] if inner else ""):
        stripped = words.strip(_EDGES)
        if stripped and len(stripped) <= _QUOTE_LIMIT:
            yield stripped


def _referred(
    reference: Reference, known: Sequence[Known], answer_format: AnswerFormat[Any], drops: list[Dropped]
) -> Known | None:
    """Return the known item that an answer refers to, by number or by its text; else note it in `drops`."""
    if is_nothing(reference):
        return None
    item: Known | None = None
    if reference.number is None:
        item = _same(reference, known)
    elif 1 <= reference.number <= len(known):
        item = known[reference.number - 1]
    if item is None:
        drops.append(dropped(answer_format, "unknown_number", str(reference)))
    return item


def _same(text: str, known: Sequence[Known]) -> Known | None:
    """Return the known item with that text."""
    wanted = comparable(text)
    return next((each for each in known if comparable(each.text) == wanted), None)


def _category(given: str, categories: Sequence[Category]) -> Category:
    """Return the category of that name; the last one stands for all others."""
    name = unify(given).replace("-", "_")
    return next((category for category in categories if category == name), categories[-1])


def _unusable(text: str) -> str | None:
    """Return why a text is no statement, or None."""
    if len(text) > _TEXT_LIMIT:
        return "value_too_long"
    if _FIRST_PERSON.match(text):
        return "first_person"
    return "says_nothing" if is_nothing(text) else None
