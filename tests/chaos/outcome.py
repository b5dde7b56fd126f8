"""What a run of the program has left behind, and how two runs of the same input may differ: not at all.

But for the clocks, and for one thing that no promise covers: the two lanes of a user are merged as they come, so
which of them gets the next version of the profile differs from run to run. So deltas are compared for each user and
lane, in their order; and versions, which must have no gaps, are otherwise left out, as are times at which something
was recorded, windows were opened or closed, and durations. All else is equal: ids, texts, reasons, evidence, times at
which things were said.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from msgspec.structs import replace
from qdrant_client import AsyncQdrantClient

from benchmarks.harness import Written
from schemas.deltas import FlushEvent, ProfileDelta, Timings
from schemas.flushes import FlushBatch, FlushRef
from schemas.profiles import Profile, apply_deltas
from sinks.clickhouse.client import ClickHouseClient
from sinks.clickhouse.columns import DELTAS, EVENTS
from sinks.vectors import PROFILE_KINDS
from sinks.vectors.points import gist_id, mean, user_point_id
from sinks.vectors.user_points import POINTS_OF_A_USER
from streams.settings import ClickHouseSettings, Settings
from streams.stores import open_archive, open_vectors
from streams.verify import profiles_table

User = tuple[str, str]

_NO_TIME: Final = datetime.fromtimestamp(0, UTC)
_STORES_LIMIT: Final = 180.0
_SHOWN: Final = 5
Point = tuple[Mapping[str, Any], Any]
"""Payload and vectors."""

_PAGE: Final = 1_000

_TAG_HITS: Final = """
SELECT tenant_id, user_id, tag, hit_at, delta_id, flush_id, `index`, count, evidence
FROM tag_hits FINAL ORDER BY tenant_id, tag, hit_at, delta_id
"""


@dataclass(frozen=True)
class Outcome:
    """What a run has left behind.

    Attributes:
        flushes: on the topic, by id.
        deltas: of each user, in the archive, in the order of their versions.
        events: in the archive, by id.
        tag_hits: rows of the archive.
        profiles: of each user, in the archive.
        points: payload and vector of each point in the index.
    """

    flushes: Mapping[str, FlushBatch]
    deltas: Mapping[User, Sequence[ProfileDelta]]
    events: Mapping[str, FlushEvent]
    tag_hits: Sequence[Sequence[Any]]
    profiles: Mapping[User, Profile]
    points: Mapping[str, Point]


async def outcome(settings: Settings, written: Written) -> Outcome:
    """Return what a run has left behind, once the stores have all that is on the topics.

    Raises:
        TimeoutError: when they do not get it in time.
    """
    deltas, events = kept(written)
    folded = profiles_of(written.deltas)
    async with open_archive(settings.clickhouse) as store, open_vectors(settings) as vectors:
        points = sum(profile.searchable for profile in folded.values())
        async with asyncio.timeout(_STORES_LIMIT):
            while (counts := await store.counts())["deltas"] != len(deltas) or counts["events"] != len(events):
                await asyncio.sleep(0.2)
            while await vectors.count() != points or not await _is_up_to_date(
                settings, vectors.collection, folded, events
            ):
                await asyncio.sleep(0.2)
        archived = {user: await store.profile(*user) for user in folded}
        found = await _points(settings, vectors.collection)
    async with _clickhouse(settings.clickhouse) as client:
        rows = await client.rows(f"SELECT {DELTAS.select_list} FROM profile_deltas FINAL ORDER BY version")
        by_user: dict[User, list[ProfileDelta]] = {}
        for delta in DELTAS.records(rows):
            by_user.setdefault((delta.tenant_id, delta.user_id), []).append(delta)
        ended = EVENTS.records(await client.rows(f"SELECT {EVENTS.select_list} FROM flush_events FINAL"))
        hits = await client.rows(_TAG_HITS)
    return Outcome(
        flushes={batch.ref.flush_id: batch for batch in written.flushes},
        deltas=by_user,
        events={event.event_id: event for event in ended},
        tag_hits=[tuple(map(_plain, row)) for row in hits],
        profiles=archived,
        points=found,
    )


def kept(written: Written) -> tuple[dict[str, ProfileDelta], dict[str, FlushEvent]]:
    """Return the deltas and events that the stores have to hold, by id: of users who were forgotten, what follows."""
    forgets = written.forgets
    versions: dict[User, int] = {}
    for delta in written.deltas:
        if delta.op == "forget":
            user = (delta.tenant_id, delta.user_id)
            versions[user] = max(delta.version, versions.get(user, 0))
    deltas = {
        delta.delta_id: delta
        for delta in written.deltas
        if delta.version >= versions.get((delta.tenant_id, delta.user_id), 0)
    }
    events = {
        event.event_id: event
        for event in written.events
        if event.flush.last_offset >= forgets.get((event.flush.tenant_id, event.flush.user_id), 0)
    }
    return deltas, events


def profiles_of(deltas: Sequence[ProfileDelta]) -> dict[User, Profile]:
    """Return the profiles that these deltas make; repeats count once."""
    once = {delta.delta_id: delta for delta in deltas}
    by_user: dict[User, list[ProfileDelta]] = {}
    for delta in sorted(once.values(), key=lambda delta: delta.version):
        by_user.setdefault((delta.tenant_id, delta.user_id), []).append(delta)
    return {
        user: apply_deltas(Profile(tenant_id=user[0], user_id=user[1]), history) for user, history in by_user.items()
    }


async def disagreements(settings: Settings, written: Written, left: Outcome) -> list[str]:
    """Return where the topics, the worker's own table and the stores do not say the same; empty when they do."""
    deltas, events = kept(written)
    archived = {delta.delta_id: delta for history in left.deltas.values() for delta in history}
    folded = profiles_of(written.deltas)
    table = await profiles_table(settings.kafka)
    tags = {(delta.delta_id, delta.sub_topic) for delta in deltas.values() if delta.kind == "tag"}
    problems = [
        *_compared("delta, topic and archive", deltas, archived),
        *_compared("event, topic and archive", events, left.events),
        *_compared("profile, topic and archive", folded, left.profiles),
        *_compared("profile, topic and table", folded, {user: table.get(user) for user in folded}),
    ]
    if tags != {(row[4], row[2]) for row in left.tag_hits} or len(tags) != len(left.tag_hits):
        problems.append(f"{len(tags)} tags were counted, and {len(left.tag_hits)} hits are archived")
    return problems


def differences(one: Outcome, other: Outcome) -> list[str]:
    """Return in what two runs of the same input differ, a line each with what it was and is; empty when in nothing."""
    return [
        *_compared(
            "flush",
            {flush_id: replace(batch, ref=_timeless(batch.ref)) for flush_id, batch in one.flushes.items()},
            {flush_id: replace(batch, ref=_timeless(batch.ref)) for flush_id, batch in other.flushes.items()},
        ),
        *_compared("deltas", _by_lane(one), _by_lane(other)),
        *_compared(
            "event",
            {event_id: _event(event) for event_id, event in one.events.items()},
            {event_id: _event(event) for event_id, event in other.events.items()},
        ),
        *_compared("tag hit", dict(enumerate(one.tag_hits)), dict(enumerate(other.tag_hits))),
        *_compared(
            "profile",
            {user: _profile(profile) for user, profile in one.profiles.items()},
            {user: _profile(profile) for user, profile in other.profiles.items()},
        ),
        *_compared(
            "point",
            {point: (_payload(payload), vector) for point, (payload, vector) in one.points.items()},
            {point: (_payload(payload), vector) for point, (payload, vector) in other.points.items()},
        ),
    ]


def _compared(what: str, one: Mapping[Any, Any], other: Mapping[Any, Any]) -> list[str]:
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    shown = [f"{what} {name}: {one.get(name)} | {other.get(name)}" for name in names[:_SHOWN]]
    return [f"{what}: {len(names)} of {len(one)} and {len(other)} differ", *shown] if names else []


def _timeless(ref: FlushRef) -> FlushRef:
    return replace(ref, opened_at=_NO_TIME, closed_at=_NO_TIME)


def _by_lane(left: Outcome) -> dict[tuple[User, str], list[ProfileDelta]]:
    lanes = {event.flush.flush_id: event.flush.lane for event in left.events.values()}
    found: dict[tuple[User, str], list[ProfileDelta]] = {}
    for user, history in left.deltas.items():
        for delta in history:
            lane = lanes.get(delta.flush_id, "unknown")
            found.setdefault((user, lane), []).append(replace(delta, version=0, recorded_at=_NO_TIME))
    return found


def _event(event: FlushEvent) -> FlushEvent:
    return replace(
        event,
        flush=_timeless(event.flush),
        first_version=None,
        last_version=None,
        recorded_at=_NO_TIME,
        timings=Timings(),
        calls=tuple(replace(call, duration_ms=0.0) for call in event.calls),
    )


def _profile(profile: Profile) -> Profile:
    unversioned: Callable[[Any], Any] = lambda item: replace(item, version=0)  # noqa: E731 - one idea, five uses
    unrecorded: Callable[[Any], Any] = lambda item: replace(item, version=0, recorded_at=_NO_TIME)  # noqa: E731
    return replace(
        profile,
        version=0,
        slots=tuple(map(unrecorded, profile.slots)),
        facts=tuple(map(unrecorded, profile.facts)),
        replaced_facts=tuple(
            replace(unrecorded(fact), replaced=fact.replaced and replace(fact.replaced, recorded_at=_NO_TIME))
            for fact in profile.replaced_facts
        ),
        preferences=tuple(map(unrecorded, profile.preferences)),
        tags=tuple(map(unversioned, profile.tags)),
    )


def _payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name not in {"version", "recorded_at"}}


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


@asynccontextmanager
async def _clickhouse(settings: ClickHouseSettings) -> AsyncIterator[ClickHouseClient]:
    client = ClickHouseClient(
        url=settings.url,
        user=settings.user,
        password=settings.password.get_secret_value(),
        database=settings.database,
        timeout=settings.timeout,
    )
    try:
        yield client
    finally:
        await client.close()


async def _points(settings: Settings, collection: str) -> dict[str, Point]:
    found: dict[str, Point] = {}
    client = AsyncQdrantClient(url=settings.qdrant.url, check_compatibility=False)
    try:
        following: Any = None
        while True:
            points, following = await client.scroll(
                collection, limit=_PAGE, offset=following, with_payload=True, with_vectors=True
            )
            found |= {str(point.id): (point.payload or {}, point.vector) for point in points}
            if following is None:
                return found
    finally:
        await client.close()


async def _is_up_to_date(
    settings: Settings, collection: str, profiles: Mapping[User, Profile], events: Mapping[str, FlushEvent]
) -> bool:
    """Whether every point has the version and the text that the profile has, every gist is there, and every mean."""
    known = {
        (user, kind, *name): (item.version, text)
        for user, profile in profiles.items()
        for kind, name, item, text in (
            *(("slot", slot.key, slot, slot.value) for slot in profile.slots),
            *(("fact", (fact.fact_id,), fact, fact.text) for fact in profile.facts),
            *(("preference", (liked.preference_id,), liked, liked.text) for liked in profile.preferences),
        )
    }
    points = await _points(settings, collection)
    indexed = {
        (
            (payload["tenant_id"], payload["user_id"]),
            payload["kind"],
            *((payload["topic"], payload["sub_topic"]) if payload["kind"] == "slot" else (payload["item_id"],)),
        ): (payload["version"], payload["text"])
        for payload, _ in points.values()
        if payload["kind"] in PROFILE_KINDS
    }
    return (
        known == indexed
        and _gists(points)
        == {gist_id(event.flush.flush_id, number) for event in events.values() for number, _ in enumerate(event.memo)}
        and all(map(partial(_has_its_mean, points), profiles.values()))
    )


def _gists(points: Mapping[str, Point]) -> set[str]:
    return {point for point, (payload, _) in points.items() if payload["kind"] == "gist"}


def _has_its_mean(points: Mapping[str, Point], profile: Profile) -> bool:
    """Whether the user's own point is made of the items that are there now."""
    own = points.get(user_point_id(profile.tenant_id, profile.user_id))
    items = [
        vectors["dense"]
        for _, (payload, vectors) in sorted(points.items())
        if (payload["tenant_id"], payload["user_id"]) == (profile.tenant_id, profile.user_id)
        and payload["kind"] in PROFILE_KINDS
    ]
    if own is None or not items:
        return own is None and not items
    expected = mean(items[:POINTS_OF_A_USER])
    length = math.hypot(*expected)
    return all(abs(found - number / length) < 1e-4 for found, number in zip(own[1]["dense"], expected, strict=True))
