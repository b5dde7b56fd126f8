"""What becomes of a proposal: a newer value stands, a list grows, what is taken back goes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from agents.processor import Decision, Proposal, SlotName
from agents.rules import counts, slots
from agents.rules.facts import manners

_LEADING: Final = re.compile(
    r"^(?:(?:the|a|an|my|to|some|drinking|eating|playing|watching|listening to|reading|going)\s+)+", re.IGNORECASE
)
_LEADING_VERB: Final = re.compile(r"^[喝吃看听打玩读做]+(?=.)")
_NONE: Final = re.compile(r"(?:no|not|none)\b|没|无过敏|不过敏", re.IGNORECASE)
_BRACKET: Final = re.compile(r"[(（](.+)[)）]$")
_COUNTED: Final = frozenset({slots.CHILDREN, slots.PETS, slots.SIBLINGS})


def item_key(item: str) -> str:
    """Return what two ways of naming one thing share: ``drinking tea`` and ``Tea``, 喝茶 and 茶."""
    text = _LEADING.sub("", " ".join(item.split()).casefold())
    return _LEADING_VERB.sub("", text)


def decide(proposals: Sequence[Proposal]) -> tuple[Decision, ...]:
    """Decide on every proposal, in order; a later one for the same slot sees what the earlier ones made of it."""
    present: dict[SlotName, str] = {}
    decisions = []
    for proposal in proposals:
        slot = (proposal.candidate.topic, proposal.candidate.sub_topic)
        before = present.get(slot, proposal.present or "")
        decision = _decide(proposal, slot, before)
        decisions.append(decision)
        if decision.action == "UPDATE":
            present[slot] = decision.value
        elif decision.action == "APPEND":
            present[slot] = slots.SEPARATOR.join(part for part in (before, decision.value) if part)
    return tuple(decisions)


def _decide(proposal: Proposal, slot: SlotName, present: str) -> Decision:
    if proposal.candidate.retracts:
        return _retract(proposal, slot, present)
    if slots.holds_one_value(slot):
        return _replace(proposal, present)
    return _extend(proposal, present)


def _update(proposal: Proposal, value: str, reason: str) -> Decision:
    return Decision(number=proposal.number, action="UPDATE", value=value, reason=reason)


def _abort(proposal: Proposal, reason: str) -> Decision:
    return Decision(number=proposal.number, action="ABORT", reason=reason)


def _replace(proposal: Proposal, present: str) -> Decision:
    value = proposal.candidate.memo
    if not present:
        return _update(proposal, value, f"the user says {value}")
    if item_key(value) == item_key(present):
        return _abort(proposal, "already known")
    return _update(proposal, value, f"the user now says {value} instead of {present}")


def _extend(proposal: Proposal, present: str) -> Decision:
    items = slots.split_items(present)
    offered = slots.split_items(proposal.candidate.memo)
    slot = (proposal.candidate.topic, proposal.candidate.sub_topic)
    new: list[str] = []
    for item in offered:
        if not any(_says_again(slot, item, other) for other in (*items, *new)):
            new = [other for other in new if not _supersedes(slot, other, item)] + [item]
    if not new:
        return _abort(proposal, "already known")
    added = slots.SEPARATOR.join(new)
    superseded = [item for item in items if any(_supersedes(slot, item, other) for other in new)]
    if superseded:
        kept = [item for item in items if item not in superseded]
        return _update(
            proposal,
            slots.SEPARATOR.join((*kept, *new)),
            f"the user now says {added} instead of {slots.SEPARATOR.join(superseded)}",
        )
    if not items:
        return _update(proposal, added, f"the user says {added}")
    return Decision(number=proposal.number, action="APPEND", value=added, reason=f"the user adds {added}")


def _says_again(slot: SlotName, item: str, known: str) -> bool:
    if item_key(item) == item_key(known):
        return True
    return slot == slots.COMMUNICATION and manners.relation(known, item) == "same"


def _supersedes(slot: SlotName, item: str, new: str) -> bool:
    """Whether a new item says more exactly what this one says, or the contrary of it.

    ``Mochi (cat)`` says more than ``cat``; "no allergies" and an allergy, "two kids" and "three kids", short and
    detailed answers exclude each other.
    """
    bracket = _BRACKET.search(new)
    if bracket and item_key(bracket[1]) == item_key(item):
        return True
    if slot == slots.COMMUNICATION:
        return manners.relation(item, new) == "opposite"
    if slot in {slots.ALLERGIES, slots.CHILDREN, slots.PETS} and bool(_NONE.match(item)) != bool(_NONE.match(new)):
        return True
    recounted = slot in _COUNTED and counts.count(new) and not _BRACKET.search(item)
    return bool(recounted) and counts.kind(item) == counts.kind(new)


def _retract(proposal: Proposal, slot: SlotName, present: str) -> Decision:
    gone = slots.split_items(proposal.candidate.memo)
    items = [present] if slots.holds_one_value(slot) and present else slots.split_items(present)
    kept = [item for item in items if not any(is_gone(slot, item, what) for what in gone)]
    if len(kept) == len(items):
        return _abort(proposal, f"{proposal.candidate.memo} was not recorded")
    removed = slots.SEPARATOR.join(item for item in items if item not in kept)
    return _update(proposal, slots.SEPARATOR.join(kept), f"the user takes back {removed}")


def is_gone(slot: SlotName, item: str, gone: str) -> bool:
    """Whether an item goes when something is taken back: ``Rex (dog)`` with ``dog``."""
    if gone == slots.WHATEVER or item_key(item) == item_key(gone):
        return True
    if slot == slots.COMMUNICATION:
        return manners.relation(item, gone) == "same"
    return slot == slots.PETS and counts.is_kind_of(item, gone)
