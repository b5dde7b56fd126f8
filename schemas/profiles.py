"""`Profile`: what is known of a user now, and how a delta changes it.

`apply_deltas` is the only code that changes a profile. The merge uses it as changes are made, and a restore
uses it to rebuild profiles from the archive, so the two cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from schemas.deltas import FlushEvent, ProfileDelta
from schemas.facts import Fact, Preference, UserTag
from schemas.flushes import FlushRef, Lane
from schemas.folding import fold_fact, fold_preference, fold_tag
from schemas.messages import AwareDatetime
from schemas.stages import Assertion

_SPACES: Final = re.compile(r"\s+")


def unify(name: str) -> str:
    """Return a topic's name in the one form that slots are matched by: lower case, ``_`` for spaces."""
    return _SPACES.sub("_", name.strip().lower())


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a profile.

    Attributes:
        value: what is known, in the language it was said in.
        update_hits: how often its content was given: 1 when it was added, one more with every change and repeat.
        evidence: message ids of the change that last touched it.
        first_said_at: when the first evidence for the present value was written.
        said_at: when the newest evidence for it was written.
        recorded_at: when it last changed, by the worker's clock.
        version: the profile's version at its last change.
    """

    topic: str
    sub_topic: str
    value: str
    update_hits: int
    evidence: tuple[str, ...]
    assertion: Assertion
    first_said_at: AwareDatetime
    said_at: AwareDatetime
    recorded_at: AwareDatetime
    version: int

    @property
    def key(self) -> tuple[str, str]:
        """What identifies the slot within its profile."""
        return self.topic, self.sub_topic


class Profile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that is known of one user.

    Attributes:
        version: version of the last change; 0 when nothing was ever recorded.
        slots: ordered by topic and sub-topic.
        facts: those that hold, in the order in which they came.
        replaced_facts: those that newer ones contradict, in the order in which they were replaced; the newest
            `MAX_REPLACED_FACTS`, earlier ones are in the history only.
        preferences: in the order in which they came.
        tags: of the catalogue, ordered by name.
    """

    tenant_id: str
    user_id: str
    version: int = 0
    slots: tuple[Slot, ...] = ()
    facts: tuple[Fact, ...] = ()
    replaced_facts: tuple[Fact, ...] = ()
    preferences: tuple[Preference, ...] = ()
    tags: tuple[UserTag, ...] = ()

    @property
    def searchable(self) -> int:
        """How many things of it can be found by meaning: its slots, the facts that hold, its preferences."""
        return len(self.slots) + len(self.facts) + len(self.preferences)

    def slot(self, topic: str, sub_topic: str) -> Slot | None:
        """Return the slot of that (unified) name, or None when it is empty."""
        return next((slot for slot in self.slots if slot.key == (topic, sub_topic)), None)


class VersionGap(ValueError):
    """A delta does not follow the version of the profile it is applied to."""


def apply_deltas(profile: Profile, deltas: Iterable[ProfileDelta]) -> Profile:
    """Return the profile after these deltas, given in the order of their versions.

    Raises:
        VersionGap: when a delta is not the successor of the profile's version.
    """
    slots = {slot.key: slot for slot in profile.slots}
    facts = {fact.fact_id: fact for fact in profile.facts}
    replaced = list(profile.replaced_facts)
    preferences = {preference.preference_id: preference for preference in profile.preferences}
    tags = {tag.name: tag for tag in profile.tags}
    version = profile.version
    for delta in deltas:
        if delta.op == "forget" and delta.version > version:
            # What was there before is gone, the deltas that made it included.
            slots, facts, replaced, preferences, tags = {}, {}, [], {}, {}
            version = delta.version
            continue
        if delta.version != version + 1:
            raise VersionGap(
                f"delta {delta.delta_id} has version {delta.version}, but the profile of "
                f"{profile.tenant_id}:{profile.user_id} is at {version}"
            )
        version = delta.version
        if delta.op == "overtaken":
            continue
        match delta.kind:
            case "slot":
                _fold_slot(slots, delta)
            case "fact":
                fold_fact(facts, replaced, delta)
            case "preference":
                fold_preference(preferences, delta)
            case "tag":
                fold_tag(tags, delta)
    return msgspec.structs.replace(
        profile,
        version=version,
        slots=tuple(slots[key] for key in sorted(slots)),
        facts=tuple(facts.values()),
        replaced_facts=tuple(replaced),
        preferences=tuple(preferences.values()),
        tags=tuple(tags[name] for name in sorted(tags)),
    )


def _fold_slot(slots: dict[tuple[str, str], Slot], delta: ProfileDelta) -> None:
    key = (delta.topic, delta.sub_topic)
    if delta.after is None:
        slots.pop(key, None)
        return
    known = slots.get(key)
    keeps = delta.op in {"append", "confirm", "shorten"}
    slots[key] = Slot(
        topic=delta.topic,
        sub_topic=delta.sub_topic,
        value=delta.after,
        update_hits=delta.update_hits,
        evidence=delta.evidence,
        assertion=delta.assertion,
        first_said_at=min(known.first_said_at, delta.said_at) if known and keeps else delta.said_at,
        said_at=max(known.said_at, delta.said_at) if known and keeps else delta.said_at,
        recorded_at=delta.recorded_at,
        version=delta.version,
    )


class AppliedMark(msgspec.Struct, frozen=True, kw_only=True):
    """How far the flushes of one lane have been applied to a profile: an offset in one partition of one log."""

    log_id: str
    partition: int
    last_offset: int

    def covers(self, flush: FlushRef) -> bool:
        """Whether this flush has already been applied.

        Offsets of another log or partition say nothing about this one.
        """
        return (
            self.log_id == flush.log_id and self.partition == flush.partition and self.last_offset >= flush.last_offset
        )


class Retraction(msgspec.Struct, frozen=True, kw_only=True):
    """A slot whose value was taken back, and when that was said."""

    topic: str
    sub_topic: str
    said_at: AwareDatetime


class ProfileState(msgspec.Struct, frozen=True, kw_only=True):
    """The record that the merge keeps of a user: written as a whole, before anything is sent.

    Attributes:
        profile: the profile after the last applied flush.
        applied: for each lane, how far its flushes are applied.
        redriven: for each part of a flush that was sent again from the dead letters, as which number it was applied
            last; the newest `MAX_REDRIVEN`.
        deltas: what the last applied flush changed: sent again when the flush is read again.
        event: how it ended: likewise.
        retracted: slots that have no value since it was taken back; the newest `MAX_RETRACTED`.
    """

    profile: Profile
    applied: dict[Lane, AppliedMark] = {}
    deltas: tuple[ProfileDelta, ...] = ()
    event: FlushEvent | None = None
    redriven: dict[str, int] = {}
    retracted: tuple[Retraction, ...] = ()

    def has_applied(self, flush: FlushRef) -> bool:
        """Whether a flush has been applied, or is of a time before the user was forgotten."""
        forgotten = self.applied.get("forget")
        if forgotten is not None and forgotten.covers(flush):
            return True
        if flush.redrive:
            return self.redriven.get(redrive_key(flush), 0) >= flush.redrive
        mark = self.applied.get(flush.lane)
        return mark is not None and mark.covers(flush)

    def marked(self, flush: FlushRef) -> ProfileState:
        """Return the record with the mark that this flush is applied."""
        if flush.redrive:
            redriven = {**self.redriven, redrive_key(flush): flush.redrive}
            return msgspec.structs.replace(self, redriven=dict(list(redriven.items())[-MAX_REDRIVEN:]))
        mark = AppliedMark(log_id=flush.log_id, partition=flush.partition, last_offset=flush.last_offset)
        return msgspec.structs.replace(self, applied={**self.applied, flush.lane: mark})


MAX_REDRIVEN: Final = 200
"""Flushes of a user that were sent again which are remembered."""


MAX_RETRACTED: Final = 200
"""Slots of a user without a value of which it is remembered that they had one."""


def retracted_after(state: ProfileState, deltas: Sequence[ProfileDelta]) -> tuple[Retraction, ...]:
    """Return the slots whose value was taken back, once these deltas are applied."""
    found = {(each.topic, each.sub_topic): each for each in state.retracted}
    for delta in deltas:
        if delta.op == "forget":
            found.clear()
        elif delta.kind == "slot" and delta.op != "overtaken":
            slot = (delta.topic, delta.sub_topic)
            known = found.pop(slot, None)
            if delta.op == "delete":
                said_at = max(known.said_at, delta.said_at) if known else delta.said_at
                found[slot] = Retraction(topic=slot[0], sub_topic=slot[1], said_at=said_at)
    return tuple(found.values())[-MAX_RETRACTED:]


def redrive_key(flush: FlushRef) -> str:
    """Return what a flush that was sent again is remembered by."""
    return f"{flush.flush_id}:{flush.part}"
