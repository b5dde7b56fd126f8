"""What a statement says of other slots: who has retired has no employer, who is single has no girlfriend."""

# ruff: noqa: E501 - a pattern reads best on one line

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agents.processor import SlotName
from agents.rules import merging, slots
from agents.rules.rulebook import Finding


@dataclass(frozen=True, slots=True)
class Ending:
    """Slots whose values do not outlive a statement.

    Attributes:
        slot: that the statement fills.
        says: pattern of its value.
        ends: the slots that hold no longer.
        only: the values that end there; any where there are none.
        states: values of `slot` that, the other way round, hold no longer when one of `ends` is stated.
    """

    slot: SlotName
    says: re.Pattern[str]
    ends: frozenset[SlotName]
    only: tuple[str, ...] = ()
    states: tuple[str, ...] = ()


_REFUSED: Final = re.compile(r"不(?!能)|no (?=\w)")
_SPOUSES: Final = frozenset({slots.person("wife"), slots.person("husband")})
_PARTNERS: Final = frozenset({slots.person("girlfriend"), slots.person("boyfriend"), slots.person("partner")})
_JOBLESS: Final = (
    "unemployed", "retired", "between jobs", "out of work", "无业", "待业", "待业中", "待业在家", "失业", "退休", "没有工作", "没工作",
)  # fmt: skip
_ALONE: Final = ("single", "单身", "没有对象", "没对象", "没有女朋友", "没女朋友", "没有男朋友", "没男朋友")
IN_A_COUPLE: Final = {
    "has a girlfriend": slots.person("girlfriend"), "has a boyfriend": slots.person("boyfriend"),
    "has a partner": slots.person("partner"), "有女朋友": slots.person("girlfriend"),
    "有男朋友": slots.person("boyfriend"), "有对象": slots.person("partner"),
}  # fmt: skip
"""Values of the marital status that name no one yet, and the slot for who it is."""


def _any(values: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, values)))


_ENDINGS: Final = (
    Ending(slots.WORK_STATUS, _any(_JOBLESS), frozenset({slots.COMPANY}), states=_JOBLESS),
    Ending(
        slots.CAREER_EVENT,
        re.compile(
            r"(?:quit|left|lost|resigned from) (?:my|their) (?:old |last )?job|laid off|fired|made redundant|retired|resigned|离职|辞职|裸辞|被裁|失业|退休"
        ),
        frozenset({slots.COMPANY}),
    ),
    Ending(
        slots.MARITAL_STATUS, _any(_ALONE), _PARTNERS | _SPOUSES | {slots.person("fiance")}, states=_ALONE
    ),
    Ending(slots.MARITAL_STATUS, re.compile("divorced|离异|离婚"), _SPOUSES, states=("divorced", "离异")),
    Ending(slots.MARRIAGE_EVENT, re.compile("(?:broke|broken|split) up|分手"), _PARTNERS),
    Ending(
        slots.MARRIAGE_EVENT, re.compile("(?:broke|broken|split) up|分手"), frozenset({slots.MARITAL_STATUS}), only=tuple(IN_A_COUPLE)
    ),
    Ending(slots.MARRIAGE_EVENT, re.compile("脱单"), frozenset({slots.MARITAL_STATUS}), only=_ALONE),
    Ending(slots.EDUCATION_EVENT, re.compile("^(?:just )?graduated|毕业"), frozenset({slots.STUDIES})),
)  # fmt: skip


def ended(slot: SlotName, value: str) -> Iterator[tuple[SlotName, tuple[str, ...]]]:
    """Yield each slot that a statement ends, with the values that end there; with none, any value does."""
    for ending in _ENDINGS:
        if _fits(ending.slot, slot) and ending.says.search(value):
            for other in ending.ends:
                yield other, ending.only
        elif slot in ending.ends and ending.states:
            yield ending.slot, ending.states


def contrary(finding: Finding) -> Iterator[tuple[SlotName, str]]:
    """Yield what cannot hold beside a taste: what is disliked or not eaten is neither liked nor a favourite."""
    slot, value = finding.slot, finding.value
    if slot == slots.LIKES:
        yield slots.DISLIKES, value
        thing = merging.item_key(value)
        yield from ((slots.DIET, refused) for refused in (f"不吃{thing}", f"不喝{thing}", f"no {thing}"))
    elif slot == slots.DISLIKES or (slot == slots.DIET and _REFUSED.match(value)):
        thing = _REFUSED.sub("", value) if slot == slots.DIET else value
        yield slots.LIKES, thing
        yield from ((favourite, thing) for favourite in slots.SEVERAL_FAVORITES)


def _fits(slot: SlotName, other: SlotName) -> bool:
    """Whether two slots are one; a sentence that tells an event does not tell of which kind it is."""
    return slot == other or slot[0] == other[0] == "life_event"


def ends(slot: SlotName, value: str, other: SlotName, standing: str) -> bool:
    """Whether a statement ends what stands in another slot."""
    return any(target == other and (not values or standing in values) for target, values in ended(slot, value))
