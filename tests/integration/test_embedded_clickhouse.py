"""The embedded ClickHouse, asked over HTTP by the clients that people use."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import clickhouse_connect
import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from streams.embedded.clickhouse_engine import Engine
from streams.embedded.clickhouse_faults import Fault, FaultPlan

if TYPE_CHECKING:
    from tests.integration.clickhouse_fixtures import ClickHouseProcess, LocalClickHouse

    Start = Callable[..., ClickHouseProcess]

pytest_plugins = ["tests.integration.clickhouse_fixtures"]


async def post(
    server: LocalClickHouse, sql: str | bytes, method: str = "POST", headers: dict[str, str] | None = None, **query: str
) -> tuple[int, str, dict[str, str]]:
    async with aiohttp.ClientSession() as session:
        response = await session.request(method, server.url, data=sql, params=query, headers=headers)
        return response.status, await response.text(), dict(response.headers)


@pytest.fixture
async def table(clickhouse: LocalClickHouse, database: str) -> str:
    for sql in (
        f"CREATE DATABASE {database}",
        f"CREATE TABLE {database}.t (a UInt32, s String) ENGINE = MergeTree ORDER BY a",
    ):
        status, text, _ = await post(clickhouse, sql)
        assert status == 200, text
    return f"{database}.t"


def test_sync_client_writes_and_reads(clickhouse: LocalClickHouse, table: str):
    client = clickhouse_connect.get_client(host="127.0.0.1", port=clickhouse.port)
    rows = [[1, "a"], [2, "日本 😀 '\"\\\t\n"]]
    client.insert(table, rows, column_names=["a", "s"])
    assert [list(row) for row in client.query(f"SELECT * FROM {table} ORDER BY a").result_rows] == rows
    found = client.query(f"SELECT a FROM {table} WHERE s = {{s:String}}", {"s": rows[1][1]})
    assert found.result_rows == [(2,)]
    assert client.server_version.startswith(client.command("SELECT version()"))
    client.close()


def test_sync_client_with_its_own_session_keeps_temporary_tables_and_settings(clickhouse: LocalClickHouse):
    client = clickhouse_connect.get_client(host="127.0.0.1", port=clickhouse.port, session_id="one")
    client.command("CREATE TEMPORARY TABLE mine (a UInt8)")
    client.command("SET max_threads = 3")
    assert client.query("SELECT getSetting('max_threads')", settings={"max_threads": 1}).result_rows == [(1,)]
    assert client.query("SELECT getSetting('max_threads')").result_rows == [(3,)]
    assert client.query("SELECT count() FROM mine").result_rows == [(0,)]
    client.close()


async def test_a_setting_holds_for_its_statement_only(clickhouse: LocalClickHouse):
    asked = "SELECT getSetting('max_threads') = 7"
    assert (await post(clickhouse, asked, max_threads="7"))[1] == "1\n"
    assert (await post(clickhouse, asked))[1] == "0\n"


@pytest.mark.parametrize("compress", [False, "lz4", "zstd", "gzip"])
async def test_async_client_with_each_compression(clickhouse: LocalClickHouse, table: str, compress: bool | str):
    """Enough rows for several blocks, each compressed by itself, both ways."""
    client = await clickhouse_connect.get_async_client(host="127.0.0.1", port=clickhouse.port, compress=compress)
    written = [(n, f"{n} " * 40) for n in range(60_000)]
    await client.insert(table, written, column_names=["a", "s"])
    read: list[tuple[int, str]] = []
    async with await client.query_row_block_stream(f"SELECT * FROM {table} ORDER BY a") as stream:
        async for block in stream:
            read += [tuple(row) for row in block]
    assert read == written
    await client.close()


def test_curl(clickhouse: LocalClickHouse, table: str):
    def curl(*arguments: str, data: bytes = b"") -> str:
        done = subprocess.run(["curl", "-sS", "-m", "20", *arguments], input=data, capture_output=True, check=True)
        return done.stdout.decode()

    assert curl(f"{clickhouse.url}/ping") == "Ok.\n"
    assert curl(f"{clickhouse.url}/?query=SELECT%201") == "1\n"
    assert (
        curl(f"{clickhouse.url}/?query=INSERT%20INTO%20{table}%20FORMAT%20TSV", "--data-binary", "@-", data=b"1\tx\n")
        == ""
    )
    assert (
        curl(f"{clickhouse.url}/?query=INSERT%20INTO%20{table}%20VALUES", "-d", "(2, 'y'), (3, 'FORMAT CSV\nz')") == ""
    )
    lines = b'INSERT INTO %b FORMAT JSONEachRow\n{"a": 4, "s": "w"}\n' % table.encode()
    assert curl(clickhouse.url, "--data-binary", "@-", data=lines) == ""
    assert json.loads(
        curl(
            "--compressed",
            f"{clickhouse.url}/?enable_http_compression=1",
            "-d",
            f"SELECT * FROM {table} ORDER BY a FORMAT JSON",
        )
    )["data"] == [{"a": 1, "s": "x"}, {"a": 2, "s": "y"}, {"a": 3, "s": "FORMAT CSV\nz"}, {"a": 4, "s": "w"}]
    # A body of this size makes curl ask first (Expect: 100-continue).
    many = b"".join(b"%d\t%b\n" % (n, b"v" * 200) for n in range(10, 20_010))
    assert (
        curl(f"{clickhouse.url}/?query=INSERT%20INTO%20{table}%20FORMAT%20TSV", "--data-binary", "@-", data=many) == ""
    )
    assert curl(clickhouse.url, "-d", f"SELECT count() FROM {table}") == "20004\n"


async def test_bodies_may_be_chunked_and_compressed(clickhouse: LocalClickHouse, table: str):
    async def pieces():
        data = gzip.compress(f"INSERT INTO {table} FORMAT CSV\n1,one\n2,two\n".encode())
        yield data[:20]
        yield data[20:]

    async with (
        aiohttp.ClientSession() as session,
        session.post(clickhouse.url, data=pieces(), headers={"Content-Encoding": "gzip"}) as response,
    ):
        assert response.status == 200, await response.text()
        assert json.loads(response.headers["X-ClickHouse-Summary"])["written_rows"] == "2"
    assert (await post(clickhouse, f"SELECT s FROM {table} ORDER BY a"))[1] == "one\ntwo\n"


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [
        ("SELEC 1", 400, 62),
        ("SELECT * FROM no_such_table", 404, 60),
        ("SELECT no_such_column", 404, 47),
        ("SELECT no_such_function()", 404, 46),
        ("SELECT * FROM no_such_database.t", 404, 81),
        ("SELECT 1 FORMAT NoSuchFormat", 404, 73),
        ("SELECT toUInt8('x')", 400, 6),
        ("SELECT throwIf(1)", 500, 395),
        ("SELECT sleep(2) SETTINGS max_execution_time = 1", 408, 159),
        (b"SELECT '\xff\xfe'", 400, 62),
        ("INSERT INTO no_such_table FORMAT CSV\n1", 404, 60),
    ],
    ids=lambda value: repr(value)[:30],
)
async def test_errors_have_the_code_and_the_status_of_clickhouse(
    clickhouse: LocalClickHouse, sql: str | bytes, status: int, code: int
):
    got, text, headers = await post(clickhouse, sql)
    assert (got, headers["X-ClickHouse-Exception-Code"]) == (status, str(code)), text
    assert text.startswith(f"Code: {code}. DB::Exception: ")
    assert (await post(clickhouse, "SELECT 1"))[:2] == (200, "1\n")


@pytest.mark.parametrize(
    ("preparation", "code"),
    [
        ("ALTER TABLE {0} ADD CONSTRAINT small CHECK a < 5", 469),
        ("CREATE OR REPLACE TABLE {0} (a UInt32, s String) ENGINE = MergeTree PARTITION BY a ORDER BY a", 252),
        ("CREATE MATERIALIZED VIEW {0}_copy ENGINE = Memory AS SELECT throwIf(a = 7) FROM {0}", 395),
    ],
    ids=["constraint", "partitions", "view"],
)
async def test_rows_that_cannot_be_stored_are_an_error(
    clickhouse: LocalClickHouse, table: str, preparation: str, code: int
):
    """What goes wrong after the rows were read, when the engine has yet to store them."""
    assert (await post(clickhouse, preparation.format(table)))[0] == 200
    rows = "".join(f"{n}\tx\n" for n in range(200))
    status, text, headers = await post(clickhouse, f"INSERT INTO {table} FORMAT TSV\n{rows}")
    assert (status >= 400, headers.get("X-ClickHouse-Exception-Code")) == (True, str(code)), text
    assert (await post(clickhouse, f"INSERT INTO {table} FORMAT TSV\n1\tx\n"))[0] == 200


async def test_unknown_settings_databases_and_codings_are_errors(clickhouse: LocalClickHouse):
    assert (await post(clickhouse, "SELECT 1", no_such_setting="1"))[0] == 404
    assert (await post(clickhouse, "SELECT 1", **{"x = 1, max_threads": "1"}))[0] == 404
    assert (await post(clickhouse, "SELECT 1", database="no`such"))[0] == 404
    for body in (b"not gzip", gzip.compress(b"SELECT 1")[:-1], gzip.compress(b"SELECT 1") + b"x"):
        assert (await post(clickhouse, body, headers={"Content-Encoding": "gzip"}))[0] == 400
    assert (await post(clickhouse, b"SELECT 1", headers={"Content-Encoding": "br"}))[0] == 400
    assert (await post(clickhouse, "SELECT 1", compress="1"))[0] == 501


@pytest.mark.parametrize(
    "insert",
    [
        "INSERT INTO {0} FORMAT CSV\n1,x\n",
        "insert into table {0}(a,s) format CSV 1,x",
        'INSERT INTO {0} (`a`, "s")\n  SETTINGS async_insert = 0, max_insert_threads=1\n  FORMAT CSV\r\n1,x\n',
        "INSERT INTO {0} FORMAT TSV\n1\tx\n",
        "INSERT INTO {0} VALUES (1, 'x')",
        "INSERT INTO {0} (s, a) VALUES ('x', 1)",
        "INSERT INTO {0} SELECT 1, 'x'",
        '/* with a comment */ INSERT INTO {0} FORMAT JSONEachRow {{"a": 1, "s": "x"}}',
    ],
)
async def test_inserts_in_every_writing(clickhouse: LocalClickHouse, table: str, insert: str):
    status, text, _ = await post(clickhouse, insert.format(table))
    assert (status, text) == (200, "")
    assert (await post(clickhouse, f"SELECT * FROM {table}"))[1] == "1\tx\n"


async def test_parameters_of_an_insert_with_data(clickhouse: LocalClickHouse, table: str):
    database, name = table.split(".")
    insert = "INSERT INTO {d:Identifier}.{t:Identifier} FORMAT CSV\n1,x\n"
    status, text, _ = await post(clickhouse, insert, param_d=database, param_t=name)
    assert (status, text) == (200, "")
    assert (await post(clickhouse, f"SELECT count() FROM {table}"))[1] == "1\n"


async def test_a_statement_that_never_closes_its_columns_is_refused_at_once(clickhouse: LocalClickHouse):
    async with asyncio.timeout(5):
        assert (await post(clickhouse, f"INSERT INTO t ({'a' * 5000}"))[0] == 400


@pytest.mark.parametrize(
    ("sql", "asked", "body", "named"),
    [
        ("SELECT 1 AS x", None, "1\n", "TabSeparated"),
        ("SELECT 1 AS x", "CSVWithNames", '"x"\n1\n', "CSVWithNames"),
        ("SELECT 1 AS x FORMAT JSONEachRow", "CSV", '{"x":1}\n', "JSONEachRow"),
        ("SELECT 1 AS x FORMAT CSV SETTINGS max_threads = 1;", None, "1\n", "CSV"),
        ("SELECT 'FORMAT CSV'", None, "FORMAT CSV\n", "TabSeparated"),
    ],
)
async def test_formats(clickhouse: LocalClickHouse, sql: str, asked: str | None, body: str, named: str):
    status, text, headers = await post(clickhouse, sql, **({"default_format": asked} if asked else {}))
    assert (status, text, headers["X-ClickHouse-Format"]) == (200, body, named)


async def test_a_rejected_insert_leaves_nothing(clickhouse: LocalClickHouse, table: str):
    status, text, _ = await post(clickhouse, f"INSERT INTO {table} FORMAT CSV\n1,one\nx,two\n")
    assert status == 400, text
    assert (await post(clickhouse, f"SELECT count() FROM {table}"))[1] == "0\n"


async def test_get_only_reads(clickhouse: LocalClickHouse, table: str):
    status, text, headers = await post(clickhouse, "", "GET", query=f"DROP TABLE {table}")
    assert (status, headers["X-ClickHouse-Exception-Code"]) == (500, "164"), text
    assert (await post(clickhouse, "", "GET", query=f"SELECT count() FROM {table}"))[:2] == (200, "0\n")


async def test_users_and_origins(guarded_clickhouse: LocalClickHouse):
    server = guarded_clickhouse
    basic = {"Authorization": "Basic " + base64.b64encode(f"default:{server.password}".encode()).decode()}
    own = {"X-ClickHouse-User": "default", "X-ClickHouse-Key": server.password}
    assert (await post(server, "SELECT 1", headers=basic))[0] == 200
    assert (await post(server, "SELECT 1", headers=own))[0] == 200
    assert (await post(server, "SELECT 1", user="default", password=server.password))[0] == 200
    assert (await post(server, "SELECT 1", headers={**own, "Origin": "http://localhost:8080"}))[0] == 200
    for refused in (
        post(server, "SELECT 1"),
        post(server, "SELECT 1", headers={**own, "X-ClickHouse-Key": "wrong"}),
        post(server, "SELECT 1", headers={**own, "X-ClickHouse-User": "other"}),
        post(server, "SELECT 1", headers={"Authorization": "Basic ***"}),
        post(server, "SELECT 1", headers={**own, "Origin": "https://example.com"}),
    ):
        status, text, headers = await refused
        assert (status, headers["X-ClickHouse-Exception-Code"]) == (403, "516")
        assert server.password not in text


async def test_sessions_are_locked_while_used_and_forgotten_when_idle(clickhouse: LocalClickHouse):
    session = {"session_id": "busy", "session_timeout": "0"}
    assert (await post(clickhouse, "SELECT 1", session_check="1", **session))[0] == 404
    answers = await asyncio.gather(*(post(clickhouse, "SELECT sleep(1)", **session) for _ in range(2)))
    refused, served = sorted(answers, key=lambda answer: -answer[0])
    assert served[:2] == (200, "0\n")
    assert (refused[0], refused[2]["X-ClickHouse-Exception-Code"]) == (500, "373")
    assert (await post(clickhouse, "SELECT 1", session_check="1", **session))[0] == 404


def test_ten_clients_at_once(clickhouse: LocalClickHouse, table: str):
    def work(number: int) -> int:
        client = clickhouse_connect.get_client(host="127.0.0.1", port=clickhouse.port)
        for part in range(5):
            client.insert(table, [[number * 1000 + part * 100 + n, "x"] for n in range(100)], column_names=["a", "s"])
        mine = client.query(
            f"SELECT count() FROM {table} WHERE intDiv(a, 1000) = {{n:UInt32}}", {"n": number}
        ).result_rows[0][0]
        client.close()
        return mine

    with ThreadPoolExecutor(10) as threads:
        assert list(threads.map(work, range(10))) == [500] * 10


async def test_faults_happen_as_planned(clickhouse: LocalClickHouse, table: str):
    async def rows() -> str:
        return (await post(clickhouse, f"SELECT count() FROM {table}"))[1]

    insert = f"INSERT INTO {table} FORMAT CSV\n1,one\n"
    clickhouse.faults.add(Fault(kind="status", status=429, match="insert into", times=2))
    assert [(await post(clickhouse, insert))[0] for _ in range(2)] == [429, 429]
    assert await rows() == "0\n"

    clickhouse.faults.add(Fault(kind="drop_before", match="INSERT"))
    with pytest.raises(aiohttp.ClientError):
        await post(clickhouse, insert)
    assert await rows() == "0\n"

    clickhouse.faults.add(Fault(kind="drop_after", match="INSERT"))
    with pytest.raises(aiohttp.ClientError):
        await post(clickhouse, insert)
    assert await rows() == "1\n"

    clickhouse.faults.add(Fault(kind="truncate"))
    with pytest.raises(aiohttp.ClientPayloadError):
        await post(clickhouse, "SELECT * FROM numbers(1000)")

    clickhouse.faults.add(Fault(kind="delay", seconds=0.3))
    started = time.monotonic()
    assert (await post(clickhouse, "SELECT 1"))[1] == "1\n"
    assert time.monotonic() - started >= 0.3


def test_a_fault_is_used_up():
    plan = FaultPlan([Fault(kind="status", match="b", times=2), Fault(kind="drop_before")])
    taken = [plan.take(sql) for sql in (b"B", b"a", b"a", b"b", b"b")]
    assert [fault and fault.kind for fault in taken] == ["status", "drop_before", None, "status", None]
    assert plan.pending == 0


async def test_the_process_announces_itself_and_stops_on_sigterm(start_clickhouse: Start, tmp_path: Path):
    process = start_clickhouse(tmp_path / "new" / "data")
    assert process.ready == {"service": "clickhouse", "port": process.ready["port"], "pid": process.pid}
    async with aiohttp.ClientSession() as session:
        running = asyncio.create_task(session.post(process.url, data="SELECT sleep(1)"))
        async with asyncio.timeout(10):
            seen = "0\n"
            while seen == "0\n":
                async with session.post(
                    process.url,
                    data="SELECT count() FROM system.processes WHERE query = 'SELECT sleep(1)'",
                ) as response:
                    seen = await response.text()
        code, out, err = await asyncio.to_thread(process.stop)
        response = await running
        assert (response.status, await response.text()) == (200, "0\n")
    assert (code, out, err) == (0, "", "")


async def test_what_was_acknowledged_survives_sigkill(start_clickhouse: Start, tmp_path: Path):
    process = start_clickhouse(tmp_path)
    acknowledged = 0
    async with aiohttp.ClientSession() as session:

        async def run(sql: str) -> str:
            async with session.post(process.url, data=sql) as response:
                assert response.status == 200, await response.text()
                return await response.text()

        await run("CREATE TABLE t (n UInt32) ENGINE = MergeTree ORDER BY n")
        timer = asyncio.get_running_loop().call_later(0.5, os.kill, process.pid, signal.SIGKILL)
        with contextlib.suppress(aiohttp.ClientError):
            while True:
                await run(f"INSERT INTO t SELECT {acknowledged}")
                acknowledged += 1
        timer.cancel()
        assert acknowledged > 0
        (tmp_path / "tmp" / "left-behind").write_bytes(b"x" * 100)
        process = start_clickhouse(tmp_path)
        found = [int(line) for line in (await run("SELECT n FROM t ORDER BY n")).split()]
    # The insert that was running when the process was killed may or may not be there.
    assert found in (list(range(acknowledged)), list(range(acknowledged + 1)))
    assert not (tmp_path / "tmp" / "left-behind").exists()


def test_a_path_belongs_to_one_process(start_clickhouse: Start, tmp_path: Path):
    start_clickhouse(tmp_path)
    second = start_clickhouse(tmp_path)
    code, out, err = second.result()
    assert (second.ready, code, out) == (None, 1, "")
    assert err == f"clickhouse: {tmp_path} is in use by another process: stop that one or choose another path\n"


def test_a_path_that_is_a_file_and_a_port_in_use_are_one_sentence(start_clickhouse: Start, tmp_path: Path):
    (tmp_path / "file").write_text("")
    code, _, err = start_clickhouse(tmp_path / "file").result()
    assert code == 1
    assert err.startswith(f"clickhouse: {tmp_path}/file cannot be used as a data directory")
    assert err.count("\n") == 1
    port = start_clickhouse(tmp_path / "a").ready["port"]
    code, _, err = start_clickhouse(tmp_path / "b", "--port", str(port)).result()
    assert code == 1
    assert err.startswith(f"clickhouse: cannot listen on 127.0.0.1:{port}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("told", [True, False], ids=["pid given", "own parent"])
def test_it_ends_with_its_parent(tmp_path: Path, told: bool):
    code = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-m', 'streams.embedded.clickhouse', '--path', sys.argv[1],\n"
        "    '--die-with-parent', *([str(os.getpid())] if sys.argv[2] else [])], stdout=subprocess.PIPE, text=True)\n"
        "print(child.stdout.readline(), end='', flush=True)\n"
        "sys.stdin.readline()\n"
        "os._exit(0)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), "x" if told else ""],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    pid = json.loads(parent.stdout.readline())["pid"]
    os.kill(pid, 0)
    parent.communicate("\n", timeout=10)
    deadline = time.monotonic() + 15
    while _is_running(pid):
        assert time.monotonic() < deadline, "the child outlived its parent"
        os.sched_yield()


def _is_running(pid: int) -> bool:
    """Whether the process exists and is more than an entry that nobody has collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_version_and_time_zone_are_the_engines(clickhouse: LocalClickHouse, clickhouse_engine: Engine):
    _, text, headers = await post(clickhouse, "SELECT version(), timezone()")
    assert text == f"{clickhouse_engine.version}\t{clickhouse_engine.timezone}\n"
    assert headers["X-ClickHouse-Timezone"] == clickhouse_engine.timezone


async def test_multipart_forms_carry_parameters(clickhouse: LocalClickHouse):
    form = aiohttp.FormData()
    form.add_field("query", "SELECT {v:String}, {n:UInt8}", content_type="text/plain")
    form.add_field("param_v", "it's; DROP", content_type="text/plain")
    form.add_field("param_n", "7", content_type="text/plain")
    async with aiohttp.ClientSession() as session, session.post(clickhouse.url, data=form) as response:
        assert (response.status, await response.text()) == (200, "it\\'s; DROP\t7\n")


def test_a_bad_password_is_said_by_the_client_too(guarded_clickhouse: LocalClickHouse):
    with pytest.raises(DatabaseError, match="516"):
        clickhouse_connect.get_client(host="127.0.0.1", port=guarded_clickhouse.port, password="no")
