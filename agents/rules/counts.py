"""Counted things: ``two kids`` apart into how many and what."""

from __future__ import annotations

import re
from typing import Final

_COUNT: Final = re.compile(
    r"(?:(?P<zh>[一两二三四五六七八九十几\d]+)[个只条匹辆台](?:亲)?"
    r"|(?P<en>an?|one|two|three|four|five|six|seven|eight|nine|ten|several|a few|some|\d+) )(?=.)",
    re.IGNORECASE,
)
_ONE: Final = frozenset({"a", "an", "one", "一", "1"})
_BRACKET: Final = re.compile(r"^.+? ?[(（](?P<kind>.+)[)）]$")
_PLURAL: Final = re.compile(r"(?<=[a-z]{2}[^s\W])s$")
_SAME: Final = {"children": "kid", "kids": "kid", "child": "kid", "小孩": "孩子", "娃": "孩子", "宝宝": "孩子"}


def count(text: str) -> str:
    """Return how many there are, in the words of the text; empty where it does not say so."""
    match = _COUNT.match(text)
    if match is None:
        return ""
    number = (match["zh"] or match["en"]).lower()
    return "one" if number in _ONE else number


def uncounted(text: str) -> str:
    """Return a text without the number at its beginning."""
    return _COUNT.sub("", text, count=1)


def kind(item: str) -> str:
    """Return what something is: ``dog`` for ``Rex (dog)`` and for ``two dogs``."""
    named = _BRACKET.match(item)
    what = _PLURAL.sub("", uncounted(named["kind"] if named else item).strip().casefold())
    return _SAME.get(what, _SAME.get(f"{what}s", what))


def is_kind_of(item: str, what: str) -> bool:
    """Whether an item is of a kind, or of a closer one: 橘猫 is a 猫."""
    return kind(item).endswith(kind(what))
