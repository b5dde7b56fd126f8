"""A real ClickHouse engine for tests: in this process, where faults can be asked for, and as the shipped process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiohttp import web

from sinks.clickhouse import ClickHouseArchive
from streams.embedded.clickhouse_engine import Engine
from streams.embedded.clickhouse_faults import FaultPlan
from streams.embedded.clickhouse_http import HttpInterface

HOST = "127.0.0.1"
PASSWORD = "secret:%/?"
START_LIMIT = 30.0


@dataclass(frozen=True)
class LocalClickHouse:
    """A running server whose faults the test may plan."""

    port: int
    faults: FaultPlan
    password: str = ""

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


@contextmanager
def serving(engine: Engine, *, password: str = "") -> Iterator[LocalClickHouse]:
    """Answer for an engine on an event loop of its own: a test may block its loop, or check that nobody does."""
    faults = FaultPlan()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> web.AppRunner:
        runner = HttpInterface(engine, password=password, faults=faults).runner(shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, HOST, 0).start()
        return runner

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(START_LIMIT)
    try:
        yield LocalClickHouse(runner.addresses[0][1], faults, password)
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(START_LIMIT)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(START_LIMIT)
        loop.close()


class ClickHouseProcess:
    """The process that the product starts."""

    def __init__(self, path: Path, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "streams.embedded.clickhouse", "--path", str(path), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.ready = json.loads(self._process.stdout.readline() or "null")

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.ready['port']}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._process.kill()
        self._process.communicate(timeout=START_LIMIT)

    def stop(self) -> tuple[int, str, str]:
        """End it with SIGTERM; return its exit code and what else it printed."""
        self._process.terminate()
        return self.result()

    def result(self) -> tuple[int, str, str]:
        """Wait for its end; return its exit code and what else it printed."""
        out, err = self._process.communicate(timeout=START_LIMIT)
        return self._process.returncode, out, err


@pytest.fixture(scope="session")
def clickhouse_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The engine of this test run: chDB opens one data directory in a process."""
    engine = Engine(tmp_path_factory.mktemp("clickhouse"))
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def clickhouse_server(clickhouse_engine: Engine) -> Iterator[LocalClickHouse]:
    with serving(clickhouse_engine) as server:
        yield server


@pytest.fixture
def clickhouse(clickhouse_server: LocalClickHouse) -> Iterator[LocalClickHouse]:
    """The shared server; a fault that a test planned must have happened by its end."""
    yield clickhouse_server
    left = clickhouse_server.faults.pending
    clickhouse_server.faults.clear()
    assert left == 0, "a planned fault never happened"


@pytest.fixture
def guarded_clickhouse(clickhouse_engine: Engine) -> Iterator[LocalClickHouse]:
    """A server with a password."""
    with serving(clickhouse_engine, password=PASSWORD) as server:
        yield server


@pytest.fixture
def database() -> str:
    """The name of a database that no other test uses."""
    return f"test_{uuid.uuid4().hex}"


@pytest.fixture
async def archive(clickhouse: LocalClickHouse, database: str) -> AsyncIterator[ClickHouseArchive]:
    """An archive with its tables, in a database of its own."""
    archive = ClickHouseArchive(url=clickhouse.url, database=database, timeout=20.0)
    await archive.migrate()
    yield archive
    await archive.close()


@pytest.fixture
def start_clickhouse() -> Iterator[Callable[..., ClickHouseProcess]]:
    """Start the process as often as wanted; those still running are killed at the end."""
    started: list[ClickHouseProcess] = []

    def start(path: Path, *options: str) -> ClickHouseProcess:
        started.append(ClickHouseProcess(path, *options))
        return started[-1]

    yield start
    for process in started:
        process.kill()
