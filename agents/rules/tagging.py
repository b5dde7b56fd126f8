"""Event tags by two simple rules; a tag that is about neither moods nor goals gets no value.

Which rule a configured tag belongs to is told by the words of its name, then of its description.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from agents.rules import reading, slots
from schemas.pipeline import EventTagDefinition
from schemas.stages import EventTag, Memo

Family = Literal["mood", "goal"]

_FAMILIES: Final[tuple[tuple[Family, re.Pattern[str]], ...]] = (
    ("mood", re.compile(r"emotion|mood|feeling|sentiment|情绪|心情|情感|感受", re.IGNORECASE)),
    ("goal", re.compile(r"goal|plan|intention|ambition|目标|计划|打算|愿望", re.IGNORECASE)),
)


def family(definition: EventTagDefinition) -> Family | None:
    """Return which rule serves a tag, or None when none does."""
    for text in (definition.name, definition.description):
        for name, words in _FAMILIES:
            if words.search(text):
                return name
    return None


def tags(memo: Memo, definitions: Sequence[EventTagDefinition]) -> tuple[EventTag, ...]:
    """Return a value for each tag that the memo's bullets give one: the first mood, or the first goal or plan."""
    found = []
    for definition in definitions:
        kind = family(definition)
        value = _value(kind, [bullet.text for bullet in memo.bullets]) if kind else None
        if value:
            found.append(EventTag(tag=definition.name, value=value))
    return tuple(found)


def _value(kind: Family, bullets: Sequence[str]) -> str | None:
    if kind == "mood":
        return next((mood for bullet in bullets for mood in reading.moods(bullet)), None)
    return next(
        (
            found.value
            for bullet in bullets
            for found in reading.findings(bullet)
            if found.slot in {slots.GOALS, slots.PLANS}
        ),
        None,
    )
