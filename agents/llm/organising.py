"""The groups that a model makes of a topic's values, checked."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final

from agents.llm.answers import dropped
from agents.llm.formats import GROUPS, GroupItem
from agents.llm.nothing import is_nothing
from agents.llm.values import Numbers
from agents.processor import Group, StoredValue
from schemas.profiles import unify
from schemas.stages import Dropped

_SEPARATOR: Final = "; "
_NAME_LIMIT: Final = 64
_VALUE_LIMIT: Final = 16_000


def groups(
    items: Iterable[GroupItem], values: Sequence[StoredValue], allowed: Container[str] | None
) -> tuple[tuple[Group, ...], list[Dropped]]:
    """Return the usable groups and what was dropped.

    A value belongs to the first group that names it. Groups of one name become one. Whether every value is in some
    group is for the caller to see.

    Args:
        items: the model's groups.
        values: the values that were to be grouped.
        allowed: the only sub-topics that may be used; None allows all.
    """
    given = {value.number for value in values}
    used: set[int] = set()
    found: dict[str, Group] = {}
    drops: list[Dropped] = []
    for item in items:
        name = unify(item.sub_topic)
        if reason := _refusal(name, item.memo, allowed):
            drops.append(dropped(GROUPS, reason, f"{name}: {item.memo}"))
            continue
        sources, refused = _sources(item.values, given, used)
        drops += refused
        if not sources:
            drops.append(dropped(GROUPS, "no_values", f"{name}: {item.memo}"))
            continue
        used.update(sources)
        known = found.get(name)
        value = str(item.memo) if known is None else f"{known.value}{_SEPARATOR}{item.memo}"
        earlier = () if known is None else known.sources
        found[name] = Group(sub_topic=name, value=value, sources=earlier + sources)
    return tuple(found.values()), drops


def _sources(numbers: Numbers, given: Container[int], used: Container[int]) -> tuple[tuple[int, ...], list[Dropped]]:
    sources = tuple(number for number in numbers if number in given and number not in used)
    drops = [
        dropped(GROUPS, "number_used_twice" if number in given else "unknown_number", str(number))
        for number in numbers
        if number not in sources
    ]
    drops += (dropped(GROUPS, "unknown_number", text) for text in numbers.unreadable)
    return sources, drops


def _refusal(name: str, memo: str, allowed: Container[str] | None) -> str | None:
    """Return why a group cannot be used, or None."""
    if is_nothing(name):
        return "no_slot"
    if len(name) > _NAME_LIMIT:
        return "name_too_long"
    if is_nothing(memo):
        return "says_nothing"
    if len(memo) > _VALUE_LIMIT:
        return "value_too_long"
    return "slot_not_configured" if allowed is not None and name not in allowed else None
