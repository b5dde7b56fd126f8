"""Records for the tests of the archive, the oddest texts and times among them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import msgspec

from schemas import ids
from schemas.deltas import AddedValue, FlushEvent, ProfileDelta, Timings
from schemas.flushes import FlushRef, Lane
from schemas.profiles import ProfileState
from schemas.stages import Dropped, EventTag, MemoBullet, MessageRef, ModelCall
from sinks.clickhouse import ClickHouseArchive

NOON = datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)
EARLIEST, LATEST = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))
ODD_TEXTS = [
    "",
    " ",
    'it\'s "quoted" `so`',
    "back\\slash \\n \\N \\0 \\",
    "tab\tnewline\nreturn\r",
    "😀 👩‍👩‍👧 e\u0301 \u202eright to left\u202c مرحبا 你好",
    "'; DROP TABLE profile_deltas; --",
    "{user:String} ${x} %s %(a)s {{b}} ?",
    "NULL",
    "\x01\x1f\x7f\u2028\ufeff\uffff",
    "長" * 20_000,
]


def make_delta(
    version: int = 1, user: str = "u", tenant: str = "t", sub_topic: str = "name", after: str | None = "v", **changes
) -> ProfileDelta:
    flush = ids.flush_id("log", tenant, user, "memo", 0, version, version)
    delta = ProfileDelta(
        delta_id=ids.delta_id(flush, 0),
        tenant_id=tenant,
        user_id=user,
        version=version,
        flush_id=flush,
        index=0,
        op="delete" if after is None else "update",
        topic="basic_info",
        sub_topic=sub_topic,
        before=None,
        after=after,
        added=after,
        reason="said so",
        evidence=(f"m{version}",),
        update_hits=0,
        said_at=NOON + timedelta(seconds=version % 1000),
        recorded_at=NOON + timedelta(days=1, microseconds=version % 1000),
        processor="rules",
        pipeline_version="abc",
    )
    return msgspec.structs.replace(delta, **changes)


def make_event(
    offset: int = 1,
    user: str = "u",
    tenant: str = "t",
    lane: Lane = "memo",
    log: str = "log",
    partition: int = 0,
    recorded_at: datetime | None = None,
    **changes,
) -> FlushEvent:
    flush = FlushRef(
        flush_id=ids.flush_id(log, tenant, user, lane, partition, offset, offset),
        tenant_id=tenant,
        user_id=user,
        lane=lane,
        log_id=log,
        partition=partition,
        first_offset=offset,
        last_offset=offset,
        trigger="idle",
        opened_at=NOON,
        closed_at=NOON + timedelta(seconds=5),
        first_occurred_at=NOON,
        last_occurred_at=NOON,
        message_count=1,
        token_count=9,
    )
    event = FlushEvent(
        event_id=ids.event_id(flush.flush_id),
        flush=flush,
        outcome="empty",
        memo=(),
        tags=(),
        messages=(),
        added=(),
        delta_ids=(),
        first_version=None,
        last_version=None,
        calls=(),
        dropped=(),
        errors={},
        timings=Timings(),
        recorded_at=recorded_at or NOON + timedelta(seconds=offset % 1000),
        processor="rules",
        pipeline_version="abc",
    )
    return msgspec.structs.replace(event, **changes)


def full_event() -> FlushEvent:
    text = "".join(ODD_TEXTS[:-1])
    return make_event(
        2**40,
        outcome="applied",
        memo=(MemoBullet(text=text, evidence=(text, "")), MemoBullet(text="", evidence=())),
        tags=(EventTag(tag="mood", value=text),),
        messages=(
            MessageRef(message_id=text, role="user", occurred_at=NOON),
            MessageRef(message_id="", role="tool", occurred_at=LATEST),
        ),
        added=(
            AddedValue(topic="t", sub_topic="s", value="new ‘value’; \\ 汉"),
            AddedValue(topic="", sub_topic="", value=""),
        ),
        delta_ids=("a", "b"),
        first_version=0,
        last_version=2**63,
        calls=(
            ModelCall(stage="summary", model=text, outcome="ok", prompt_tokens=2**40, duration_ms=0.1 + 0.2),
            ModelCall(stage="tag", model="", outcome="timeout", attempts=3, prompt_version="p"),
        ),
        dropped=(Dropped(stage="extract", reason="no_evidence", detail=text),),
        errors={"tag": text, "": ""},
        timings=Timings(window=1e-300, summary=math.pi, merge=1e300),
    )  # fmt: skip


async def rows(archive: ClickHouseArchive, sql: str) -> list[tuple]:
    return [tuple(row) for row in await archive._client.rows(sql)]


async def collect(archive: ClickHouseArchive) -> dict[tuple[str, str], ProfileState]:
    states = [state async for state in archive.profiles()]
    found = {(state.profile.tenant_id, state.profile.user_id): state for state in states}
    assert len(found) == len(states), "a user came twice"
    return found
