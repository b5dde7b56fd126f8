"""What becomes of a proposal: a newer value stands, a list grows, what is taken back goes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from agents.processor import Decision, Proposal, SlotName
from agents.rules import slots

_LEADING: Final = re.compile(
    r"^(?:(?:the|a|an|my|to|some|drinking|eating|playing|watching|listening to|reading|going)\s+)+", re.IGNORECASE
)
_LEADING_VERB: Final = re.compile(r"^[喝吃看听打玩读做]+(?=.)")
_NONE: Final = re.compile(r"(?:no|not|none)\b|没|无过敏|不过敏", re.IGNORECASE)
_BRACKET: Final = re.compile(r"[(（](.+)[)）]$")


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
    known = {item_key(item) for item in items}
    new = list({item_key(item): item for item in reversed(offered) if item_key(item) not in known}.values())[::-1]
    if not new:
        return _abort(proposal, "already known")
    added = slots.SEPARATOR.join(new)
    superseded = [item for item in items if _supersedes(proposal, item, new)]
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


def _supersedes(proposal: Proposal, item: str, new: Sequence[str]) -> bool:
    """Whether new items say more exactly what this one says, or the contrary of it.

    ``Mochi (cat)`` says more than ``cat``; "no allergies" and an allergy exclude each other.
    """
    for other in new:
        bracket = _BRACKET.search(other)
        if bracket and item_key(bracket[1]) == item_key(item):
            return True
    slot = (proposal.candidate.topic, proposal.candidate.sub_topic)
    if slot in {slots.ALLERGIES, slots.CHILDREN, slots.PETS}:
        return bool(_NONE.match(item)) != any(_NONE.match(other) for other in new)
    return False


def _retract(proposal: Proposal, slot: SlotName, present: str) -> Decision:
    gone = {item_key(item) for item in slots.split_items(proposal.candidate.memo)}
    items = [present] if slots.holds_one_value(slot) and present else slots.split_items(present)
    kept = [item for item in items if item_key(item) not in gone]
    if len(kept) == len(items):
        return _abort(proposal, f"{proposal.candidate.memo} was not recorded")
    removed = slots.SEPARATOR.join(item for item in items if item not in kept)
    return _update(proposal, slots.SEPARATOR.join(kept), f"the user takes back {removed}")
