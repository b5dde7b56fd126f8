"""`Rule`: a pattern and what it gives; `Rulebook`: the rules of one language, compiled once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agents.processor import SlotName

Cleaner = Callable[[str], list[str]]
"""Turns captured text into the values it holds; an empty list when it is not such a value after all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One value that a sentence states about the user.

    Attributes:
        flips: the sentence says outright that it was otherwise before ("I like tea now").
    """

    slot: SlotName
    value: str
    retracts: bool = False
    flips: bool = False


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a sentence with the user as its subject, ready to be matched from its start.

    Attributes:
        greets: it belongs to a greeting or introduction, where "I'm Susan" gives a name.
        implied: its subject is left out and nothing in the sentence names one.
    """

    text: str
    greets: bool = False
    implied: bool = False


@dataclass(frozen=True, slots=True)
class Give:
    """What a matched rule puts into a slot.

    Attributes:
        slot: the slot; a sub-topic ``{group}`` is replaced by what that group matched, through `Rule.names`.
        value: a template over the pattern's groups. When one of them did not take part, nothing is given.
        clean: checks the text and takes it apart.
    """

    slot: SlotName
    value: str
    clean: Cleaner = field(default=lambda text: [text])
    retracts: bool = False
    flips: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern that is matched from the start of a clause.

    Attributes:
        name: for tests and for people.
        pattern: a regular expression with named groups.
        gives: what it means.
        names: canonical sub-topic for what a group matched (``mum`` and ``mother`` are one).
        greeting_only: applies only to clauses that greet.
        implied_too: applies also where the subject is left out.
    """

    name: str
    pattern: str
    gives: tuple[Give, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    greeting_only: bool = False
    implied_too: bool = False


class Rulebook:
    """The rules of one language."""

    def __init__(self, rules: Iterable[Rule], flags: int = 0) -> None:
        self._rules = tuple((re.compile(rule.pattern, flags), rule) for rule in rules)

    def read(self, clause: Clause) -> Iterator[Finding]:
        """Yield what the clause states; every rule that matches has its say."""
        for pattern, rule in self._rules:
            if (rule.greeting_only and not clause.greets) or (clause.implied and not rule.implied_too):
                continue
            match = pattern.match(clause.text)
            if match is not None:
                yield from _findings(rule, match)


def _findings(rule: Rule, match: re.Match[str]) -> Iterator[Finding]:
    groups = {name: text.strip() for name, text in match.groupdict().items() if text}
    for give in rule.gives:
        try:
            value = give.value.format_map(groups)
            slot = _slot(give.slot, groups, rule.names)
        except KeyError:
            continue
        for item in give.clean(value):
            yield Finding(slot, item, retracts=give.retracts, flips=give.flips)


def _slot(slot: SlotName, groups: Mapping[str, str], names: Mapping[str, str]) -> SlotName:
    topic, sub_topic = slot
    if "{" not in sub_topic:
        return slot
    return topic, sub_topic.format_map(
        {name: names[text.lower()] for name, text in groups.items() if text.lower() in names}
    )
