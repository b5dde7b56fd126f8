"""How a profile is printed: as tables for people, as one object for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import msgspec
from rich.table import Table
from rich.text import Text

from schemas.facts import FACT_CATEGORIES, PREFERENCE_CATEGORIES, Fact, Preference, UserTag
from schemas.profiles import Profile, Slot
from streams.cli.common import printable, stdout_console
from streams.cli.printing import local_day, local_time, user_name

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import Console

    from schemas.deltas import ProfileDelta

MAX_FACTS: Final = 50
"""Facts that people are shown: those most recently confirmed."""

MAX_PREFERENCES: Final = 20
"""Preferences that people are shown: the strongest."""

MAX_TAGS: Final = 10
"""Tags that people are shown: the most frequent."""

_NEVER_FOLDED: Final = frozenset({"said", "confidence", "strength", "times", "confirmed", "last seen"})

Item = TypeVar("Item", Fact, Preference)


def profile_object(profile: Profile, changes: Sequence[ProfileDelta]) -> dict[str, object]:
    """Return all of a profile for programs: facts and preferences by category, in the order that people see.

    Args:
        profile: what is known now.
        changes: of its facts, oldest first; those that replaced a text are in it.
    """
    facts = by_category(FACT_CATEGORIES, newest(profile.facts))
    preferences = by_category(PREFERENCE_CATEGORIES, strongest(profile.preferences))
    return {
        "tenant_id": profile.tenant_id,
        "user_id": profile.user_id,
        "version": profile.version,
        "slots": profile.slots,
        "facts": {name: [_plain(fact, "fact") for fact in group] for name, group in facts.items()},
        "preferences": {name: [_plain(one, "preference") for one in group] for name, group in preferences.items()},
        "facts_count": len(profile.facts),
        "preferences_count": len(profile.preferences),
        "tags": most_frequent(profile.tags),
        "replaced_facts": [
            {**_plain(fact, "fact"), "category": fact.category, "replaced": fact.replaced}
            for fact in reversed(profile.replaced_facts)
        ],
        "changed_facts": [
            {"fact": delta.before, "category": delta.topic, "until": delta.said_at, "fact_id": delta.item_id}
            for delta in reversed(changes)
            if delta.op == "update"
        ],
    }


def _plain(item: Fact | Preference, name: str) -> dict[str, object]:
    """Return an item's fields without its category, the text first and under the name of what it is."""
    fields = msgspec.structs.asdict(item)
    return {name: item.text} | {key: fields[key] for key in fields if key not in {"text", "category", "replaced"}}


def newest(facts: Iterable[Fact]) -> list[Fact]:
    """Return facts, those most recently confirmed first."""
    return sorted(facts, key=lambda fact: (fact.last_confirmed, fact.version), reverse=True)


def strongest(preferences: Iterable[Preference]) -> list[Preference]:
    """Return preferences, the strongest first, and of equal ones the most recently confirmed."""
    return sorted(preferences, key=lambda one: (one.strength, one.last_confirmed, one.version), reverse=True)


def most_frequent(tags: Iterable[UserTag]) -> list[UserTag]:
    """Return tags, the most frequent first, and of equal ones the most recently seen."""
    return sorted(tags, key=lambda tag: (tag.count, tag.last_seen, tag.version), reverse=True)


def by_category(categories: Sequence[str], items: Iterable[Item]) -> dict[str, list[Item]]:
    """Return the items of each category that has any; categories in the given order, items in theirs."""
    groups: dict[str, list[Item]] = {category: [] for category in categories}
    for item in items:
        groups[item.category].append(item)
    return {category: group for category, group in groups.items() if group}


class Former(NamedTuple):
    """A fact that no longer holds, as it was last said, and until when it held."""

    category: str
    text: str
    until: datetime


def former_facts(profile: Profile, changes: Iterable[ProfileDelta]) -> list[Former]:
    """Return the facts that no longer hold, each once, the latest to go first.

    Who moves to and fro has a text replaced, and said anew, any number of times.

    Args:
        profile: has those that newer ones contradict.
        changes: of its facts; those that replaced a text say what it was.
    """
    contradicted = [
        Former(fact.category, fact.text, fact.replaced.said_at) for fact in profile.replaced_facts if fact.replaced
    ]
    rewritten = [
        Former(delta.topic, delta.before, delta.said_at)
        for delta in changes
        if delta.op == "update" and delta.before is not None
    ]
    held = {(fact.category, fact.text) for fact in profile.facts}
    last: dict[tuple[str, str], Former] = {}
    for former in sorted([*contradicted, *rewritten], key=lambda former: former.until, reverse=True):
        if (former.category, former.text) not in held:
            last.setdefault((former.category, former.text), former)
    return list(last.values())


def print_profile(profile: Profile, *, former: Sequence[Former] = ()) -> None:
    """Print a profile for people.

    Args:
        profile: what is printed.
        former: facts that no longer hold, to be printed too.
    """
    console = stdout_console()
    console.print(f"{user_name(profile.tenant_id, profile.user_id)}, version {profile.version}", style="italic")
    if profile.slots:
        console.print(_slot_table(profile.slots))
    if profile.facts or former:
        _print_part(console, "Facts", _fact_table(profile.facts, former), len(profile.facts), MAX_FACTS)
    if profile.preferences:
        table = _preference_table(profile.preferences)
        _print_part(console, "Preferences", table, len(profile.preferences), MAX_PREFERENCES)
    if profile.tags:
        _print_part(console, "Tags", _tag_table(profile.tags), len(profile.tags), MAX_TAGS)


def _print_part(console: Console, name: str, table: Table, count: int, most: int) -> None:
    console.print(f"\n{name} ({count})", style="italic")
    console.print(table)
    if count > most:
        console.print(f"and {count - most} more, which --json has", style="dim")


def _slot_table(slots: Iterable[Slot]) -> Table:
    table = _table("topic", "slot", "value", "said")
    for topic, group in groupby(slots, key=lambda slot: slot.topic):
        _add_group(table, topic, map(_slot_cells, group))
    return table


def _slot_cells(slot: Slot) -> tuple[Text, ...]:
    inferred = " (inferred)" if slot.assertion == "inferred" else ""
    return (
        Text(printable(slot.sub_topic)),
        Text(printable(slot.value) + inferred),
        Text(local_time(slot.said_at), "dim"),
    )


def _fact_table(facts: Iterable[Fact], former: Iterable[Former]) -> Table:
    ordered = newest(facts)
    counts: Counter[str] = Counter(fact.category for fact in ordered)
    held = by_category(FACT_CATEGORIES, ordered[:MAX_FACTS])
    before: dict[str, list[Former]] = {}
    for each in former:
        before.setdefault(each.category, []).append(each)
    table = _table("category", "fact", "confidence", "times", "confirmed")
    for category in FACT_CATEGORIES:
        rows = [*map(_fact_cells, held.get(category, ())), *map(_former_cells, before.get(category, ()))]
        _add_group(table, f"{category} ({counts[category]})", rows)
    return table


def _fact_cells(fact: Fact) -> tuple[Text, ...]:
    return (
        Text(printable(fact.text)),
        Text(f"{fact.confidence:.2f}"),
        Text(f"×{fact.times_mentioned}"),
        Text(local_day(fact.last_confirmed), "dim"),
    )


def _former_cells(former: Former) -> tuple[Text, ...]:
    return (Text(f"before: {printable(former.text)}, until {local_day(former.until)}", "dim"),)


def _preference_table(preferences: Iterable[Preference]) -> Table:
    ordered = strongest(preferences)
    counts: Counter[str] = Counter(one.category for one in ordered)
    table = _table("category", "preference", "strength", "times", "confirmed")
    for category, group in by_category(PREFERENCE_CATEGORIES, ordered[:MAX_PREFERENCES]).items():
        _add_group(table, f"{category} ({counts[category]})", map(_preference_cells, group))
    return table


def _preference_cells(preference: Preference) -> tuple[Text, ...]:
    return (
        Text(printable(preference.text)),
        Text(f"{preference.strength:.2f}"),
        Text(f"×{preference.times_observed}"),
        Text(local_day(preference.last_confirmed), "dim"),
    )


def _tag_table(tags: Iterable[UserTag]) -> Table:
    table = _table("tag", "times", "last seen")
    for tag in most_frequent(tags)[:MAX_TAGS]:
        table.add_row(Text(printable(tag.name), "bold"), Text(f"×{tag.count}"), Text(local_day(tag.last_seen), "dim"))
    return table


def _table(*headings: str) -> Table:
    """Return an empty table; where there is not enough room, texts are folded and numbers and times are not."""
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading in _NEVER_FOLDED)
    return table


def _add_group(table: Table, name: str, rows: Iterable[tuple[Text, ...]]) -> None:
    """Add rows; the name of the group is in the first of them only."""
    for number, cells in enumerate(rows):
        table.add_row(Text("" if number else printable(name), "bold"), *cells)
