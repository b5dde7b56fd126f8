"""Finishing what was begun when users were forgotten and everything stopped.

With a broker that keeps nothing, what had not reached the stores by then comes no second time. A user is forgotten by a
delta and by an event; as soon as either is in the archive, all of it can be done again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar

from agents.forget import forget_answer, forget_user
from agents.policy import MergePolicy
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.flushes import FlushRef
from schemas.profiles import Profile, ProfileState

if TYPE_CHECKING:
    from sinks.clickhouse import ClickHouseArchive
    from sinks.vectors import VectorIndex

_USERS_AT_ONCE: Final = 100

Record = TypeVar("Record")


async def finish_forgets(store: ClickHouseArchive, vectors: VectorIndex) -> None:
    """Remove from both stores what is from before their users were forgotten. Nothing may write to them meanwhile.

    Raises:
        SinkUnavailable: when a store does not answer.
        SinkRejected: when it refuses this client.
    """
    deltas, events = await store.all_forgotten()
    delta_of = {(delta.tenant_id, delta.user_id): delta for delta in deltas}
    event_of = {(event.flush.tenant_id, event.flush.user_id): event for event in events}
    made_events = [
        _event(delta)
        for user, delta in delta_of.items()
        if user not in event_of or event_of[user].recorded_at < delta.recorded_at
    ]
    made_deltas = []
    for user, event in event_of.items():
        if user not in delta_of or delta_of[user].recorded_at < event.recorded_at:
            newest = await store.history(*user, limit=1)
            if made := _delta(event, newest[0] if newest else None):
                made_deltas.append(made)
    await store.write_events(made_events)
    await store.write_deltas(made_deltas)
    deltas, events = [*deltas, *made_deltas], [*events, *made_events]
    await store.finish_forgetting(deltas, events)
    for some_deltas in _batches(deltas):
        if await vectors.holds_forgotten(some_deltas, ()):
            await vectors.apply(some_deltas)
    for some_events in _batches(events):
        if await vectors.holds_forgotten((), some_events):
            await vectors.apply_events(some_events)


def _delta(event: FlushEvent, newest: ProfileDelta | None) -> ProfileDelta | None:
    """Return the delta that an event tells of, or None where the profile has gone on without it."""
    version = event.last_version
    if version is None or (
        newest is not None and (newest.version >= version or newest.recorded_at > event.recorded_at)
    ):
        return None
    cited = (message.message_id for message in event.messages)
    forgotten = _forgotten(
        event.flush,
        cited,
        version=version,
        processor=event.processor,
        pipeline_version=event.pipeline_version,
        now=event.recorded_at,
    )
    return forgotten.deltas[0]


def _event(delta: ProfileDelta) -> FlushEvent:
    """Return the event that belongs to a delta, of which it is not known where in the log the request lay.

    So its place is of no log, and the clock tells what was before it.
    """
    flush = FlushRef(
        flush_id=delta.flush_id,
        tenant_id=delta.tenant_id,
        user_id=delta.user_id,
        lane="forget",
        log_id="",
        partition=0,
        first_offset=0,
        last_offset=0,
        trigger="forget",
        opened_at=delta.recorded_at,
        closed_at=delta.recorded_at,
        first_occurred_at=delta.said_at,
        last_occurred_at=delta.said_at,
        message_count=0,
        token_count=0,
    )
    forgotten = _forgotten(
        flush,
        delta.evidence,
        version=delta.version,
        processor=delta.processor,
        pipeline_version=delta.pipeline_version,
        now=delta.recorded_at,
    )
    assert forgotten.event is not None  # noqa: S101 - a flush ends in one
    return forgotten.event


def _forgotten(
    flush: FlushRef, cited: Iterable[str], *, version: int, processor: str, pipeline_version: str, now: datetime
) -> ProfileState:
    """Return what the merge recorded when the user was forgotten."""
    before = Profile(tenant_id=flush.tenant_id, user_id=flush.user_id, version=version - 1)
    return forget_user(
        ProfileState(profile=before),
        forget_answer(flush, *cited),
        processor=processor,
        policy=MergePolicy(pipeline_version=pipeline_version),
        now=now,
    )


def _batches(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    for start in range(0, len(records), _USERS_AT_ONCE):
        yield records[start : start + _USERS_AT_ONCE]
