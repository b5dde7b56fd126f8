"""Tag hits in ClickHouse: a row each, exactly once, and the questions that are asked of them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from schemas.deltas import ProfileDelta
from sinks.clickhouse import ClickHouseArchive
from sinks.errors import SinkRejected, SinkUnavailable
from streams.embedded.clickhouse_faults import Fault
from tests.integration.clickhouse_records import (
    EARLIEST,
    LATEST,
    NOON,
    ODD_TEXTS,
    make_delta,
    make_fact,
    make_tag,
    rows,
)

if TYPE_CHECKING:
    from tests.integration.clickhouse_fixtures import LocalClickHouse

pytest_plugins = ["tests.integration.clickhouse_fixtures"]

MIXED = [make_delta(1), make_tag(2), make_fact(3), make_tag(4, "tea"), make_tag(5, count=2)]
OF_MIXED = [("coffee", 1), ("coffee", 2), ("tea", 1)]


async def hits(archive: ClickHouseArchive) -> list[tuple]:
    return await rows(archive, "SELECT tag, count FROM tag_hits FINAL ORDER BY tag, count")


async def test_a_hit_carries_its_delta(archive: ClickHouseArchive):
    written = [make_tag(n + 1, text, user=text, index=n, evidence=(text, "m")) for n, text in enumerate(ODD_TEXTS)]
    written += [make_tag(1, user="old", said_at=EARLIEST), make_tag(1, user="new", said_at=LATEST)]
    await archive.write_deltas([*written, make_delta(user="no tag")])
    columns = "tenant_id, tag, user_id, hit_at, recorded_at, flush_id, delta_id, `index`, count, evidence"
    found = await rows(archive, f"SELECT {columns} FROM tag_hits FINAL")
    expected = [
        (
            each.tenant_id, each.sub_topic, each.user_id, each.said_at, each.recorded_at, each.flush_id, each.delta_id,
            each.index, each.update_hits, list(each.evidence),
        )
        for each in written
    ]  # fmt: skip
    assert sorted(found) == sorted(expected)


async def test_hits_of_all_the_years_fit_in_one_insert(archive: ClickHouseArchive):
    await archive.write_deltas([make_tag(n, said_at=NOON.replace(year=1900 + n)) for n in range(1, 300)])
    assert await rows(archive, "SELECT count(), uniqExact(toYear(hit_at)) FROM tag_hits FINAL") == [(299, 299)]


async def test_repeats_count_once_however_they_are_cut(archive: ClickHouseArchive):
    for size in (5, 2, 1, 5):
        for start in range(0, len(MIXED), size):
            await archive.write_deltas(MIXED[start : start + size])
    assert await hits(archive) == OF_MIXED


@pytest.mark.parametrize(("kind", "arrived"), [("drop_before", []), ("drop_after", OF_MIXED)])
async def test_a_dropped_insert_repeated_counts_once(
    clickhouse: LocalClickHouse, archive: ClickHouseArchive, kind, arrived: list[tuple]
):
    # The driver sends once more by itself.
    clickhouse.faults.add(Fault(kind=kind, match="INSERT INTO `profile_deltas`", times=2))
    with pytest.raises(SinkUnavailable):
        await archive.write_deltas(MIXED)
    assert await hits(archive) == arrived
    await archive.write_deltas(MIXED)
    assert await hits(archive) == OF_MIXED


@pytest.mark.parametrize("remembered_blocks", [0, 100])
async def test_an_insert_that_failed_between_the_tables_is_made_good(
    archive: ClickHouseArchive, remembered_blocks: int
):
    """Also where the table would recognise the repeated block, as replicated ones do."""
    await archive._client.command(
        f"ALTER TABLE profile_deltas MODIFY SETTING non_replicated_deduplication_window = {remembered_blocks}"
    )
    await archive._client.command("ALTER TABLE tag_hits ADD CONSTRAINT full CHECK tag = ''")
    with pytest.raises(SinkRejected, match="tag_hits"):
        await archive.write_deltas(MIXED)
    assert await archive.history("t", "u") == MIXED
    assert await hits(archive) == []
    await archive._client.command("ALTER TABLE tag_hits DROP CONSTRAINT full")
    await archive.write_deltas(MIXED)
    assert await archive.history("t", "u") == MIXED
    assert await hits(archive) == OF_MIXED


def daily(user: str, tag: str, days_ago: list[int], first_version: int = 1) -> list[ProfileDelta]:
    return [
        make_tag(first_version + n, tag, n + 1, user=user, said_at=NOON - timedelta(days=days))
        for n, days in enumerate(days_ago)
    ]


class TestQuestions:
    @pytest.fixture(autouse=True)
    async def _some_weeks(self, archive: ClickHouseArchive):
        written = [
            *daily("ann", "coffee", [60, 30, 0, 0]),
            *daily("bob", "coffee", [1, 0]),
            *daily("ann", "tea", [8, 9, 10], first_version=10),
            *daily("eve", "coffee", [0], first_version=30),
        ]
        await archive.write_deltas(written)
        await archive.write_deltas(written[::-1])
        await archive.write_deltas([make_tag(1, user="ann", tenant="other")])

    async def test_a_trend_by_day(self, archive: ClickHouseArchive):
        assert await rows(
            archive,
            """SELECT toString(toDate(hit_at)) AS day, count(), uniq(user_id) FROM tag_hits FINAL
            WHERE tenant_id = 't' AND tag = 'coffee' GROUP BY day ORDER BY day""",
        ) == [("2025-12-31", 1, 1), ("2026-01-30", 1, 1), ("2026-02-28", 1, 1), ("2026-03-01", 4, 3)]

    async def test_decay(self, archive: ClickHouseArchive):
        shown = await rows(
            archive,
            """SELECT tag, sum(exp2(-dateDiff('second', hit_at, toDateTime64('2026-03-01 12:00:00.123457', 6, 'UTC'))
                / 86400 / 30)) AS weight
            FROM tag_hits FINAL WHERE tenant_id = 't' AND user_id = 'ann' GROUP BY tag ORDER BY weight DESC""",
        )
        assert shown == [
            ("coffee", pytest.approx(0.25 + 0.5 + 1 + 1)),
            ("tea", pytest.approx(2 ** (-8 / 30) + 2 ** (-9 / 30) + 2 ** (-10 / 30))),
        ]

    async def test_a_week_against_the_one_before(self, archive: ClickHouseArchive):
        assert await rows(
            archive,
            """WITH toDateTime64('2026-03-01 13:00:00', 6, 'UTC') AS until
            SELECT tag, countIf(hit_at > until - INTERVAL 7 DAY) AS week, countIf(hit_at <= until - INTERVAL 7 DAY)
            FROM tag_hits FINAL WHERE tenant_id = 't' AND hit_at > until - INTERVAL 14 DAY AND hit_at <= until
            GROUP BY tag ORDER BY week DESC""",
        ) == [("coffee", 5, 0), ("tea", 0, 3)]

    async def test_a_tag_of_a_tenant_is_found_by_the_key(self, archive: ClickHouseArchive):
        many = [make_tag(n, f"tag {n % 50:02}", user="busy") for n in range(1, 80_000)]
        await archive.write_deltas(many)
        plan = await rows(
            archive, "EXPLAIN indexes = 1 SELECT count() FROM tag_hits WHERE tenant_id = 't' AND tag = 'tag 07'"
        )
        granules = [line.split("Granules: ")[1].split("/") for (line,) in plan if "Granules: " in line and "/" in line]
        read, all_of_them = map(int, granules[0])
        assert 2 * read < all_of_them
