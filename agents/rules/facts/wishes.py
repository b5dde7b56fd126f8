"""Preferences that the user's messages state or show, set against the known ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agents.rules import relations, slots
from agents.rules.facts import fact_phrases, manners, preference_phrases
from agents.rules.facts.statements import Statement, told
from agents.rules.rulebook import Finding
from schemas.facts import Preference, PreferenceCategory
from schemas.flushes import BatchMessage
from schemas.stages import PreferenceCandidate

_STRONG: Final = 0.95
_STATED: Final = 0.8
_SOFTENED: Final = 0.7
_SHOWN: Final = 0.6
_RETRACTED: Final = 0.4
"""What is taken back without being known tells little of what is liked now."""
_QUOTE_LIMIT: Final = 100

_STRONG_WORDS: Final = re.compile(
    r"一定|务必|千万|绝对|从不|从来不|永远|最讨厌|最喜欢|最爱|最烦|受不了"
    r"|\b(?:always|never|hate|detest|must|absolutely|under no circumstances|cannot stand|can['’]t stand|favou?rite)\b",
    re.IGNORECASE,
)
_STATED_WORDS: Final = re.compile(
    r"喜欢|偏好|偏爱|习惯|倾向|爱|讨厌|反感|烦|希望|想要|需要|以后|今后|从现在起|每次|总是|都|一直"
    r"|\b(?:prefer|like|love|enjoy|dislike|not (?:like|want|need)|want|need|appreciate|tired of|used to|swear by"
    r"|from now on|in (?:the )?future|every time|whenever|mostly|mainly)\b",
    re.IGNORECASE,
)
_STANDING: Final = re.compile(
    r"以后|今后|从现在起|每次|总是|喜欢|都|一直|习惯|希望|需要|always|every time|from now on|whenever|like|prefer|want",
    re.IGNORECASE,
)
_ASKED: Final = frozenset({slots.COMMUNICATION, slots.TOOLS})
"""What a request or a mention may show: it need not be meant for always."""


_MOST: Final = 12
"""Preferences of one message: of more, which nobody has, the later ones."""


def extract(
    messages: Sequence[BatchMessage], known: Sequence[Preference], *, habits: bool
) -> tuple[PreferenceCandidate, ...]:
    """Return the preferences that the messages state or show, each once; of opposites the later stands.

    Args:
        messages: of any author; only the user's count.
        known: the known preference that is opposed is looked for in this order.
        habits: tell habits too, which are facts otherwise. What is not eaten is always told.
    """
    found: dict[str, PreferenceCandidate] = {}
    for statement in told(messages):
        if fact_phrases.is_taste(statement.finding) or statement.finding.slot not in fact_phrases.HABITS:
            wish = _wish(statement)
        else:
            wish = _habit(statement) if habits else None
        if wish is None:
            continue
        text, category = wish
        for other in [other for other in found if other != text and relations.preferences(other, text) != "different"]:
            del found[other]
        before = found.pop(text, None)
        opposed = next((one.preference_id for one in known if relations.opposed(one.text, text)), None)
        strength = _strength(statement)
        if _only_takes_back(statement.finding):
            strength = _RETRACTED if opposed is None else _STATED
        cited = (*(before.evidence if before else ()), statement.message_id)
        found[text] = PreferenceCandidate(
            text=text,
            category=category,
            strength=max(strength, before.strength) if before else strength,
            quote=statement.sentence[:_QUOTE_LIMIT],
            evidence=tuple(dict.fromkeys(cited)),
            opposes=opposed,
        )
        if len(found) > _MOST:
            del found[next(iter(found))]
    return tuple(found.values())


def _only_takes_back(finding: Finding) -> bool:
    """Whether it says that something is liked or disliked no more; not wanting a manner or a topic is a wish."""
    return finding.retracts and finding.slot not in slots.WISHES


def _wish(statement: Statement) -> tuple[str, PreferenceCategory] | None:
    finding = statement.finding
    if finding.slot == slots.DIET:
        return _habit(statement)
    if finding.slot == slots.COMMUNICATION:
        asked = manners.language(finding.value)
        if asked is None:
            return _manner(statement)
        finding = replace(finding, slot=preference_phrases.REPLY_LANGUAGE, value=asked)
    if finding.slot not in preference_phrases.TOLD:
        return None
    text = preference_phrases.PHRASES.render(finding, statement.language)
    return (text, preference_phrases.category(finding.slot, finding.value)) if text else None


def _habit(statement: Statement) -> tuple[str, PreferenceCategory] | None:
    text = fact_phrases.PHRASES.render(statement.finding, statement.language)
    return (fact_phrases.without_subject(text), "other") if text else None


def _manner(statement: Statement) -> tuple[str, PreferenceCategory] | None:
    manner = manners.of(statement.finding.value, wanted=not statement.finding.retracts)
    if manner is None or (manner.name == "explanations" and not _STANDING.search(statement.sentence)):
        return None  # "explain that" is about the matter in hand
    return manner.texts[statement.language], manner.category


def _strength(statement: Statement) -> float:
    if _STRONG_WORDS.search(statement.clause):
        return _STRONG
    if statement.finding.slot in _ASKED and not _STATED_WORDS.search(statement.clause):
        return _SHOWN
    return _SOFTENED if statement.hedged else _STATED
