"""How the archive's tables come into being, and what an older form of them still gives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from schemas.deltas import Timings
from schemas.profiles import Profile, apply_deltas
from sinks.clickhouse import ClickHouseArchive
from sinks.clickhouse.columns import DELTAS, EVENTS, T, Table
from sinks.clickhouse.schema import migrations
from sinks.errors import SinkUnavailable
from streams.embedded.clickhouse_faults import Fault
from tests.integration.clickhouse_records import (
    collect,
    full_event,
    make_delta,
    make_event,
    make_fact,
    make_forget,
    make_tag,
    random_history,
    rows,
)

if TYPE_CHECKING:
    from tests.integration.clickhouse_fixtures import LocalClickHouse

pytest_plugins = ["tests.integration.clickhouse_fixtures"]

ALL = list(range(1, 18))
HERE = "database = currentDatabase()"


@contextmanager
def known_up_to(version: int) -> Iterator[None]:
    """As a release that has the migrations up to this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sinks.clickhouse.archive.migrations", lambda: migrations()[:version])
        yield


async def test_open_makes_the_database_and_migrations_run_once(clickhouse: LocalClickHouse, database: str):
    first, second = (ClickHouseArchive(url=clickhouse.url, database=database) for _ in range(2))
    await first.open()
    done = await asyncio.gather(first.migrate(), second.migrate())
    assert ALL in done
    assert await first.migrate() == []
    assert await rows(first, "SELECT version, name FROM schema_migrations FINAL ORDER BY version") == [
        (1, "profile_deltas"),
        (2, "flush_events"),
        (3, "profile_current"),
        (4, "delta_details"),
        (5, "flush_event_details"),
        (6, "tag_hits"),
        (7, "items_current"),
        (8, "redriven_flushes"),
        (9, "tag_hit_versions"),
        (10, "redriven_letters"),
        (11, "kafka_places"),
        (12, "event_gists"),
        (13, "model_calls"),
        (14, "profile_as_of"),
        (15, "dead_letters"),
        (16, "slot_states"),
        (17, "item_repeats"),
    ]
    assert (await first.ping()).count(".") >= 2
    assert await first.counts() == {"deltas": 0, "events": 0, "users": 0}
    assert await collect(first) == {}
    for archive in (first, second):
        await archive.close()


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("CREATE TABLE IF NOT EXISTS flush_events", ALL[1:]),
        ("ALTER TABLE profile_deltas", ALL[3:]),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS tag_hits_feed", ALL[5:]),
        ("CREATE VIEW IF NOT EXISTS preferences_current", ALL[6:]),
        ("CREATE OR REPLACE VIEW item_changes", ALL[7:]),
        ("ALTER TABLE tag_hits_feed MODIFY QUERY", ALL[8:]),
        ("INSERT INTO event_gists", ALL[11:]),
        ("INSERT INTO model_calls", ALL[12:]),
        ("CREATE VIEW IF NOT EXISTS dead_letters_current", ALL[14:]),
        ("INSERT INTO slot_states", ALL[15:]),
        ("CREATE OR REPLACE VIEW facts_replaced", ALL[16:]),
    ],
)
async def test_a_migration_cut_short_is_finished_later(
    clickhouse: LocalClickHouse, database: str, statement: str, left: list[int]
):
    archive = ClickHouseArchive(url=clickhouse.url, database=database)
    clickhouse.faults.add(Fault(kind="drop_after", match=statement))
    with pytest.raises(SinkUnavailable):
        await archive.migrate()
    assert await archive.migrate() == left
    await archive.close()


async def test_rows_from_before_the_facts_read_as_they_were_written(clickhouse: LocalClickHouse, database: str):
    archive = ClickHouseArchive(url=clickhouse.url, database=database)
    deltas = [make_delta(version=n, sub_topic=f"s{n}") for n in (1, 2, 3)]
    event = full_event()
    event = msgspec.structs.replace(
        event,
        added=tuple(each for each in event.added if each.kind == "slot"),
        timings=Timings(window=event.timings.window, summary=event.timings.summary, merge=event.timings.merge),
        domain=None,
    )
    with known_up_to(3):
        await archive.migrate()
    await archive._client.insert(await _as_it_is(archive, DELTAS), deltas)
    await archive._client.insert(await _as_it_is(archive, EVENTS), [event])

    assert await archive.migrate() == ALL[3:]
    assert await archive.history("t", "u") == deltas
    assert await archive.events("t", "u") == [event]

    deltas.append(make_fact(4))
    await archive.write_deltas(deltas)
    await archive.write_events([event, make_event(1)])
    assert await archive.history("t", "u") == deltas
    assert await archive.events("t", "u") == [make_event(1), event]
    assert await archive.profile("t", "u") == apply_deltas(Profile(tenant_id="t", user_id="u"), deltas)
    await archive.close()


async def test_tag_hits_from_before_versions_are_forgotten_too(clickhouse: LocalClickHouse, database: str):
    archive = ClickHouseArchive(url=clickhouse.url, database=database)
    old = [make_tag(n, count=n) for n in (1, 2, 3)]
    with known_up_to(8):
        await archive.migrate()
        await archive.write_deltas(old)
    assert await archive.migrate() == ALL[8:]
    await archive.write_deltas([old[2], make_tag(4, count=4)])
    hits = "SELECT count, version FROM tag_hits FINAL ORDER BY count"
    assert await rows(archive, hits) == [(1, 0), (2, 0), (3, 3), (4, 4)]
    await archive.write_deltas([make_forget(5), make_tag(6)])
    assert await rows(archive, hits) == [(1, 6)]
    await archive.close()


async def test_items_from_before_are_shown_as_they_were_repeats_or_not(clickhouse: LocalClickHouse, database: str):
    archive = ClickHouseArchive(url=clickhouse.url, database=database)
    deltas = [delta for seed in range(12) for delta in random_history(seed)]
    views = ("facts_current", "facts_replaced", "preferences_current")

    async def shown() -> list[list[tuple]]:
        return [await rows(archive, f"SELECT * FROM {view} ORDER BY user_id, last_version") for view in views]

    with known_up_to(16):
        await archive.migrate()
        await archive.write_deltas(deltas)
        await archive.write_deltas(deltas[1::2])
        before = await shown()
    assert all(before)
    assert await archive.migrate() == [17]
    assert await shown() == before
    await archive.write_deltas(deltas[::2])
    assert await shown() == before
    await archive.close()


async def _as_it_is(archive: ClickHouseArchive, table: Table[T]) -> Table[T]:
    """The table with the columns that the database has now."""
    names = await rows(archive, f"SELECT name FROM system.columns WHERE {HERE} AND table = '{table.name}'")
    columns = tuple(column for column in table.columns if (column.name,) in names)
    assert 0 < len(columns) < len(table.columns)
    return replace(table, columns=columns)
