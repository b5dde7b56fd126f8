"""A connection to ClickHouse over HTTP whose every failure is one of the two that a sink may raise."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import aiohttp
from clickhouse_connect import get_async_client
from clickhouse_connect.driver import options
from clickhouse_connect.driver.asyncclient import AsyncClient
from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError

from schemas.places import Place
from sinks.clickhouse.columns import PLACE_COLUMNS, T, Table
from sinks.errors import SinkRejected, SinkUnavailable

TRANSIENT_ERRORS: Final[Mapping[int, str]] = {
    3: "UNEXPECTED_END_OF_FILE",
    32: "ATTEMPT_TO_READ_AFTER_EOF",
    159: "TIMEOUT_EXCEEDED",
    160: "TOO_SLOW",
    173: "CANNOT_ALLOCATE_MEMORY",
    202: "TOO_MANY_SIMULTANEOUS_QUERIES",
    203: "NO_FREE_CONNECTION",
    209: "SOCKET_TIMEOUT",
    210: "NETWORK_ERROR",
    236: "ABORTED",
    241: "MEMORY_LIMIT_EXCEEDED",
    242: "TABLE_IS_READ_ONLY",
    243: "NOT_ENOUGH_SPACE",
    252: "TOO_MANY_PARTS",
    279: "ALL_CONNECTION_TRIES_FAILED",
    285: "TOO_FEW_LIVE_REPLICAS",
    319: "UNKNOWN_STATUS_OF_INSERT",
    394: "QUERY_WAS_CANCELLED",
    425: "SYSTEM_ERROR",
    439: "CANNOT_SCHEDULE_TASK",
    745: "SERVER_OVERLOADED",
    999: "KEEPER_EXCEPTION",
}
"""Errors of ClickHouse that pass: the same statement may succeed later. Every other one is a refusal."""

TRANSIENT_STATUSES: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP statuses that pass when ClickHouse itself has said nothing: a proxy's, or a server's that is starting."""

_REFUSED_LOGIN: Final = frozenset({192, 193, 194, 516})
_HTTP_STATUS: Final = re.compile(r"HTTP status (\d{3})")
_ERROR_CODE: Final = re.compile(r"\bCode: (\d+)")
_SERVER_WORDS: Final = "server response: "
_REQUEST_URL: Final = re.compile(r"\(for url [^)]*\)$")
_QUOTED_ERROR: Final = 300  # characters of ClickHouse's words in a message
_CONNECT_TIMEOUT: Final = 10.0  # seconds; a server that listens answers at once


class ClickHouseClient:
    """One database of a ClickHouse server; connects when it is first used, and again after a failure.

    It may be used by several tasks at once. No statement belongs to a session, so none waits for another.
    Parsing and serialising happen in threads of the driver.
    """

    def __init__(self, *, url: str, user: str, password: str, database: str, timeout: float) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or "127.0.0.1"
        self._interface = parts.scheme
        self._port = parts.port or (8443 if parts.scheme == "https" else 8123)
        self._path = parts.path.strip("/")
        self._user = unquote(parts.username) if parts.username else user
        self._password = unquote(parts.password) if parts.password else password
        self._database = database
        self._timeout = timeout
        self._connecting = asyncio.Lock()
        self._client: AsyncClient | None = None
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"{self._interface}://{host}:{self._port}{'/' + self._path if self._path else ''}"

    async def connect(self) -> AsyncClient:
        """Connect, unless that has been done, and create the database when it is missing.

        Raises:
            SinkUnavailable: the server does not answer.
            SinkRejected: it refuses the user or the database.
        """
        async with self._connecting:
            if self._client is None:
                with self._failures():
                    self._client = await self._new_client()
            return self._client

    async def close(self) -> None:
        """Close the connections; the client may be used again and then connects anew."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement that returns no rows."""
        client = await self.connect()
        with self._failures():
            async with asyncio.timeout(self._timeout):
                await client.command(sql, parameters=dict(parameters or {}))

    async def delete(self, sql: str, parameters: Mapping[str, Any]) -> None:
        """Run a DELETE and return when no query sees the rows any more, on any replica."""
        client = await self.connect()
        with self._failures():
            async with asyncio.timeout(self._timeout):
                # Not the driver's `command`, which has no other place for long parameters than the URL.
                await client.raw_query(sql, parameters=dict(parameters), settings={"lightweight_deletes_sync": 2})

    async def finds(self, sql: str, parameters: Mapping[str, Any]) -> bool:
        """Return whether a SELECT, which may have as long parameters, has any row."""
        client = await self.connect()
        with self._failures():
            async with asyncio.timeout(self._timeout):
                return bool(await client.raw_query(sql, parameters=dict(parameters)))

    async def rows(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Sequence[Sequence[Any]]:
        """Return all rows of a SELECT; times are aware and in UTC."""
        return (await self.table(sql, parameters))[1]

    async def table(
        self, sql: str, parameters: Mapping[str, Any] | None = None
    ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Return the columns' names and all rows of a SELECT, likewise."""
        client = await self.connect()
        with self._failures():
            async with asyncio.timeout(self._timeout):
                result = await client.query(sql, parameters=dict(parameters or {}))
                return result.column_names, result.result_rows

    @asynccontextmanager
    async def blocks(
        self, sql: str, parameters: Mapping[str, Any] | None = None
    ) -> AsyncIterator[AsyncIterator[Sequence[Sequence[Any]]]]:
        """Give the rows of a SELECT block by block, as the server sends them."""
        client = await self.connect()
        with self._failures():
            async with await client.query_row_block_stream(sql, parameters=dict(parameters or {})) as stream:
                yield self._each(stream)

    async def insert(self, table: Table[T], records: Sequence[T], places: Sequence[Place] = ()) -> None:
        """Insert records in one native block and return when they are part of the table.

        Args:
            table: the table.
            records: the rows.
            places: where each lies on its topic; without any, the table's columns for that are left out.
        """
        client = await self.connect()
        with self._failures():
            columns = await asyncio.to_thread(table.values, records)
            names, types = table.names, table.types
            if places:
                columns += [list(column) for column in zip(*places, strict=True)]
                names, types = [*names, *PLACE_COLUMNS], [*types, *PLACE_COLUMNS.values()]
            async with asyncio.timeout(self._timeout):
                await client.insert(
                    table.name,
                    columns,
                    column_names=names,
                    column_type_names=types,
                    column_oriented=True,
                    # The batch is large enough, and its caller waits: gathering it with others gains nothing.
                    settings={"async_insert": 0},
                )

    async def _new_client(self) -> AsyncClient:
        _leave_out_optional_packages()
        async with asyncio.timeout(self._timeout):
            client = await get_async_client(
                interface=self._interface,
                host=self._host,
                port=self._port,
                proxy_path=self._path,
                username=self._user,
                password=self._password,
                connect_timeout=min(self._timeout, _CONNECT_TIMEOUT),
                send_receive_timeout=self._timeout,
                autogenerate_session_id=False,
                query_retries=0,
                tz_mode="aware",
            )
            try:
                names = {"database": self._database}
                known = await client.query("SELECT 1 FROM system.databases WHERE name = {database:String}", names)
                # Asked for first: a user who may not create databases can still use the one that exists.
                if not known.result_rows:
                    await client.command("CREATE DATABASE IF NOT EXISTS {database:Identifier}", names)
            except BaseException:
                await client.close()
                raise
            client.database = self._database
            return client

    async def _each(self, stream: AsyncIterator[Sequence[Sequence[Any]]]) -> AsyncIterator[Sequence[Sequence[Any]]]:
        while True:
            async with asyncio.timeout(self._timeout):
                block = await anext(stream, None)
            if block is None:
                return
            yield block

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn whatever the driver raises into `SinkUnavailable` or `SinkRejected`."""
        try:
            yield
        except ClickHouseError as error:
            raise self._failure(error) from error
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise self._unavailable(str(error) or f"no answer within {self._timeout:g} s") from error
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise SinkRejected(f"a record cannot be written to ClickHouse at {self.url}: {_short(error)}") from error

    def _failure(self, error: ClickHouseError) -> SinkUnavailable | SinkRejected:
        text = str(error)
        code = _code(error, text)
        if code is not None:
            if code in TRANSIENT_ERRORS:
                return self._unavailable(f"{TRANSIENT_ERRORS[code]}: {_short(error)}")
            if code in _REFUSED_LOGIN:
                return SinkRejected(
                    f"ClickHouse at {self.url} refuses user {self._user!r}: check the settings clickhouse.user and "
                    f"clickhouse.password"
                )
            return SinkRejected(f"ClickHouse at {self.url} refuses a statement: {_short(error)}")
        status = _HTTP_STATUS.search(text)
        if status is not None and int(status[1]) not in TRANSIENT_STATUSES:
            return SinkRejected(
                f"{self.url} answers with HTTP status {status[1]}: check that the setting clickhouse.url is the HTTP "
                f"port of ClickHouse"
            )
        if isinstance(error, OperationalError) or status is not None:
            return self._unavailable(_short(error))
        return SinkRejected(f"a statement for ClickHouse at {self.url} is wrong: {_short(error)}")

    def _unavailable(self, detail: str) -> SinkUnavailable:
        return SinkUnavailable(
            f"ClickHouse at {self.url} is not available ({detail}): check that it runs and the setting clickhouse.url"
        )


def _leave_out_optional_packages() -> None:
    """Keep the driver from importing numpy and pandas at its first insert, should they be installed.

    That would take half a second, on the event loop, only to find that the rows are no data frame. The driver has no
    setting for it; None is how it notes that a package is missing, so it works as it does without them.
    """
    for name in ("np", "pd", "pd_time_test"):
        vars(options).setdefault(name, None)


def _code(error: ClickHouseError, text: str) -> int | None:
    """Return ClickHouse's error code; an error that comes after the first rows has it in its text only."""
    code: int | None = getattr(error, "code", None)
    if code is None and (found := _ERROR_CODE.search(text)):
        return int(found[1])
    return code


def _short(error: Exception) -> str:
    """Return what an error says in one line of bounded length, without the driver's own words around it."""
    text = str(error)
    if _SERVER_WORDS in text:
        text = text.partition(_SERVER_WORDS)[2]
    text = " ".join(_REQUEST_URL.sub("", text).split()) or type(error).__name__
    return text if len(text) <= _QUOTED_ERROR else text[: _QUOTED_ERROR - 1] + "…"
