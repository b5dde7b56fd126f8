"""Decisions on merge proposals: those a model made, checked, and the one that stands in when it made none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from agents.llm.answers import dropped
from agents.llm.formats import DECISIONS, DecisionItem
from agents.llm.nothing import is_nothing
from agents.processor import Action, Decision, Proposal
from schemas.stages import Dropped

SEPARATOR: Final = "; "
_VALUE_LIMIT: Final = 16_000
_REASON_LIMIT: Final = 300

_WORD: Final = re.compile(r"[\u0e00-\U0010ffff]|[^\W_\u0e00-\U0010ffff]+")
"""A word, or a single character of the scripts that do not part words by spaces."""

_STEM: Final = 3
"""Letters by which words are compared, so that ``cat`` and ``cats`` agree."""


def decisions(
    items: Iterable[DecisionItem], proposals: Sequence[Proposal]
) -> tuple[dict[int, Decision], list[Dropped]]:
    """Return the usable decisions by their proposals' numbers, and what was dropped: the first of each counts."""
    given = {proposal.number: proposal for proposal in proposals}
    decided: dict[int, Decision] = {}
    drops: list[Dropped] = []
    for item in items:
        proposal = given.get(item.number)
        if proposal is None:
            drops.append(dropped(DECISIONS, "unknown_number", _shown(item)))
        elif item.number in decided:
            drops.append(dropped(DECISIONS, "duplicate_decision", _shown(item)))
        else:
            decision = _checked(item, proposal)
            if isinstance(decision, Decision):
                decided[item.number] = decision
            else:
                drops.append(dropped(DECISIONS, decision, _shown(item)))
    return decided, drops


def fallback(proposal: Proposal, cause: str) -> Decision:
    """Return the decision that keeps a proposal which the model did not decide on; `cause` says why not.

    A new value is added to the slot. What is taken back leaves the slot where it is one of its parts; otherwise it
    is not known what to change, and nothing does.
    """
    memo = proposal.candidate.memo
    if not proposal.candidate.retracts:
        if proposal.present is None:
            return _decision(proposal, "UPDATE", memo, f"kept without a decision of the model ({cause})")
        return _decision(proposal, "APPEND", memo, f"kept without a decision of the model ({cause})")
    parts = (proposal.present or "").split(SEPARATOR)
    left = [part for part in parts if part.strip().casefold() != memo.strip().casefold()]
    if proposal.present is None or len(left) == len(parts):
        return _decision(proposal, "ABORT", "", f"taken back, but not in the slot as such ({cause})")
    return _decision(proposal, "UPDATE", SEPARATOR.join(left), f"taken back without a decision of the model ({cause})")


def _checked(item: DecisionItem, proposal: Proposal) -> Decision | str:
    """Return the decision, or the code of what is wrong with it."""
    action = item.action.upper()
    value = "" if is_nothing(item.value) else str(item.value)
    reason = " ".join(item.reason.split())[:_REASON_LIMIT]
    if len(value) > _VALUE_LIMIT:
        return "value_too_long"
    if action == "ABORT":
        return _decision(proposal, "ABORT", "", reason)
    if action not in {"UPDATE", "APPEND"}:
        return "unknown_action"
    memo, present = proposal.candidate.memo, proposal.present or ""
    if proposal.candidate.retracts:
        if action == "APPEND":
            return "cannot_take_back"
        return _decision(proposal, "UPDATE", value, reason) if _related(value, present) else "unrelated_value"
    if action == "APPEND" and present:
        value = _without_present(value, present) or memo
        return _decision(proposal, "APPEND", value, reason) if _related(value, memo) else "unrelated_value"
    if not value:
        return "says_nothing"
    return _decision(proposal, "UPDATE", value, reason) if _related(value, memo, present) else "unrelated_value"


def _without_present(value: str, present: str) -> str:
    """Return what a value adds, where the model has repeated the present one before it."""
    if value == present:
        return ""
    rest = value.removeprefix(present)
    return rest.lstrip("; ；") if rest != value and rest.lstrip().startswith((";", "；")) else value


def _related(value: str, *sources: str) -> bool:
    """Whether a value has anything in common with what it should be made of: models mix up proposals."""
    words = _words(value)
    known = set().union(*map(_words, sources))
    return not words or not known or not words.isdisjoint(known)


def _words(text: str) -> set[str]:
    return {word[:_STEM] for word in _WORD.findall(text.casefold()) if word.isalnum()}


def _decision(proposal: Proposal, action: Action, value: str, reason: str) -> Decision:
    return Decision(number=proposal.number, action=action, value=value, reason=reason)


def _shown(item: DecisionItem) -> str:
    return f"{item.number} {item.action}: {item.value}"
