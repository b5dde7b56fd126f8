"""`ProfileDelta`, one change of one slot, and `FlushEvent`, the one record that ends a flush."""

from __future__ import annotations

from typing import Literal

import msgspec

from schemas.flushes import FlushRef
from schemas.messages import AwareDatetime
from schemas.stages import Assertion, Domain, Dropped, EventTag, MemoBullet, MessageRef, ModelCall

DeltaKind = Literal["slot", "fact", "preference", "tag", "profile"]
Operation = Literal[
    "add", "update", "append", "confirm", "delete", "invalidate", "organise", "shorten", "overtaken", "forget"
]
Outcome = Literal["applied", "empty", "failed", "forgotten"]


class FactDetail(msgspec.Struct, frozen=True, kw_only=True):
    """What a delta of kind ``fact`` says beyond the text.

    Attributes:
        confidence: from 0 to 1, after the change.
        importance: likewise.
        session_id: session of the message behind the change.
        replaced_by: of ``invalidate``: id of the fact that replaces it.
    """

    confidence: float
    importance: float
    session_id: str | None = None
    replaced_by: str | None = None


class PreferenceDetail(msgspec.Struct, frozen=True, kw_only=True):
    """What a delta of kind ``preference`` says beyond the text.

    Attributes:
        strength: from 0 to 1, after the change.
        strength_before: before it; None when the preference is new.
        quotes: the user's words behind it, after the change, oldest first.
    """

    strength: float
    strength_before: float | None = None
    quotes: tuple[str, ...] = ()


class ProfileDelta(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one thing in a profile: what it was, what it is now, why, and which messages say so.

    What changed is a slot, named by `topic` and `sub_topic`; a fact or a preference, named by `item_id`, with its
    category as `topic`; the count of a tag, with ``tag`` as `topic` and the tag's name as `sub_topic`; or, of kind
    ``profile``, all of it.

    Attributes:
        delta_id: derived from `flush_id` and `index`.
        version: the profile's version after this change: rises by one for each delta of the user, without gaps.
        flush_id: the flush it comes from.
        index: position among the deltas of that flush, from 0.
        kind: what kind of thing changed.
        op: ``add`` (there was none), ``update`` (rewritten), ``append`` (extended), ``confirm`` (said again, text
            unchanged), ``delete`` (taken back, or given up for want of room), ``invalidate`` (a fact that a newer one
            contradicts), ``organise`` (values of a topic with too many slots were regrouped: moved here, or, when
            `after` is null, moved away), ``shorten`` (said in fewer words), ``overtaken`` (an older value, in `added`,
            that came late: nothing changes), ``forget`` (all that was known of the user is gone, in the archive and the
            index as well: the delta holds none of it).
        before: the text before; null when there was none. Of a tag: its count.
        after: the text now; null when there is none any more. Likewise.
        added: only what this flush brought, without what was there before.
        reason: why the change was made, for people.
        evidence: ids of the messages, all of this flush, that say so; never empty.
        assertion: whether the user said it or it was inferred.
        update_hits: how often the content was given, this change included: 1 when it was added. Of a fact: times
            mentioned; of a preference: times observed; of a tag: its count.
        said_at: when the newest evidence was written.
        recorded_at: when the change was made, by the worker's clock.
        processor: who decided: ``rules`` or the model's name.
        pipeline_version: content hash of the configuration and prompts in force.
        item_id: id of the fact or preference; empty for the other kinds.
        fact: of kind ``fact``.
        preference: of kind ``preference``.
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
    item_id: str = ""
    fact: FactDetail | None = None
    preference: PreferenceDetail | None = None


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a flush took, in milliseconds, by stage."""

    window: float = 0.0
    summary: float = 0.0
    extract: float = 0.0
    tag: float = 0.0
    merge: float = 0.0
    domain: float = 0.0
    facts: float = 0.0


class AddedValue(msgspec.Struct, frozen=True, kw_only=True):
    """What a flush brought to a slot, or as a fact or preference, without what was there before."""

    topic: str
    sub_topic: str
    value: str
    kind: DeltaKind = "slot"


class FlushEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a flush: exactly one for each batch.

    Attributes:
        event_id: derived from the flush's id.
        flush: the heading of the batch.
        outcome: ``applied``; ``empty``: nothing about the user was said; ``failed``: the batch is in the
            dead letters; ``forgotten``: the user is.
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
        domain: short facts and keywords of the conversation, where they are asked for.
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
    domain: Domain | None = None
