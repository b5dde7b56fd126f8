"""`pack`: a profile and events under a token budget, as text for a prompt; nothing is read or sent here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Final, Literal, NamedTuple, TypeVar

import msgspec

from profilestream_client.packing_text import SECTIONS, WORDS, Language, Section, Words, language_of
from profilestream_client.records import unify
from profilestream_client.tokens import estimate_tokens

T = TypeVar("T", "Item", "Event")
CountTokens = Callable[[str], int]
Reason = Literal["empty", "topic", "per_topic", "time", "similarity", "budget"]

_TRIES: Final = 50
"""Items in a row that do not fit, after which no more are tried: a long profile must not take long."""

_SAMPLE: Final = 200
"""Of how many items and events the language is looked at: the most important ones."""

_BREAKS: Final = re.compile("[\\s\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
"""What is no part of a line's text: white space, controls, and what turns the direction of writing."""

_SURROGATES: Final = re.compile("[\ud800-\udfff]")


class Item(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A slot, fact or preference that holds.

    Attributes:
        kind: which of the three.
        topic: of a fact or preference: its category.
        sub_topic: of a slot.
        text: the slot's value, or the fact or preference itself.
        said_at: when the newest message behind it was written.
    """

    kind: Literal["slot", "fact", "preference"]
    topic: str
    text: str
    said_at: datetime
    sub_topic: str = ""


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something that was talked about.

    Attributes:
        text: one sentence.
        said_at: when the newest message behind it was written.
        similarity: how near it is in meaning to the conversation at hand, 1 at the most; None where that is not known.
        kind: tells it from an item.
    """

    text: str
    said_at: datetime
    similarity: float | None = None
    kind: Literal["event"] = "event"


class PackingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What goes into a context, and in which order.

    Attributes:
        budget: tokens at the most, headings included.
        prefer: topics that come first, the most important first; also categories of facts and preferences.
        only: the only topics, or categories, that are taken; empty: all. Events have no topic and are not affected.
        per_topic: how many items of one topic are taken, the newest of them; None: all.
        events_share: the part of the budget that is kept for events, from 0 to 1. What they do not use is the
            profile's, and the other way round.
        since: only events from this time on.
        until: only events before this time.
        min_similarity: only events that are at least as near in meaning; those whose nearness is not known are taken.
        language: of the headings; None: of most of what is known.

    Raises:
        ValueError: when one of them makes no sense.
    """

    budget: int = 500
    prefer: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    per_topic: int | None = None
    events_share: float = 0.4
    since: datetime | None = None
    until: datetime | None = None
    min_similarity: float | None = None
    language: Language | None = None

    def __post_init__(self) -> None:
        if self.budget < 0:
            raise ValueError("budget is less than 0: give a number of tokens")
        if not 0 <= self.events_share <= 1:
            raise ValueError("events_share is not between 0 and 1")
        if self.per_topic is not None and self.per_topic < 1:
            raise ValueError("per_topic is less than 1: leave it out for no limit")
        for name in ("since", "until"):
            if (moment := getattr(self, name)) is not None and moment.tzinfo is None:
                raise ValueError(f"{name} has no offset from UTC")


class LeftOut(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is not in a context, and why.

    Attributes:
        what: the item or event.
        reason: ``empty`` (it has no text), ``topic`` (not among the only ones), ``per_topic`` (its topic has newer
            ones), ``time`` (outside the range), ``similarity`` (not near enough), ``budget`` (there was no room).
    """

    what: Item | Event
    reason: Reason


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """A context, and how it came about.

    Attributes:
        text: for the prompt; empty where nothing is known, or where the budget is too small for anything.
        tokens: how many it has, as counted.
        budget: how many it may have.
        included: what is in it, in the order of the text.
        left_out: everything else.
        pending: how many messages are not processed yet; None where that is not known.
    """

    text: str
    tokens: int
    budget: int
    included: tuple[Item | Event, ...]
    left_out: tuple[LeftOut, ...]
    pending: int | None = None


def pack(
    items: Sequence[Item],
    events: Sequence[Event],
    options: PackingOptions | None = None,
    *,
    pending: int | None = None,
    count_tokens: CountTokens = estimate_tokens,
) -> Packed:
    """Choose from what is known of a user, and write it down under a budget.

    Of the profile, preferred topics come first and then what was said last. Events come by their nearness in meaning
    where it is known, and then the newest first. An item is taken as a whole or not at all; where one does not fit, a
    smaller one of the next 50 still may. Each is one line, whatever characters it has, so that none can pass for a
    heading or for another item.

    Args:
        items: what the profile holds, in any order.
        events: what was talked about, in any order.
        options: what goes in.
        pending: how many messages are not processed yet; the text says so if there are any.
        count_tokens: counts the tokens of a text. By default they are estimated, and never too low.
    """
    options = options or PackingOptions()
    left_out: list[LeftOut] = []
    ranked_items = _items(items, options, left_out)
    ranked_events = _events(events, options, left_out)
    language = options.language or language_of(_texts(ranked_items, ranked_events))
    page = _Page(WORDS[language], options.budget, count_tokens, pending)
    reserved = int(options.budget * options.events_share) if ranked_events else 0
    for_later = page.fill(list(enumerate(ranked_items)), options.budget - reserved)
    too_big: list[Item | Event] = [each for _, each in page.fill(list(enumerate(ranked_events)), options.budget)]
    too_big += (each for _, each in page.fill(for_later, options.budget))
    text, tokens, included, dropped = page.text()
    left_out += (LeftOut(what=each, reason="budget") for each in (*too_big, *dropped))
    return Packed(
        text=text,
        tokens=tokens,
        budget=options.budget,
        included=included,
        left_out=tuple(left_out),
        pending=pending,
    )


def _texts(items: Sequence[Item], events: Sequence[Event]) -> Iterator[str]:
    yield from (item.text for item in items[:_SAMPLE])
    yield from (event.text for event in events[:_SAMPLE])


def one_line(text: str) -> str:
    """Return a text without what would end its line, command a terminal, turn its direction or be no character."""
    return _SURROGATES.sub("\ufffd", _BREAKS.sub(" ", text)).strip()


def _is_empty(text: str) -> bool:
    return not text or _BREAKS.fullmatch(text) is not None


def _items(items: Sequence[Item], options: PackingOptions, left_out: list[LeftOut]) -> list[Item]:
    """Return the items that may go in, the most important first."""
    preferred = {unify(topic): place for place, topic in reversed(list(enumerate(options.prefer)))}
    only = {unify(topic) for topic in options.only}
    names = {topic: unify(topic) for topic in {item.topic for item in items}}

    # Stable sorts, the least important first: a long profile is sorted in C.
    ranked = sorted(items, key=attrgetter("topic", "sub_topic", "text"))
    ranked.sort(key=attrgetter("kind"), reverse=True)  # slots, preferences, facts
    ranked.sort(key=attrgetter("said_at"), reverse=True)
    ranked.sort(key=lambda item: preferred.get(names[item.topic], len(options.prefer)))
    taken: list[Item] = []
    of_topic: Counter[tuple[str, str]] = Counter()
    for item in ranked:
        topic = item.kind, names[item.topic]
        if _is_empty(item.text):
            left_out.append(LeftOut(what=item, reason="empty"))
        elif only and topic[1] not in only:
            left_out.append(LeftOut(what=item, reason="topic"))
        elif options.per_topic is not None and of_topic[topic] >= options.per_topic:
            left_out.append(LeftOut(what=item, reason="per_topic"))
        else:
            of_topic[topic] += 1
            taken.append(item)
    return taken


def _events(events: Sequence[Event], options: PackingOptions, left_out: list[LeftOut]) -> list[Event]:
    """Return the events that may go in, the most important first."""

    def importance(event: Event) -> tuple[bool, float, float, str]:
        near = event.similarity
        return near is None, -(near or 0.0), -event.said_at.timestamp(), event.text

    taken: list[Event] = []
    for event in sorted(events, key=importance):
        reason = _refusal(event, options)
        if reason is None:
            taken.append(event)
        else:
            left_out.append(LeftOut(what=event, reason=reason))
    return taken


def _refusal(event: Event, options: PackingOptions) -> Reason | None:
    if _is_empty(event.text):
        return "empty"
    if options.since is not None and event.said_at < options.since:
        return "time"
    if options.until is not None and event.said_at >= options.until:
        return "time"
    if options.min_similarity is not None and event.similarity is not None:
        return "similarity" if event.similarity < options.min_similarity else None
    return None


class _Taken(NamedTuple):
    rank: int
    what: Item | Event
    line: str


class _Page:
    """The text as it fills up.

    Args:
        words: of its headings.
        budget: tokens that it may have at the most.
        count_tokens: counts them.
        pending: messages that are not processed yet.
    """

    def __init__(self, words: Words, budget: int, count_tokens: CountTokens, pending: int | None) -> None:
        self._words = words
        self._budget = budget
        self._count = count_tokens
        self._taken: list[_Taken] = []
        self._open: set[Section] = set()
        self._costs: dict[str, int] = {}
        self._title = words.title
        self._used = self._cost(self._title)
        self._has_note = False
        if pending:
            note = words.pending.format(count=pending)
            if self._used + self._cost(note) <= budget:
                self._title += f"\n{note}"
                self._used += self._cost(note)
                self._has_note = True

    def fill(self, ranked: Sequence[tuple[int, T]], limit: int) -> list[tuple[int, T]]:
        """Take what fits while the text stays within `limit` tokens; return what does not, each with its rank."""
        rest: list[tuple[int, T]] = []
        tries = 0
        for rank, each in ranked:
            if self._used >= limit or tries == _TRIES:
                rest.append((rank, each))
                continue
            line, section = self._line(each), each.kind
            cost = self._cost(line) + (0 if section in self._open else self._cost(self._words.sections[section]))
            if self._used + cost > limit:
                rest.append((rank, each))
                tries += 1
                continue
            tries = 0
            self._used += cost
            self._open.add(section)
            self._taken.append(_Taken(rank, each, line))
        return rest

    def text(self) -> tuple[str, int, tuple[Item | Event, ...], list[Item | Event]]:
        """Return the text, its tokens, what is in it, and what had to go after all.

        Parts need not have as many tokens apart as they have together, for whatever counts them; so the whole is
        counted as well.
        """
        dropped: list[Item | Event] = []
        while self._taken or self._has_note:
            ordered = self._ordered()
            text = self._joined(ordered)
            if (tokens := self._count(text)) <= self._budget:
                return text, tokens, tuple(taken.what for taken in ordered), dropped
            if not self._taken:
                break
            dropped.append(self._taken.pop().what)
        return "", 0, (), dropped

    def _ordered(self) -> list[_Taken]:
        """Return what was taken by section and, within it, by topic; a topic stands where its first item would."""
        by_rank = sorted(self._taken, key=lambda taken: taken.rank)
        topics: dict[tuple[Section, str], int] = {}
        for taken in by_rank:
            topics.setdefault(_group(taken.what), len(topics))
        return sorted(by_rank, key=lambda taken: (SECTIONS.index(taken.what.kind), topics[_group(taken.what)]))

    def _joined(self, ordered: Sequence[_Taken]) -> str:
        lines = [self._title]
        section: Section | None = None
        for taken in ordered:
            if taken.what.kind != section:
                section = taken.what.kind
                lines.append(self._words.sections[section])
            lines.append(taken.line)
        return "\n".join(lines)

    def _line(self, each: Item | Event) -> str:
        text = one_line(each.text)
        if isinstance(each, Event):
            return f"- {each.said_at.astimezone(UTC):%Y-%m-%d}{self._words.colon}{text}"
        if each.kind == "slot":
            return f"- {one_line(each.topic)}/{one_line(each.sub_topic)}{self._words.colon}{text}"
        return f"- {text}"

    def _cost(self, line: str) -> int:
        """Return the tokens of a line and its end; what comes twice is counted once."""
        if line not in self._costs:
            self._costs[line] = self._count(f"{line}\n")
        return self._costs[line]


def _group(each: Item | Event) -> tuple[Section, str]:
    """Return what stands together: the items of a topic; facts and preferences do not show theirs."""
    return each.kind, each.topic if isinstance(each, Item) and each.kind == "slot" else ""
