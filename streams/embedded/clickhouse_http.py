"""ClickHouse's HTTP interface: a request becomes a statement, its answer or error becomes a response."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from aiohttp import web

from streams.embedded.clickhouse_codings import decoded, encoded
from streams.embedded.clickhouse_engine import DEFAULT_FORMAT, Engine, EngineError, Statement
from streams.embedded.clickhouse_faults import FaultPlan

T = TypeVar("T")

NOT_SETTINGS: Final = frozenset(
    {
        *("query", "query_id", "database", "default_format", "client_protocol_version", "stacktrace"),
        *("user", "password", "quota_key", "role"),
        *("session_id", "session_timeout", "session_check", "close_session"),
        *("compress", "decompress", "buffer_size", "wait_end_of_query"),
    }
)
"""Parameters of a URL that steer the interface; every other one is a setting of the statement."""

STATUS_OF_ERROR: Final[dict[str, int]] = {
    "REQUIRED_PASSWORD": 401,
    **dict.fromkeys(("UNKNOWN_USER", "WRONG_PASSWORD", "AUTHENTICATION_FAILED", "SET_NON_GRANTED_ROLE"), 403),
    **dict.fromkeys(
        (
            *("BAD_ARGUMENTS", "CANNOT_COMPILE_REGEXP", "CANNOT_PARSE_TEXT", "CANNOT_PARSE_ESCAPE_SEQUENCE"),
            *("CANNOT_PARSE_QUOTED_STRING", "CANNOT_PARSE_DATE", "CANNOT_PARSE_DATETIME", "CANNOT_PARSE_NUMBER"),
            *(
                "CANNOT_PARSE_DOMAIN_VALUE_FROM_STRING",
                "CANNOT_PARSE_IPV4",
                "CANNOT_PARSE_IPV6",
                "CANNOT_PARSE_UUID",
            ),
            *("CANNOT_PARSE_INPUT_ASSERTION_FAILED", "DUPLICATE_COLUMN", "ILLEGAL_COLUMN", "THERE_IS_NO_COLUMN"),
            *("UNKNOWN_ELEMENT_IN_AST", "UNKNOWN_TYPE_OF_AST_NODE", "TOO_DEEP_AST", "TOO_BIG_AST"),
            *("UNEXPECTED_AST_STRUCTURE", "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE", "SYNTAX_ERROR", "INCORRECT_DATA"),
            *("TYPE_MISMATCH", "BAD_QUERY_PARAMETER", "UNKNOWN_QUERY_PARAMETER"),
        ),
        400,
    ),
    **dict.fromkeys(
        (
            *("UNKNOWN_TABLE", "UNKNOWN_FUNCTION", "UNKNOWN_IDENTIFIER", "UNKNOWN_TYPE", "UNKNOWN_STORAGE"),
            *("UNKNOWN_DATABASE", "UNKNOWN_SETTING", "UNKNOWN_DIRECTION_OF_SORTING", "UNKNOWN_FORMAT"),
            *("UNKNOWN_AGGREGATE_FUNCTION", "UNKNOWN_DATABASE_ENGINE", "UNKNOWN_TYPE_OF_QUERY", "UNKNOWN_ROLE"),
            "SESSION_NOT_FOUND",
        ),
        404,
    ),
    "TIMEOUT_EXCEEDED": 408,
    "QUERY_IS_TOO_LARGE": 413,
    "NOT_IMPLEMENTED": 501,
    **dict.fromkeys(("SOCKET_TIMEOUT", "CANNOT_OPEN_FILE", "CANNOT_SCHEDULE_TASK"), 503),
}
"""HTTP statuses as ClickHouse chooses them, by the error's name; 500 for all others."""

CONTENT_TYPES: Final[dict[str, str]] = {
    **dict.fromkeys(("JSON", "JSONCompact", "JSONStrings", "JSONCompactStrings"), "application/json"),
    **dict.fromkeys(("JSONEachRow", "JSONCompactEachRow"), "application/x-ndjson"),
    **dict.fromkeys(("Native", "RowBinary", "Parquet", "Arrow", "ArrowStream"), "application/octet-stream"),
    **dict.fromkeys(("CSV", "CSVWithNames"), "text/csv; charset=UTF-8"),
    **dict.fromkeys(("TabSeparated", "TSV"), "text/tab-separated-values; charset=UTF-8"),
    **dict.fromkeys(("TabSeparatedWithNames", "TSVWithNames"), "text/tab-separated-values; charset=UTF-8"),
}
_STATEMENT_THREADS: Final = 16
_LOCAL_NAMES: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class _Dropped(Exception):
    """A fault closed the connection."""


class HttpInterface:
    """Answers ClickHouse's HTTP requests with an engine.

    Whoever reaches the port has the rights of this process, its files included: bind it to 127.0.0.1. Requests
    that a web page of another origin makes through the user's browser are refused.
    """

    def __init__(
        self, engine: Engine, *, user: str = "default", password: str = "", faults: FaultPlan | None = None
    ) -> None:
        self._engine = engine
        self._user = user
        self._password = password
        self._faults = faults or FaultPlan()
        self._threads = ThreadPoolExecutor(_STATEMENT_THREADS, thread_name_prefix="clickhouse-statement")

    def runner(self, *, shutdown_timeout: float = 10.0) -> web.AppRunner:
        """Return the runner to set up; its clean-up waits for running statements, `shutdown_timeout` seconds."""
        application = web.Application(client_max_size=1 << 30)
        application.router.add_get("/ping", _ping)
        application.router.add_get("/replicas_status", _ping)
        application.router.add_get("/", self._respond)
        application.router.add_post("/", self._respond)
        application.on_cleanup.append(self._stop_threads)
        return web.AppRunner(application, access_log=None, auto_decompress=False, shutdown_timeout=shutdown_timeout)

    async def _stop_threads(self, application: web.Application) -> None:
        await asyncio.to_thread(self._threads.shutdown)

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        headers = {
            "X-ClickHouse-Server-Display-Name": "profilestream embedded",
            "X-ClickHouse-Query-Id": request.query.get("query_id") or str(uuid.uuid4()),
            "X-ClickHouse-Timezone": self._engine.timezone,
        }
        try:
            self._admit(request)
            arguments, body = await _arguments(request)
            if not (sql := await self._in_thread(_sql, request, arguments, body)).strip():
                return web.Response(text="Ok.\n", headers=headers)
            statement = _statement(request, arguments, sql)
            compressed = arguments.get("enable_http_compression") == "1"
            return await self._execute(request, statement, headers, compressed=compressed)
        except EngineError as error:
            headers["X-ClickHouse-Exception-Code"] = str(error.code)
            text = f"{error} (version {self._engine.version} (chDB))\n"
            return web.Response(status=STATUS_OF_ERROR.get(error.name, 500), text=text, headers=headers)
        except _Dropped:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()

    async def _execute(
        self, request: web.Request, statement: Statement, headers: dict[str, str], *, compressed: bool
    ) -> web.StreamResponse:
        fault = self._faults.take(statement.sql)
        if fault is not None:
            if fault.kind == "status":
                return web.Response(status=fault.status, text="injected\n", headers=headers)
            if fault.kind == "drop_before":
                raise _Dropped
            await asyncio.sleep(fault.seconds)
        started = time.perf_counter()
        answer = await self._in_thread(self._engine.run, statement)
        if fault is not None and fault.kind == "drop_after":
            raise _Dropped
        headers["X-ClickHouse-Format"] = answer.format
        headers["Content-Type"] = CONTENT_TYPES.get(answer.format, "text/plain; charset=UTF-8")
        headers["X-ClickHouse-Summary"] = json.dumps(
            {
                "read_rows": str(answer.read_rows),
                "written_rows": str(answer.written_rows),
                "elapsed_ns": str(int((time.perf_counter() - started) * 1e9)),
            }
        )
        body = answer.body
        if compressed:
            coding, body = await self._in_thread(encoded, body, request.headers.get("Accept-Encoding", ""))
            if coding != "identity":
                headers["Content-Encoding"] = coding
        response = web.StreamResponse(headers={**headers, "Content-Length": str(len(body))})
        await response.prepare(request)
        if fault is not None and fault.kind == "truncate":
            await response.write(body[: len(body) // 2])
            raise _Dropped
        await response.write(body)
        return response

    def _admit(self, request: web.Request) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).hostname not in _LOCAL_NAMES:
            raise EngineError(516, "AUTHENTICATION_FAILED", f"requests from the origin {origin} are refused")
        user, password = _credentials(request)
        known = hmac.compare_digest(user.encode(), self._user.encode())
        if not (hmac.compare_digest(password.encode(), self._password.encode()) and known):
            raise EngineError(
                516,
                "AUTHENTICATION_FAILED",
                f"{user}: Authentication failed: password is incorrect, or there is no user with such name.",
            )


async def _ping(request: web.Request) -> web.Response:
    return web.Response(text="Ok.\n")


def _credentials(request: web.Request) -> tuple[str, str]:
    """Return user and password by the first of the ways that ClickHouse takes them."""
    scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            raise EngineError(516, "AUTHENTICATION_FAILED", "malformed credentials") from None
        return user or "default", password
    user = request.headers.get("X-ClickHouse-User") or request.query.get("user") or "default"
    return user, request.headers.get("X-ClickHouse-Key") or request.query.get("password", "")


async def _arguments(request: web.Request) -> tuple[dict[str, str], bytes]:
    """Return the request's parameters, from its URL and from a multipart form, and its body."""
    arguments = dict(request.query)
    if request.content_type != "multipart/form-data":
        return arguments, await request.read()
    for name, value in (await request.post()).items():
        if not isinstance(value, str):
            raise EngineError(48, "NOT_IMPLEMENTED", "external tables are not supported by the embedded server")
        arguments[name] = value
    return arguments, b""


def _sql(request: web.Request, arguments: dict[str, str], body: bytes) -> bytes:
    """Return the statement: the URL's, then the body."""
    for name in ("compress", "decompress"):
        if arguments.get(name, "0") not in {"", "0"}:
            message = f"{name}=1, the block compression, is not supported by the embedded server: use HTTP compression"
            raise EngineError(48, "NOT_IMPLEMENTED", message)
    try:
        body = decoded(body, request.headers.get("Content-Encoding", "identity"))
    except ValueError as error:
        raise EngineError(117, "INCORRECT_DATA", str(error)) from error
    query = arguments.get("query", "").encode()
    return query + b"\n" + body if query and body else query or body


def _statement(request: web.Request, arguments: dict[str, str], sql: bytes) -> Statement:
    try:
        session_timeout = float(arguments.get("session_timeout", "60"))
    except ValueError:
        raise EngineError(374, "INVALID_SESSION_TIMEOUT", "Invalid session timeout") from None
    return Statement(
        sql=sql,
        database=arguments.get("database") or request.headers.get("X-ClickHouse-Database") or "",
        settings={
            name: value
            for name, value in arguments.items()
            if name not in NOT_SETTINGS and not name.startswith("param_")
        },
        parameters={
            name.removeprefix("param_"): value for name, value in arguments.items() if name.startswith("param_")
        },
        format=arguments.get("default_format") or request.headers.get("X-ClickHouse-Format") or DEFAULT_FORMAT,
        read_only=request.method == "GET",
        session=arguments.get("session_id"),
        session_timeout=session_timeout,
        session_must_exist=arguments.get("session_check") == "1",
    )
