"""The archive in ClickHouse, on the real engine."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from schemas.deltas import ProfileDelta
from schemas.profiles import AppliedMark, Profile, ProfileState, apply_deltas
from schemas.stages import Domain
from sinks.clickhouse import ClickHouseArchive
from sinks.clickhouse.columns import DECISIONS, DELTAS, EVENTS, LETTERS, PLACE_COLUMNS
from sinks.errors import SinkRejected, SinkUnavailable
from streams.embedded.clickhouse_faults import Fault
from tests.integration.clickhouse_records import (
    EARLIEST,
    LATEST,
    NOON,
    ODD_TEXTS,
    collect,
    full_event,
    make_delta,
    make_event,
    make_fact,
    make_preference,
    make_redriven,
    make_tag,
    rows,
)

if TYPE_CHECKING:
    from tests.integration.clickhouse_fixtures import LocalClickHouse

pytest_plugins = ["tests.integration.clickhouse_fixtures"]

HERE = "database = currentDatabase()"


async def test_tables_have_the_columns_that_records_are_written_to(archive: ClickHouseArchive):
    for table, places in ((DELTAS, PLACE_COLUMNS), (EVENTS, PLACE_COLUMNS), (LETTERS, {}), (DECISIONS, {})):
        described = await rows(
            archive, f"SELECT name, type FROM system.columns WHERE {HERE} AND table = '{table.name}'"
        )
        assert described == [*zip(table.names, table.types, strict=True), *places.items()]


async def test_writing_and_reading_imports_neither_numpy_nor_pandas(clickhouse: LocalClickHouse, database: str):
    program = f"""
import asyncio, sys
from sinks.clickhouse import ClickHouseArchive
from tests.integration.clickhouse_records import make_delta

async def write_and_read():
    archive = ClickHouseArchive(url={clickhouse.url!r}, database={database!r}, timeout=20.0)
    await archive.migrate()
    await archive.write_deltas([make_delta(version=1, user="anna")])
    assert (await archive.profile("t", "anna")).version == 1
    await archive.close()

asyncio.run(write_and_read())
print(sorted({{"numpy", "pandas"}} & sys.modules.keys()))
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert out.decode() == "[]\n"


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


async def test_details_of_facts_and_preferences_come_back_as_they_were(archive: ClickHouseArchive):
    third = 1 / 3
    written = [
        make_tag(1, "咖啡", 2**32 - 1, evidence=tuple(ODD_TEXTS)),
        make_fact(2, confidence=third, importance=0.1 + 0.2, session_id=None),
        make_fact(3, confidence=0.0, importance=1.0, session_id=""),
        make_fact(4, after=None, replaced_by="g", session_id=None),
        make_fact(5, after=None, op="delete", replaced_by="", fact=None),
        make_preference(6, strength=0.0, strength_before=0.0, quotes=()),
        make_preference(7, strength=third, strength_before=None, quotes=tuple(ODD_TEXTS)),
        make_preference(8, after=None, preference=None),
        *(make_fact(10 + n, text, text, topic=text, session_id=text) for n, text in enumerate(ODD_TEXTS)),
        *(make_fact(30 + n, text, None, session_id=text, replaced_by=text) for n, text in enumerate(ODD_TEXTS)),
        *(make_preference(50 + n, text, text, topic=text, quotes=(text, "")) for n, text in enumerate(ODD_TEXTS)),
    ]
    await archive.write_deltas(written)
    assert await archive.history("t", "u") == written


async def test_events_come_back_as_they_were(archive: ClickHouseArchive):
    written = [
        make_event(1),
        make_event(2, domain=Domain()),
        make_redriven(3, 2**32 - 1),
        make_redriven(4, 1, ("extract", "tag"), ("summary",)),
        make_redriven(5, 2, ("facts",), ("facts_half", "merge")),
        full_event(),
    ]
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


async def test_history_is_by_kind_and_by_item(archive: ClickHouseArchive):
    slot, tag = make_delta(1, sub_topic="coffee"), make_tag(2)
    facts = [make_fact(3, "f1"), make_fact(4, "f2", topic="work"), make_fact(5, "f1", op="confirm", update_hits=2)]
    preference = make_preference(6)
    await archive.write_deltas([slot, tag, *facts, preference])

    async def found(**wanted: Any) -> list[int]:
        return [delta.version for delta in await archive.history("t", "u", **wanted)]

    assert [await found(kind=kind) for kind in ("slot", "tag", "fact", "preference")] == [[1], [2], [3, 4, 5], [6]]
    assert await found(item_id="f1") == [3, 5]
    assert await found(kind="fact", topic="work") == [4]
    assert await found(kind="fact", limit=1) == [5]
    assert await found(sub_topic="coffee") == [1, 2]
    assert await found(kind="tag", sub_topic="coffee") == [2]
    assert await found(kind="preference", item_id="f1") == []
    assert await found(item_id="f1' OR 1=1 --") == []


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


async def test_a_redriven_flush_has_an_end_for_each_time(archive: ClickHouseArchive):
    failed = make_event(1, outcome="failed")
    again = make_redriven(1, 1, ("tag",), outcome="failed", recorded_at=NOON + timedelta(hours=1))
    applied = make_redriven(1, 2, ("tag",), outcome="applied", recorded_at=NOON + timedelta(hours=2))
    for _ in range(2):
        await archive.write_events([applied, failed])
        await archive.write_events([again])
    assert await archive.events("t", "u", 10) == [failed, again, applied]


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


async def test_flushes_that_were_sent_again_are_remembered_and_move_no_mark(archive: ClickHouseArchive):
    events = [
        make_event(9),
        make_redriven(12, 1),
        make_redriven(5, 2, ("tag",)),
        make_redriven(5, 1, ("tag",)),
        make_redriven(5, 1, ("extract", "tag")),
        make_redriven(5, 1, ("tag",), ("merge",)),
        make_redriven(3, 1, lane="facts", recorded_at=NOON),
        make_redriven(1, 1, user="other"),
    ]
    await archive.write_events(events)
    flushes = {event.flush.last_offset: event.flush.flush_id for event in events}
    states = await collect(archive)
    assert states["t", "u"].applied == {"memo": AppliedMark(log_id="log", partition=0, last_offset=9)}
    assert states["t", "u"].redriven == {
        f"{flushes[3]}:facts:": 1,
        f"{flushes[5]}:tag:": 2,
        f"{flushes[5]}:tag:merge": 1,
        f"{flushes[5]}:extract+tag:": 1,
        f"{flushes[12]}:extract+tag+domain:": 1,
    }
    assert all(states["t", "u"].has_applied(event.flush) for event in events[:-1])
    assert not states["t", "u"].has_applied(make_redriven(5, 3, ("tag",)).flush)
    assert list(states["t", "other"].redriven.values()) == [1]


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
