"""The archive in ClickHouse, on the real engine."""

from __future__ import annotations

import asyncio
import math
import socket
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from schemas import ids
from schemas.deltas import FlushEvent, ProfileDelta, Timings
from schemas.flushes import FlushRef, Lane
from schemas.profiles import AppliedMark, Profile, ProfileState, apply_deltas
from schemas.stages import Dropped, EventTag, MemoBullet, MessageRef, ModelCall
from sinks.clickhouse import ClickHouseArchive
from sinks.clickhouse.columns import DELTAS, EVENTS
from sinks.errors import SinkRejected, SinkUnavailable
from streams.embedded.clickhouse_faults import Fault

if TYPE_CHECKING:
    from tests.integration.clickhouse_fixtures import ClickHouseProcess, LocalClickHouse

pytest_plugins = ["tests.integration.clickhouse_fixtures"]

HERE = "database = currentDatabase()"
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


async def test_open_makes_the_database_and_migrations_run_once(clickhouse: LocalClickHouse, database: str):
    first, second = (ClickHouseArchive(url=clickhouse.url, database=database) for _ in range(2))
    await first.open()
    done = await asyncio.gather(first.migrate(), second.migrate())
    assert [1, 2, 3] in done
    assert await first.migrate() == []
    assert await rows(first, "SELECT version, name FROM schema_migrations FINAL ORDER BY version") == [
        (1, "profile_deltas"),
        (2, "flush_events"),
        (3, "profile_current"),
    ]
    assert (await first.ping()).count(".") >= 2
    assert await first.counts() == {"deltas": 0, "events": 0, "users": 0}
    assert await collect(first) == {}
    for archive in (first, second):
        await archive.close()


async def test_a_migration_cut_short_is_finished_later(clickhouse: LocalClickHouse, database: str):
    archive = ClickHouseArchive(url=clickhouse.url, database=database)
    clickhouse.faults.add(Fault(kind="drop_after", match="CREATE TABLE IF NOT EXISTS flush_events"))
    with pytest.raises(SinkUnavailable):
        await archive.migrate()
    assert await archive.migrate() == [2, 3]
    await archive.close()


async def test_tables_have_the_columns_that_records_are_written_to(archive: ClickHouseArchive):
    for table in (DELTAS, EVENTS):
        described = await rows(
            archive, f"SELECT name, type FROM system.columns WHERE {HERE} AND table = '{table.name}'"
        )
        assert described == list(zip(table.names, table.types, strict=True))


async def test_deltas_come_back_as_they_were(archive: ClickHouseArchive):
    written = [
        make_delta(
            version=n + 1, user="odd", sub_topic=text, before=text, after=text, added=text, reason=text,
            evidence=(text, *ODD_TEXTS[:3]), processor=text, pipeline_version=text,
        )
        for n, text in enumerate(ODD_TEXTS)
    ]  # fmt: skip
    written += [
        make_delta(version=20, user="odd", after=None, added=None, evidence=(), op="delete", assertion="inferred"),
        make_delta(version=21, user="odd", said_at=EARLIEST, recorded_at=LATEST),
        make_delta(version=22, user="odd", said_at=NOON.astimezone(timezone(timedelta(hours=-9, minutes=-30)))),
        make_delta(version=23, user="odd", said_at=datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        make_delta(version=2**64 - 1, user="odd", index=2**32 - 1, update_hits=2**32 - 1),
    ]  # fmt: skip
    await archive.write_deltas(written[::-1])
    assert await archive.history("t", "odd") == written


@pytest.mark.parametrize("user", ODD_TEXTS, ids=lambda text: repr(text)[:20])
async def test_odd_user_ids_are_data(archive: ClickHouseArchive, user: str):
    mine = make_delta(user=user)
    await archive.write_deltas([mine, make_delta(user="other")])
    await archive.write_events([make_event(user=user), make_event(user="other")])
    assert await archive.history("t", user) == [mine]
    assert await archive.history("t", user, topic=user) == []
    assert await archive.profile("t", user) == apply_deltas(Profile(tenant_id="t", user_id=user), [mine])
    assert await archive.events("t", user, 5) == [make_event(user=user)]
    assert set(await collect(archive)) == {("t", user), ("t", "other")}


async def test_events_come_back_as_they_were(archive: ClickHouseArchive):
    written = [make_event(1), full_event()]
    await archive.write_events(written)
    assert await archive.events("t", "u", 10) == written
    assert await rows(archive, "SELECT c.stage, c.prompt_tokens FROM flush_events ARRAY JOIN calls AS c") == [
        ("summary", 2**40),
        ("tag", 0),
    ]
    assert await rows(archive, "SELECT calls.attempts FROM flush_events WHERE outcome = 'applied'") == [([1, 3],)]


async def test_history_is_the_newest_in_order_and_by_slot(archive: ClickHouseArchive):
    written = [make_delta(version=n, sub_topic=f"s{n % 2}") for n in range(1, 11)]
    await archive.write_deltas(written)
    assert await archive.history("t", "u", limit=3) == written[-3:]
    assert await archive.history("t", "u", topic="basic_info", sub_topic="s1", limit=2) == [written[6], written[8]]
    assert await archive.history("t", "u", topic="work") == []
    assert await archive.history("t", "nobody") == []


async def test_repeats_count_once_however_they_are_cut(archive: ClickHouseArchive):
    deltas = [make_delta(version=n) for n in range(1, 21)]
    events = [make_event(n) for n in range(1, 21)]
    for size in (20, 7, 1, 20):
        for start in range(0, 20, size):
            await archive.write_deltas(deltas[start : start + size])
            await archive.write_events(events[start : start + size])
    await archive.write_deltas([])
    await archive.write_events([])
    assert await archive.counts() == {"deltas": 20, "events": 20, "users": 1}
    assert await archive.history("t", "u") == deltas
    assert await archive.events("t", "u", 100) == events
    assert (await collect(archive))["t", "u"].profile == await archive.profile("t", "u")
    assert await rows(archive, "SELECT count(), any(last_version) FROM profile_current") == [(1, 20)]


async def test_a_redriven_flush_has_its_later_end(archive: ClickHouseArchive):
    failed = make_event(1, outcome="failed")
    applied = make_event(1, outcome="applied", recorded_at=NOON + timedelta(hours=1))
    await archive.write_events([applied])
    await archive.write_events([failed])
    assert await archive.events("t", "u", 10) == [applied]


@pytest.mark.parametrize("kind", ["drop_before", "drop_after"])
async def test_a_dropped_insert_repeated_counts_once(clickhouse: LocalClickHouse, archive: ClickHouseArchive, kind):
    deltas = [make_delta(version=n) for n in range(1, 6)]
    # The driver sends once more by itself.
    clickhouse.faults.add(Fault(kind=kind, match="INSERT INTO `profile_deltas`", times=2))
    with pytest.raises(SinkUnavailable):
        await archive.write_deltas(deltas)
    assert (await archive.counts())["deltas"] == (5 if kind == "drop_after" else 0)
    await archive.write_deltas(deltas)
    assert (await archive.counts())["deltas"] == 5
    assert await archive.history("t", "u") == deltas


async def test_tenants_that_share_user_ids_never_see_each_other(archive: ClickHouseArchive):
    for tenant in ("a", "b"):
        await archive.write_deltas([make_delta(version=n, tenant=tenant, after=f"{tenant}{n}") for n in (1, 2)])
        await archive.write_events([make_event(n, tenant=tenant, errors={"x": tenant}) for n in (1, 2)])
    for tenant in ("a", "b"):
        assert [delta.after for delta in await archive.history(tenant, "u")] == [f"{tenant}1", f"{tenant}2"]
        assert [slot.value for slot in (await archive.profile(tenant, "u")).slots] == [f"{tenant}2"]
        assert {event.errors["x"] for event in await archive.events(tenant, "u", 10)} == {tenant}
    assert await archive.history("c", "u") == []
    assert (await archive.counts())["users"] == 2


def busy_user(number: int, tenant: str = "t") -> list[ProfileDelta]:
    """Deltas that fill, empty and fill again, said out of order."""
    return [
        make_delta(
            version=version,
            user=f"user {number:03}",
            tenant=tenant,
            sub_topic=f"s{(version * 7 + number) % 5}",
            after=None if (version + number) % 6 == 0 else f"value {version}",
            said_at=NOON + timedelta(hours=(version * 13 + number) % 11),
            update_hits=version,
        )
        for version in range(1, 5 + number % 30)
    ]


async def test_profiles_equal_the_fold_of_every_user(archive: ClickHouseArchive, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sinks.clickhouse.archive._USERS_PER_PAGE", 7)
    users = [busy_user(number, tenant) for tenant in ("t", "t.2", "T") for number in range(20)]
    await archive.write_deltas([delta for deltas in users for delta in deltas])
    await archive.write_events([make_event(3, user="only events", tenant="U"), make_event(3, user="user 003")])
    states = await collect(archive)
    assert list(states) == sorted(states), "not in the order of tenant and user"
    assert len(states) == 61
    for deltas in users:
        user = deltas[0].tenant_id, deltas[0].user_id
        expected = apply_deltas(Profile(tenant_id=user[0], user_id=user[1]), deltas)
        assert states[user].profile == expected
        assert await archive.profile(*user) == expected
    mark = AppliedMark(log_id="log", partition=0, last_offset=3)
    assert states["U", "only events"] == ProfileState(
        profile=Profile(tenant_id="U", user_id="only events"), applied={"memo": mark}
    )
    assert states["t", "user 003"].applied == {"memo": mark}
    assert states["t", "user 004"].applied == {}


async def test_the_view_of_current_slots_equals_the_profiles(archive: ClickHouseArchive):
    users = [busy_user(number) for number in range(30)]
    await archive.write_deltas([delta for deltas in users for delta in deltas])
    shown = await rows(archive, "SELECT * FROM profile_current ORDER BY tenant_id, user_id, topic, sub_topic")
    expected = [
        (
            profile.tenant_id, profile.user_id, slot.topic, slot.sub_topic, slot.value, slot.update_hits,
            list(slot.evidence), slot.assertion, slot.first_said_at, slot.said_at, slot.recorded_at, slot.version,
        )
        for profile in [(await archive.profile("t", deltas[0].user_id)) for deltas in users]
        for slot in profile.slots
    ]  # fmt: skip
    assert shown == expected
    assert 0 < len(shown) < 150


async def test_marks_are_the_furthest_offset_of_the_newest_log(archive: ClickHouseArchive):
    later = NOON + timedelta(days=1)
    await archive.write_events(
        [
            make_event(500, log="old"),
            make_event(900, log="old"),
            make_event(7, log="new", recorded_at=later),
            make_event(12, log="new", recorded_at=later - timedelta(hours=1)),
            make_event(80, log="new", partition=3, recorded_at=later - timedelta(hours=2)),
            make_event(44, log="old", lane="facts"),
        ]
    )
    state = (await collect(archive))["t", "u"]
    assert state.applied == {
        "memo": AppliedMark(log_id="new", partition=0, last_offset=12),
        "facts": AppliedMark(log_id="old", partition=0, last_offset=44),
    }


async def test_large_users_are_folded_across_blocks(archive: ClickHouseArchive):
    """More deltas than a block holds, of a user with neighbours on both sides."""
    many = [make_delta(version=n, user="m", sub_topic=f"s{n % 9}", after=str(n)) for n in range(1, 20_001)]
    around = [make_delta(user="a"), make_delta(user="z")]
    await archive.write_deltas([*around, *many])
    states = await collect(archive)
    assert [user for _, user in states] == ["a", "m", "z"]
    assert states["t", "m"].profile == apply_deltas(Profile(tenant_id="t", user_id="m"), many)


async def test_profiles_hold_no_request_open_while_the_caller_works(
    clickhouse: LocalClickHouse, archive: ClickHouseArchive, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sinks.clickhouse.archive._USERS_PER_PAGE", 2)
    await archive.write_deltas([make_delta(user=f"u{n}") for n in range(6)])
    states = archive.profiles()
    assert (await anext(states)).profile.user_id == "u0"
    # The first page is complete: a server that fails now is noticed with the next one only.
    clickhouse.faults.add(Fault(kind="status", status=503))
    assert (await anext(states)).profile.user_id == "u1"
    with pytest.raises(SinkUnavailable):
        await anext(states)


async def test_a_gap_in_the_archive_is_said(archive: ClickHouseArchive):
    await archive.write_deltas([make_delta(version=1), make_delta(version=3)])
    for read in (archive.profile("t", "u"), collect(archive)):
        with pytest.raises(SinkRejected, match=r"incomplete.*version 3.*t:u is at 1"):
            await read


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_passing_statuses_are_unavailable(clickhouse: LocalClickHouse, archive: ClickHouseArchive, status: int):
    clickhouse.faults.add(Fault(kind="status", status=status, match="INSERT INTO `profile_deltas`"))
    with pytest.raises(SinkUnavailable, match=clickhouse.url):
        await archive.write_deltas([make_delta()])
    await archive.write_deltas([make_delta()])
    assert (await archive.counts())["deltas"] == 1


@pytest.mark.parametrize("kind", ["drop_before", "truncate"])
async def test_a_read_cut_short_is_unavailable(clickhouse: LocalClickHouse, archive: ClickHouseArchive, kind):
    await archive.write_deltas([make_delta(version=n) for n in range(1, 2000)])
    clickhouse.faults.add(Fault(kind=kind, match="FROM profile_deltas FINAL", times=2 if kind == "drop_before" else 1))
    with pytest.raises(SinkUnavailable):
        await archive.history("t", "u", limit=5000)
    clickhouse.faults.clear()
    clickhouse.faults.add(Fault(kind="truncate", match="max_block_size = 8192"))
    with pytest.raises(SinkUnavailable):
        await collect(archive)
    assert len(await archive.history("t", "u", limit=5000)) == 1999


async def test_a_slow_insert_times_out_and_blocks_nothing(clickhouse: LocalClickHouse, database: str):
    archive = ClickHouseArchive(url=clickhouse.url, database=database, timeout=1.0)
    await archive.migrate()
    deltas = [make_delta(version=n) for n in range(1, 1001)]
    beats: list[float] = []

    async def tick() -> None:
        loop = asyncio.get_running_loop()
        while True:
            beats.append(loop.time())
            await asyncio.sleep(0.01)

    ticker = asyncio.create_task(tick())
    clickhouse.faults.add(Fault(kind="delay", seconds=0.5, match="INSERT INTO `profile_deltas`"))
    await archive.write_deltas(deltas)
    assert len(beats) > 25
    assert max(after - before for before, after in pairwise(beats)) < 0.25

    clickhouse.faults.add(Fault(kind="delay", seconds=3.0, match="INSERT INTO `profile_deltas`"))
    with pytest.raises(SinkUnavailable, match=r"no answer within 1 s|[Tt]imeout"):
        await archive.write_deltas(deltas)
    ticker.cancel()
    assert await archive.ping()
    await archive.close()


async def test_the_first_insert_of_a_process_imports_nothing(clickhouse: LocalClickHouse, archive, database: str):
    """The driver would import pandas then, on the event loop, which takes the better part of a second."""
    code = """if True:
        import asyncio, sys
        from sinks.clickhouse import ClickHouseArchive
        from tests.integration.test_clickhouse_archive import make_delta

        async def main():
            archive = ClickHouseArchive(url=sys.argv[1], database=sys.argv[2])
            await archive.open()
            before = set(sys.modules)
            await archive.write_deltas([make_delta()])
            print(sorted(set(sys.modules) - before))
            await archive.close()

        asyncio.run(main())
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, clickhouse.url, database, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert out.decode().strip() == "[]"


async def test_a_server_that_is_not_there_is_unavailable_and_may_come_later(
    start_clickhouse: Callable[..., ClickHouseProcess], tmp_path: Path, database: str
):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    archive = ClickHouseArchive(url=f"http://127.0.0.1:{port}", database=database, timeout=5.0)
    for attempt in (archive.open, archive.ping, archive.migrate, archive.counts):
        with pytest.raises(SinkUnavailable, match=f"http://127.0.0.1:{port} is not available.*clickhouse.url"):
            await attempt()
    process = start_clickhouse(tmp_path, "--port", str(port))
    assert await archive.migrate() == [1, 2, 3]
    await archive.write_deltas([make_delta()])
    process.kill()
    with pytest.raises(SinkUnavailable):
        await archive.write_deltas([make_delta(version=2)])
    start_clickhouse(tmp_path, "--port", str(port))
    await archive.write_deltas([make_delta(version=2)])
    assert [delta.version for delta in await archive.history("t", "u")] == [1, 2]
    await archive.close()


async def test_a_wrong_password_is_rejected_and_never_shown(guarded_clickhouse: LocalClickHouse, database: str):
    archive = ClickHouseArchive(url=guarded_clickhouse.url, password="wrong-password", database=database)
    with pytest.raises(SinkRejected, match=r"refuses user 'default'.*clickhouse.password") as caught:
        await archive.open()
    assert "wrong-password" not in str(caught.value)
    right = ClickHouseArchive(url=guarded_clickhouse.url, password=guarded_clickhouse.password, database=database)
    assert await right.ping()
    await right.close()


async def test_credentials_in_the_url_are_used_and_hidden(guarded_clickhouse: LocalClickHouse, database: str):
    with_user = guarded_clickhouse.url.replace("://", "://default:secret%3A%25%2F%3F@")
    archive = ClickHouseArchive(url=with_user, database=database)
    assert await archive.ping()
    with pytest.raises(SinkRejected) as caught:
        await archive.history("t", "u")
    assert guarded_clickhouse.url in str(caught.value)
    assert "secret" not in str(caught.value)
    await archive.close()


async def test_what_cannot_be_written_is_rejected(archive: ClickHouseArchive):
    bad = [
        make_delta(version=-1),
        make_delta(version=2**64),
        make_delta(topic="\ud800"),
        make_delta(evidence=(1,)),
        make_delta(said_at="yesterday"),
    ]
    for delta in bad:
        with pytest.raises(SinkRejected):
            await archive.write_deltas([make_delta(), delta])
    assert (await archive.counts())["deltas"] == 0
    await archive.write_deltas([make_delta()])
    assert (await archive.counts())["deltas"] == 1


async def test_missing_tables_and_foreign_servers_are_rejected(clickhouse: LocalClickHouse, database: str):
    archive = ClickHouseArchive(url=clickhouse.url, database=database)
    with pytest.raises(SinkRejected, match="UNKNOWN_TABLE"):
        await archive.write_deltas([make_delta()])
    await archive.close()
    elsewhere = ClickHouseArchive(url=clickhouse.url + "/elsewhere", database=database)
    with pytest.raises(SinkRejected, match="HTTP status 404"):
        await elsewhere.open()


async def test_errors_of_the_engine_that_pass_are_unavailable(archive: ClickHouseArchive):
    with pytest.raises(SinkUnavailable, match="MEMORY_LIMIT_EXCEEDED"):
        await rows(archive, "SELECT groupArray(number) FROM numbers(10000000) SETTINGS max_memory_usage = 1000000")
    with pytest.raises(SinkUnavailable, match="TIMEOUT_EXCEEDED"):
        await rows(archive, "SELECT sleep(2) SETTINGS max_execution_time = 1")


async def test_a_row_that_is_no_record_is_said(archive: ClickHouseArchive):
    await archive.write_deltas([make_delta(op="invented")])
    with pytest.raises(SinkRejected, match="cannot read"):
        await archive.history("t", "u")
