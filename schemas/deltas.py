"""`ProfileDelta`, one change of one slot, and `FlushEvent`, the one record that ends a flush."""

from __future__ import annotations

from typing import Literal

import msgspec

from schemas.flushes import FlushRef
from schemas.messages import AwareDatetime
from schemas.stages import Assertion, Dropped, EventTag, MemoBullet, MessageRef, ModelCall

DeltaKind = Literal["slot"]
Operation = Literal["add", "update", "append", "confirm", "delete", "organise", "shorten"]
Outcome = Literal["applied", "empty", "failed"]


class ProfileDelta(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one profile slot: what it was, what it is now, why, and which messages say so.

    Attributes:
        delta_id: derived from `flush_id` and `index`.
        version: the profile's version after this change: rises by one for each delta of the user, without gaps.
        flush_id: the flush it comes from.
        index: position among the deltas of that flush, from 0.
        kind: what kind of thing changed.
        op: ``add`` (the slot was empty), ``update`` (rewritten), ``append`` (extended), ``confirm`` (said
            again, value unchanged), ``delete`` (taken back, slot now empty), ``organise`` (values of a topic
            with too many slots were regrouped: moved here, or, when `after` is null, moved away), ``shorten``
            (said in fewer words).
        before: the slot's value before; null when it was empty.
        after: the value now; null when it is empty.
        added: only what this flush brought, without what was there before.
        reason: why the change was made, for people.
        evidence: ids of the messages, all of this flush, that say so; never empty.
        assertion: whether the user said it or it was inferred.
        update_hits: how often the slot's content was given, this change included: 1 when it was added.
        said_at: when the newest evidence was written.
        recorded_at: when the change was made, by the worker's clock.
        processor: who decided: ``rules`` or the model's name.
        pipeline_version: content hash of the configuration and prompts in force.
    """

    delta_id: str
    tenant_id: str
    user_id: str
    version: int
    flush_id: str
    index: int
    op: Operation
    topic: str
    sub_topic: str
    before: str | None
    after: str | None
    added: str | None
    reason: str
    evidence: tuple[str, ...]
    update_hits: int
    said_at: AwareDatetime
    recorded_at: AwareDatetime
    processor: str
    pipeline_version: str
    assertion: Assertion = "said"
    kind: DeltaKind = "slot"


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a flush took, in milliseconds, by stage."""

    window: float = 0.0
    summary: float = 0.0
    extract: float = 0.0
    tag: float = 0.0
    merge: float = 0.0


class AddedValue(msgspec.Struct, frozen=True, kw_only=True):
    """What a flush brought to a slot, without what was there before."""

    topic: str
    sub_topic: str
    value: str


class FlushEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a flush: exactly one for each batch.

    Attributes:
        event_id: derived from the flush's id.
        flush: the heading of the batch.
        outcome: ``applied``; ``empty``: nothing about the user was said; ``failed``: the batch is in the
            dead letters.
        memo: the summary's bullets.
        tags: event tags.
        messages: every message of the flush, without text.
        added: what it brought to the profile: only what is new.
        delta_ids: the changes it made, in order of their versions.
        first_version: version of the first of them, or null when there is none.
        last_version: likewise of the last.
        calls: every model call made for it.
        dropped: everything that could not be used, with the reason.
        errors: what failed, by branch; a failed tag branch does not make the flush fail.
        recorded_at: when it ended, by the worker's clock.
    """

    event_id: str
    flush: FlushRef
    outcome: Outcome
    memo: tuple[MemoBullet, ...]
    tags: tuple[EventTag, ...]
    messages: tuple[MessageRef, ...]
    delta_ids: tuple[str, ...]
    first_version: int | None
    last_version: int | None
    calls: tuple[ModelCall, ...]
    dropped: tuple[Dropped, ...]
    errors: dict[str, str]
    timings: Timings
    recorded_at: AwareDatetime
    processor: str
    pipeline_version: str
    added: tuple[AddedValue, ...] = ()
