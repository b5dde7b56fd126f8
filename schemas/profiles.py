"""`Profile`: what is known of a user now, and how a delta changes it.

`apply_deltas` is the only code that changes a profile. The merge uses it as changes are made, and a restore
uses it to rebuild profiles from the archive, so the two cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from schemas.deltas import FlushEvent, ProfileDelta
from schemas.flushes import FlushRef, Lane
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


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """All slots of one user, ordered by topic and sub-topic.

    Attributes:
        version: version of the last change; 0 when nothing was ever recorded.
    """

    tenant_id: str
    user_id: str
    version: int = 0
    slots: tuple[Slot, ...] = ()

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
    version = profile.version
    for delta in deltas:
        if delta.version != version + 1:
            raise VersionGap(
                f"delta {delta.delta_id} has version {delta.version}, but the profile of "
                f"{profile.tenant_id}:{profile.user_id} is at {version}"
            )
        version = delta.version
        key = (delta.topic, delta.sub_topic)
        if delta.after is None:
            slots.pop(key, None)
            continue
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
    return msgspec.structs.replace(profile, version=version, slots=tuple(slots[key] for key in sorted(slots)))


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


class ProfileState(msgspec.Struct, frozen=True, kw_only=True):
    """The record that the merge keeps of a user: written as a whole, before anything is sent.

    Attributes:
        profile: the profile after the last applied flush.
        applied: for each lane, how far its flushes are applied.
        deltas: what the last applied flush changed: sent again when the flush is read again.
        event: how it ended: likewise.
    """

    profile: Profile
    applied: dict[Lane, AppliedMark] = {}
    deltas: tuple[ProfileDelta, ...] = ()
    event: FlushEvent | None = None
