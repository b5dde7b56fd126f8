"""`Phrasebook`: templates that put findings into sentences, and read such sentences back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from agents.processor import SlotName
from agents.rules.rulebook import Finding
from schemas.pipeline import Language

Wording = Callable[[str], str]
"""Turns a value as the rules give it into the words of the sentence ("cat" into "a cat")."""

_FIELD: Final = re.compile(r"\{(value|called)\}")


@dataclass(frozen=True, slots=True)
class Phrase:
    """A template for what a slot may hold.

    Attributes:
        slot: the slot; a sub-topic ``*`` stands for every one of the topic that is `called` something.
        text: the sentence, with ``{value}`` in it, and ``{called}`` where the user's word for the sub-topic belongs;
            empty where this template is only for what is not so.
        negated: the sentence when it is not so, or no longer; empty where this template is only for what is so.
        fits: pattern of the worded values that this template is for; the first that fits is taken.
        wording: puts the value into words before.
    """

    slot: SlotName
    language: Language
    text: str
    negated: str = ""
    fits: str = r".+"
    wording: Wording = field(default=lambda value: value)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A sentence taken apart.

    Attributes:
        slot: the slot that it speaks of.
        value: the value in the words of the sentence.
        negated: it is not so, or no longer.
    """

    slot: SlotName
    value: str
    negated: bool


class Phrasebook:
    """The templates of one kind of sentence.

    Args:
        phrases: where several fit, the first is taken.
        names: canonical sub-topic for what a sub-topic ``*`` is called, for each topic and language.
    """

    def __init__(
        self, phrases: Iterable[Phrase], names: Mapping[tuple[str, Language], Mapping[str, str]] | None = None
    ) -> None:
        self._names = names or {}
        self._by_slot: dict[tuple[SlotName, Language], list[tuple[re.Pattern[str], Phrase]]] = {}
        self._phrases = tuple(phrases)
        for phrase in self._phrases:
            self._by_slot.setdefault((phrase.slot, phrase.language), []).append((re.compile(phrase.fits), phrase))

    def render(self, finding: Finding, language: Language) -> str | None:
        """Return the sentence for a finding, or None when there is no template for it."""
        slot = (finding.slot[0], "*") if finding.called else finding.slot
        for fits, phrase in self._by_slot.get((slot, language), ()):
            value = phrase.wording(finding.value)
            template = phrase.negated if finding.retracts else phrase.text
            if template and fits.fullmatch(value):
                return template.format(value=value, called=finding.called)
        return None

    def parse(self, sentence: str) -> Parsed | None:
        """Return what a sentence in the words of one of the templates says, or None when it is in none of them."""
        for pattern, phrase, negated in self._readers:
            match = pattern.fullmatch(sentence)
            if match is None:
                continue
            groups = match.groupdict()
            topic, sub_topic = phrase.slot
            if sub_topic == "*":
                sub_topic = self._names[topic, phrase.language].get(groups["called"], "")
                if not sub_topic:
                    continue
            return Parsed((topic, sub_topic), groups.get("value", ""), negated)
        return None

    @cached_property
    def _readers(self) -> tuple[tuple[re.Pattern[str], Phrase, bool], ...]:
        """The patterns of all templates, made when a sentence is taken apart for the first time."""
        return tuple(
            (self._reader(phrase, template), phrase, negated)
            for phrase in self._phrases
            for template, negated in ((phrase.text, False), (phrase.negated, True))
            if template
        )

    def _reader(self, phrase: Phrase, template: str) -> re.Pattern[str]:
        parts = _FIELD.split(template)
        names = self._names.get((phrase.slot[0], phrase.language), {})
        called = "|".join(sorted(map(re.escape, names), key=len, reverse=True)) or r".+?"
        patterns = {"value": f"(?P<value>{phrase.fits})", "called": f"(?P<called>{called})"}
        return re.compile(
            "".join(patterns[part] if position % 2 else re.escape(part) for position, part in enumerate(parts))
        )
