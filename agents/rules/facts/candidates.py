"""Facts that the user's messages state, set against the known ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agents.rules import relations, slots
from agents.rules.facts import fact_phrases
from agents.rules.facts.statements import Statement, told
from schemas.facts import Fact
from schemas.flushes import BatchMessage
from schemas.stages import FactCandidate

_PLAIN: Final = 0.9
_UNSURE: Final = 0.7


def extract(messages: Sequence[BatchMessage], known: Sequence[Fact]) -> tuple[FactCandidate, ...]:
    """Return what the messages state as a fact, each once.

    Args:
        messages: of any author; only the user's count.
        known: the known fact that is said again, or contradicted, is looked for in this order.
    """
    found: dict[object, tuple[Statement, str, tuple[str, ...]]] = {}
    for statement in told(messages):
        text = word(statement)
        if text is None:
            continue
        finding = statement.finding
        key = finding.slot if slots.holds_one_value(finding.slot) and not finding.retracts else text
        before = found.pop(key, None)  # what is said last of a slot with one value stands
        cited = (*before[2], statement.message_id) if before and before[1] == text else (statement.message_id,)
        found[key] = (statement, text, tuple(dict.fromkeys(cited)))
    return tuple(
        candidate
        for statement, text, cited in found.values()
        if not (statement.finding.retracts and statement.finding.slot in found)  # the new value says as much
        if (candidate := _candidate(statement, text, cited, known))
    )


def word(statement: Statement, *, tastes: bool = False) -> str | None:
    """Return a statement as a fact in the third person; None when it is none.

    Args:
        statement: of the user.
        tastes: tell tastes too, which are preferences otherwise.
    """
    if fact_phrases.is_taste(statement.finding) and not tastes:
        return None
    return fact_phrases.PHRASES.render(statement.finding, statement.language)


def _candidate(statement: Statement, text: str, cited: tuple[str, ...], known: Sequence[Fact]) -> FactCandidate | None:
    related = [(relations.facts(fact.text, text), fact) for fact in known]
    repeated = next((fact for relation, fact in related if relation == "duplicate"), None)
    contradicted = next((fact for relation, fact in related if relation in {"update", "conflict"}), None)
    if statement.finding.if_known and contradicted is None:
        return None
    return FactCandidate(
        text=repeated.text if repeated else text,
        category=repeated.category if repeated else fact_phrases.category(statement.finding.slot),
        confidence=_UNSURE if statement.hedged or statement.implied else _PLAIN,
        evidence=cited,
        conflicts_with=contradicted.fact_id if contradicted and not repeated else None,
        repeats=repeated.fact_id if repeated else None,
    )
