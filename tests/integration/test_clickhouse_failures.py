"""What the archive does when ClickHouse is away, slow, wrong or refuses."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sinks.clickhouse import ClickHouseArchive
from sinks.clickhouse.schema import migrations
from sinks.errors import SinkRejected, SinkUnavailable
from streams.embedded.clickhouse_faults import Fault
from tests.integration.clickhouse_records import (
    collect,
    make_delta,
    rows,
)

if TYPE_CHECKING:
    from tests.integration.clickhouse_fixtures import ClickHouseProcess, LocalClickHouse

pytest_plugins = ["tests.integration.clickhouse_fixtures"]


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
        from tests.integration.clickhouse_records import make_delta

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
    assert await archive.migrate() == [migration.version for migration in migrations()]
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
