"""`Rule`: a pattern and what it gives; `Rulebook`: the rules of one language, compiled once when first read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from agents.processor import SlotName
from agents.rules.required import RequiredWords

Cleaner = Callable[[str], list[str]]
"""Turns captured text into the values it holds; an empty list when it is not such a value after all."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One value that a sentence states about the user.

    Attributes:
        flips: the sentence says outright that it was otherwise before ("I like tea now").
        if_known: it means something only where that value is known ("I left Berlin").
        called: the user's word for the sub-topic, where the rule reads that from the sentence ("mum").
    """

    slot: SlotName
    value: str
    retracts: bool = False
    flips: bool = False
    if_known: bool = False
    called: str = ""


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a sentence with the user as its subject, ready to be matched from its start.

    Attributes:
        greets: it belongs to a greeting or introduction, where "I'm Susan" gives a name.
        implied: its subject is left out and nothing in the sentence names one.
        opening: what was taken off its beginning ("from now on").
    """

    text: str
    greets: bool = False
    implied: bool = False
    opening: str = ""

    @property
    def whole(self) -> str:
        """The clause with its opening."""
        return self.opening + self.text


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
    if_known: bool = False


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
        from_opening: may start at the clause's opening, which says when ("at weekends").
    """

    name: str
    pattern: str
    gives: tuple[Give, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    greeting_only: bool = False
    implied_too: bool = False
    from_opening: bool = False


class Rulebook:
    """The rules of one language.

    They are compiled when a clause is read for the first time, since many a process never meets their language. That
    takes longer than an event loop may wait.

    Attributes:
        rules: all of them, in order.
    """

    def __init__(self, rules: Iterable[Rule], flags: int = 0) -> None:
        self.rules = tuple(rules)
        self._flags = flags

    @property
    def is_compiled(self) -> bool:
        """Whether a clause can be read at once."""
        return {"_patterns", "_required"} <= vars(self).keys()

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(re.compile(rule.pattern, self._flags) for rule in self.rules)

    @cached_property
    def _required(self) -> RequiredWords:
        return RequiredWords([rule.pattern for rule in self.rules], self._flags)

    def read(self, clause: Clause) -> Iterator[Finding]:
        """Yield what the clause states; every rule that matches has its say."""
        patterns = self._patterns
        for number in self._required.candidates(clause.whole):
            rule, pattern = self.rules[number], patterns[number]
            if (rule.greeting_only and not clause.greets) or (clause.implied and not rule.implied_too):
                continue
            match = pattern.match(clause.text)
            if rule.from_opening:
                match = pattern.match(clause.whole) or match
            if match is not None:
                yield from _findings(rule, match)


def _findings(rule: Rule, match: re.Match[str]) -> Iterator[Finding]:
    groups = {name: text.strip() for name, text in match.groupdict().items() if text}
    for give in rule.gives:
        try:
            value = give.value.format_map(groups)
            slot, called = _slot(give.slot, groups, rule.names)
        except KeyError:
            continue
        for item in give.clean(value):
            yield Finding(slot, item, retracts=give.retracts, flips=give.flips, if_known=give.if_known, called=called)


def _slot(slot: SlotName, groups: Mapping[str, str], names: Mapping[str, str]) -> tuple[SlotName, str]:
    topic, sub_topic = slot
    if not sub_topic.startswith("{"):
        return slot, ""
    called = groups[sub_topic.strip("{}")].lower()
    return (topic, names[called]), called
