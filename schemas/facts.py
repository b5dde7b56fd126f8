"""`Fact`, `Preference` and `UserTag`: what a profile holds beside its slots."""

from __future__ import annotations

import re
from typing import Final, Literal, get_args

import msgspec

from schemas.messages import AwareDatetime

FactCategory = Literal["personal_info", "location", "relationship", "work", "habit", "preference", "other"]
PreferenceCategory = Literal["communication_style", "time", "content", "format", "tool", "language", "other"]

FACT_CATEGORIES: Final[tuple[FactCategory, ...]] = get_args(FactCategory)
PREFERENCE_CATEGORIES: Final[tuple[PreferenceCategory, ...]] = get_args(PreferenceCategory)

MAX_QUOTES: Final = 5
"""Quotes that a preference keeps: the newest."""


_SUBJECT: Final = re.compile(r"\s*(?:用户(?:的)?|(?:the )?user(?:['’]s|s['’])?\s+)", re.IGNORECASE)


def without_subject(statement: str) -> str:
    """Return a statement about a user without the words that say so, which all of them share: they tell nothing apart.

    A statement of nothing else is returned as it is.
    """
    rest = _SUBJECT.sub("", statement, count=1) if _SUBJECT.match(statement) else statement
    return rest if rest.strip() else statement


class Replacement(msgspec.Struct, frozen=True, kw_only=True):
    """Why a fact no longer holds.

    Attributes:
        by: id of the fact that replaced it.
        reason: why, for people.
        said_at: when the message that replaced it was written.
        recorded_at: when it was replaced, by the worker's clock.
    """

    by: str
    reason: str
    said_at: AwareDatetime
    recorded_at: AwareDatetime


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a user has stated about themselves.

    Attributes:
        fact_id: derived from the flush that brought it; it stays when the text is replaced.
        text: in the third person, in the language it was said in.
        confidence: from 0 to 1, of the statement that the text comes from.
        importance: from 0 to 1: the confidence at first, more with each repeat.
        source_session: session of the message that the text comes from.
        first_seen: when the first message on the matter was written; a text that replaces another keeps it.
        last_confirmed: when the newest was.
        times_mentioned: 1 when it was added, one more with each repeat; likewise.
        evidence: message ids of the change that last touched it.
        recorded_at: when it last changed, by the worker's clock.
        version: the profile's version at its last change.
        replaced: when, why and by which fact; None as long as it holds.
    """

    fact_id: str
    text: str
    category: FactCategory
    confidence: float
    importance: float
    source_session: str | None
    first_seen: AwareDatetime
    last_confirmed: AwareDatetime
    times_mentioned: int
    evidence: tuple[str, ...]
    recorded_at: AwareDatetime
    version: int
    replaced: Replacement | None = None


class Preference(msgspec.Struct, frozen=True, kw_only=True):
    """How a user likes things to be.

    Attributes:
        preference_id: derived from the flush that brought it; it stays when the text is replaced.
        text: in the language it was said in.
        strength: from 0 to 1; the mean of what was observed, newer observations weighing more.
        quotes: the user's words behind it, oldest first, at most `MAX_QUOTES`.
        first_seen: when the first message that showed it was written.
        last_confirmed: when the newest was.
        times_observed: 1 when it was added, one more with each observation.
        evidence: message ids of the change that last touched it.
        recorded_at: when it last changed, by the worker's clock.
        version: the profile's version at its last change.
    """

    preference_id: str
    text: str
    category: PreferenceCategory
    strength: float
    quotes: tuple[str, ...]
    first_seen: AwareDatetime
    last_confirmed: AwareDatetime
    times_observed: int
    evidence: tuple[str, ...]
    recorded_at: AwareDatetime
    version: int


class UserTag(msgspec.Struct, frozen=True, kw_only=True):
    """How often a tag of the catalogue fitted a user's conversations, each flush counting once.

    Attributes:
        first_seen: when the first of those conversations ended.
        last_seen: when the newest did.
        version: the profile's version at its last change.
    """

    name: str
    count: int
    first_seen: AwareDatetime
    last_seen: AwareDatetime
    version: int
