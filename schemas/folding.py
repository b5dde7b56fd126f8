"""How a delta changes the facts, preferences and tags of a profile; `schemas.profiles.apply_deltas` calls it."""

from __future__ import annotations

from typing import Final

import msgspec

from schemas.deltas import ProfileDelta
from schemas.facts import Fact, Preference, Replacement, UserTag

MAX_REPLACED_FACTS: Final = 50
"""Facts that no longer hold which a profile keeps."""


def fold_fact(facts: dict[str, Fact], replaced: list[Fact], delta: ProfileDelta) -> None:
    """Apply a delta of kind ``fact``.

    Raises:
        msgspec.ValidationError: when the delta's detail or category is not that of a fact.
    """
    known = facts.get(delta.item_id)
    if delta.after is None:
        facts.pop(delta.item_id, None)
        if known is not None and delta.op == "invalidate":
            replaced.append(msgspec.structs.replace(known, version=delta.version, replaced=_replacement(delta)))
            del replaced[:-MAX_REPLACED_FACTS]
        return
    if delta.fact is None:
        raise msgspec.ValidationError(f"delta {delta.delta_id} of kind fact has no detail of a fact")
    said_again = known is not None and delta.op == "confirm"
    facts[delta.item_id] = msgspec.convert(
        {
            "fact_id": delta.item_id,
            "text": delta.after,
            "category": delta.topic,
            "confidence": delta.fact.confidence,
            "importance": delta.fact.importance,
            "source_session": known.source_session if known and said_again else delta.fact.session_id,
            "first_seen": min(known.first_seen, delta.said_at) if known else delta.said_at,
            "last_confirmed": max(known.last_confirmed, delta.said_at) if known else delta.said_at,
            "times_mentioned": delta.update_hits,
            "evidence": delta.evidence,
            "recorded_at": delta.recorded_at,
            "version": delta.version,
        },
        Fact,
    )


def _replacement(delta: ProfileDelta) -> Replacement:
    return Replacement(
        by=(delta.fact.replaced_by if delta.fact else None) or "",
        reason=delta.reason,
        said_at=delta.said_at,
        recorded_at=delta.recorded_at,
    )


def fold_preference(preferences: dict[str, Preference], delta: ProfileDelta) -> None:
    """Apply a delta of kind ``preference``.

    Raises:
        msgspec.ValidationError: when the delta's detail or category is not that of a preference.
    """
    known = preferences.get(delta.item_id)
    if delta.after is None:
        preferences.pop(delta.item_id, None)
        return
    if delta.preference is None:
        raise msgspec.ValidationError(f"delta {delta.delta_id} of kind preference has no detail of a preference")
    preferences[delta.item_id] = msgspec.convert(
        {
            "preference_id": delta.item_id,
            "text": delta.after,
            "category": delta.topic,
            "strength": delta.preference.strength,
            "quotes": delta.preference.quotes,
            "first_seen": min(known.first_seen, delta.said_at) if known else delta.said_at,
            "last_confirmed": max(known.last_confirmed, delta.said_at) if known else delta.said_at,
            "times_observed": delta.update_hits,
            "evidence": delta.evidence,
            "recorded_at": delta.recorded_at,
            "version": delta.version,
        },
        Preference,
    )


def fold_tag(tags: dict[str, UserTag], delta: ProfileDelta) -> None:
    """Apply a delta of kind ``tag``."""
    known = tags.get(delta.sub_topic)
    tags[delta.sub_topic] = UserTag(
        name=delta.sub_topic,
        count=delta.update_hits,
        first_seen=min(known.first_seen, delta.said_at) if known else delta.said_at,
        last_seen=max(known.last_seen, delta.said_at) if known else delta.said_at,
        version=delta.version,
    )
