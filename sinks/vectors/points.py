"""The points of the vector index: what each stands for, its id, its payload, and how deltas change it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, get_args

import msgspec

from schemas.deltas import FlushEvent, Operation, ProfileDelta
from schemas.facts import without_subject
from schemas.ids import derive, slot_id

PointKind = Literal["slot", "fact", "preference", "gist", "user"]
ALL_KINDS: Final[tuple[PointKind, ...]] = get_args(PointKind)
PROFILE_KINDS: Final[tuple[PointKind, ...]] = ("slot", "fact", "preference")
"""What a profile holds, as far as it is searched: tags are counted, not searched."""

SEARCHED_KINDS: Final[tuple[PointKind, ...]] = (*PROFILE_KINDS, "gist")

User = tuple[str, str]
"""Tenant and user."""

_KEEP_THE_BEGINNING: Final[frozenset[Operation]] = frozenset({"append", "confirm", "shorten"})


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What the store has already of a slot, fact or preference."""

    version: int
    text: str
    valid_from: datetime


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What deltas make of one point.

    Attributes:
        delta: the newest of them.
        valid_from: since when what it says holds; None when it holds no longer.
    """

    delta: ProfileDelta
    valid_from: datetime | None


def user_of(delta: ProfileDelta) -> User:
    """Return whose delta it is."""
    return delta.tenant_id, delta.user_id


def user_point_id(tenant_id: str, user_id: str) -> str:
    """Id of the point that stands for a user."""
    return derive("user", tenant_id, user_id)


def gist_id(flush_id: str, number: int) -> str:
    """Id of the gist at position `number` of a flush's memo: sent again from the dead letters, it stays the same."""
    return derive("gist", flush_id, number)


def by_point(deltas: Iterable[ProfileDelta], forgotten: Mapping[User, int]) -> dict[str, list[ProfileDelta]]:
    """Return the deltas that change a point, by its id, in the order of their versions.

    Args:
        deltas: in any order, repeats included.
        forgotten: versions before which nothing of a user counts.
    """
    found: dict[str, list[ProfileDelta]] = {}
    for delta in deltas:
        if delta.kind not in PROFILE_KINDS or delta.op == "overtaken":
            continue
        if delta.version >= forgotten.get(user_of(delta), 0):
            found.setdefault(_point_id(delta), []).append(delta)
    for changes in found.values():
        changes.sort(key=lambda delta: delta.version)
    return found


def fold(stored: Stored | None, deltas: Sequence[ProfileDelta]) -> Change | None:
    """Return what a point's deltas, in the order of their versions, make of it; None when the store knows better.

    It is the same whether deltas come one by one or all at once.
    """
    newer = [delta for delta in deltas if stored is None or delta.version > stored.version]
    if not newer:
        return None
    since = stored.valid_from if stored else None
    for delta in newer:
        if delta.after is None:
            since = None
        elif since is None or delta.op not in _KEEP_THE_BEGINNING:
            since = delta.said_at
        else:
            since = min(since, delta.said_at)
    return Change(delta=newer[-1], valid_from=since)


def rendering(delta: ProfileDelta) -> str:
    """Put what a point stands for into words for the embedder.

    The text of a fact or preference speaks for itself, without "User ...", which they all begin with. Of a slot it is
    "basic info city: Hangzhou": the names say what the value is about, as "29" alone is an age as well as a shoe size.
    They are fixed parts of the point's id, so the vector depends on the text alone.
    """
    if delta.kind != "slot":
        return without_subject(delta.after or "")
    name = f"{delta.topic} {delta.sub_topic}".replace("_", " ")
    return f"{name}: {delta.after}"


def payload(change: Change) -> dict[str, Any]:
    """Return the payload of a slot, fact or preference."""
    delta = change.delta
    fields: dict[str, Any] = {
        "tenant_id": delta.tenant_id,
        "user_id": delta.user_id,
        "kind": delta.kind,
        "topic": delta.topic,
        "sub_topic": delta.sub_topic,
        "item_id": delta.item_id,
        "text": delta.after,
        "version": delta.version,
        "evidence": delta.evidence,
        "valid_from": change.valid_from,
        "said_at": delta.said_at,
        "recorded_at": delta.recorded_at,
    }
    if delta.fact is not None:
        fields["confidence"] = delta.fact.confidence
    if delta.preference is not None:
        fields["strength"] = delta.preference.strength
    found: dict[str, Any] = msgspec.to_builtins(fields)
    return found


def gists(event: FlushEvent) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give id and payload of each bullet of a flush's memo."""
    flush = event.flush
    written = {message.message_id: message.occurred_at for message in event.messages}
    for number, bullet in enumerate(event.memo):
        times = [written[message_id] for message_id in bullet.evidence if message_id in written]
        fields = {
            "tenant_id": flush.tenant_id,
            "user_id": flush.user_id,
            "kind": "gist",
            "topic": "",
            "sub_topic": "",
            "item_id": gist_id(flush.flush_id, number),
            "text": bullet.text,
            "version": event.last_version or 0,
            "evidence": bullet.evidence,
            "tags": [f"{tag.tag}={tag.value}" for tag in event.tags],
            "valid_from": min(times, default=flush.first_occurred_at),
            "said_at": max(times, default=flush.last_occurred_at),
            "recorded_at": event.recorded_at,
            "flush_id": flush.flush_id,
            "log_id": flush.log_id,
            "partition": flush.partition,
            "last_offset": flush.last_offset,
        }
        yield gist_id(flush.flush_id, number), msgspec.to_builtins(fields)


def user_payload(user: User, version: int) -> dict[str, Any]:
    """Return the payload of the point that stands for a user, made of a version of their profile."""
    tenant_id, user_id = user
    return {"tenant_id": tenant_id, "user_id": user_id, "kind": "user", "version": version}


def mean(vectors: Sequence[Sequence[float]]) -> list[float]:
    """Return the sum of vectors of length 1, which points where their mean does."""
    return [sum(numbers) for numbers in zip(*vectors, strict=True)]


def _point_id(delta: ProfileDelta) -> str:
    """Return what stays the same for all changes of one thing, so that a later one overwrites an earlier."""
    if delta.kind == "slot":
        return slot_id(delta.tenant_id, delta.user_id, delta.kind, delta.topic, delta.sub_topic)
    return delta.item_id
