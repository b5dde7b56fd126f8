"""`Stores`: where results are read, ClickHouse and Qdrant, each over HTTP."""

from __future__ import annotations

import asyncio
import base64
import http.client
import ssl
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from profilestream_client.errors import StoreRefused, StoreUnavailable

Row = TypeVar("Row")
Parameters = Mapping[str, str | int | Sequence[str]]
"""Values of the parameters of a SELECT, by their names."""

_ESCAPES: Final = str.maketrans(
    {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0", "\b": "\\b", "\f": "\\f"}
)
_QUOTED: Final = 300  # characters of a store's own words in an error
_UNKNOWN_DATABASE: Final = frozenset({"60", "81"})
_REFUSED_LOGIN: Final = frozenset({"192", "193", "194", "516"})
_TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, kw_only=True)
class Stores:
    """Where the results are and how to log in.

    Attributes:
        clickhouse_url: of ClickHouse's HTTP interface; without a port 8123, or 8443 for https.
        clickhouse_user: who reads.
        clickhouse_password: it is in no log and no error; likewise the key of Qdrant.
        clickhouse_database: the pipeline's ``clickhouse.database``.
        qdrant_url: of Qdrant's REST interface, without a port 6333; only needed to find events by meaning.
        qdrant_api_key: empty for a server without one.
        qdrant_collection: the pipeline's ``qdrant.collection``, or the collection of one embedding model.
        ssl_context: for https; by default the certificates that this machine trusts.
        timeout: seconds that a request may take.
    """

    clickhouse_url: str = "http://127.0.0.1:8123"
    clickhouse_user: str = "default"
    clickhouse_password: str = field(default="", repr=False)
    clickhouse_database: str = "profilestream"
    qdrant_url: str = "http://127.0.0.1:6333"
    qdrant_api_key: str = field(default="", repr=False)
    qdrant_collection: str = "profiles"
    ssl_context: ssl.SSLContext | None = None
    timeout: float = 10.0

    def __post_init__(self) -> None:
        for url in (self.clickhouse_url, self.qdrant_url):
            parts = urlsplit(url)
            if parts.scheme not in {"http", "https"} or not parts.hostname:
                raise ValueError(f"{_shown(url)} is not a URL that begins with http:// or https:// and names a host")

    async def rows(self, sql: str, parameters: Parameters, row: type[Row]) -> list[Row]:
        """Return the rows of a SELECT from ClickHouse; values travel as query parameters.

        Raises:
            StoreUnavailable: when it does not answer.
            StoreRefused: when it refuses this client or the question.
        """
        name = f"ClickHouse at {_shown(self.clickhouse_url)}"
        boundary = uuid.uuid4().hex
        values = {f"param_{key}": _parameter(value) for key, value in parameters.items()}
        body = _form({"query": f"{sql}\nFORMAT JSONEachRow", **values}, boundary)
        login = base64.b64encode(f"{self.clickhouse_user}:{self.clickhouse_password}".encode()).decode()
        headers = {
            "Authorization": f"Basic {login}",
            "Content-Type": f"multipart/form-data; boundary={boundary}",
        }
        path = f"/?database={quote(self.clickhouse_database, safe='')}"
        answer = await self._post(name, self.clickhouse_url, {"http": 8123, "https": 8443}, path, headers, body)
        if answer.status != 200:
            raise _clickhouse_error(name, self, answer)
        try:
            return msgspec.json.Decoder(row, strict=False).decode_lines(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreRefused(f"{name} does not answer as expected ({_short(str(error))}): check its URL") from error

    async def nearest(
        self, vector: Sequence[float], fields: Mapping[str, str], moments: Mapping[str, datetime], limit: int
    ) -> list[Near]:
        """Return the gists that are nearest to a vector in Qdrant.

        Args:
            vector: of what is asked, by the model that the collection is made with.
            fields: of the points: tenant and user among them.
            moments: bounds of `said_at`, by ``gte`` and ``lt``.
            limit: how many at the most.

        Raises:
            StoreUnavailable: when it does not answer.
            StoreRefused: when it refuses this client or the question.
        """
        name = f"Qdrant at {_shown(self.qdrant_url)}"
        must: list[dict[str, Any]] = [{"key": key, "match": {"value": value}} for key, value in fields.items()]
        if moments:
            must.append({"key": "said_at", "range": moments})
        question = {
            "query": list(vector),
            "using": "dense",
            "filter": {"must": must},
            "limit": limit,
            "with_payload": ["text", "said_at"],
        }
        headers = {"Content-Type": "application/json"}
        if self.qdrant_api_key:
            headers["api-key"] = self.qdrant_api_key
        path = f"/collections/{quote(self.qdrant_collection, safe='')}/points/query"
        try:
            body = msgspec.json.encode(question)
        except TypeError as error:
            raise ValueError(f"the vector is not a list of numbers: {error}") from error
        answer = await self._post(name, self.qdrant_url, {"http": 6333, "https": 6333}, path, headers, body)
        if answer.status != 200:
            raise _qdrant_error(name, self, answer)
        try:
            return msgspec.json.decode(answer.body, type=_Hits).result.points
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreRefused(f"{name} does not answer as expected ({_short(str(error))}): check its URL") from error

    async def _post(
        self, name: str, url: str, ports: Mapping[str, int], path: str, headers: Mapping[str, str], body: bytes
    ) -> _Answer:
        """Send a request in a thread, and give up waiting for it when its time is over."""
        try:
            async with asyncio.timeout(self.timeout):
                return await asyncio.to_thread(_exchange, self, url, ports, path, headers, body)
        except (OSError, http.client.HTTPException) as error:  # TimeoutError is an OSError
            said = f"no answer within {self.timeout:g} s" if isinstance(error, TimeoutError) else _short(str(error))
            raise StoreUnavailable(
                f"{name} is not available ({said or type(error).__name__}): check that it runs, and its URL"
            ) from error


class Near(msgspec.Struct, frozen=True):
    """A point that is near: its payload and how near it is, 1 at the most."""

    id: str | int
    score: float
    payload: Gist


class Gist(msgspec.Struct, frozen=True):
    """A line of what was talked about."""

    text: str
    said_at: datetime


class _Points(msgspec.Struct, frozen=True):
    points: list[Near]


class _Hits(msgspec.Struct, frozen=True):
    result: _Points


@dataclass(frozen=True)
class _Answer:
    status: int
    code: str
    body: bytes


def _exchange(
    stores: Stores, url: str, ports: Mapping[str, int], path: str, headers: Mapping[str, str], body: bytes
) -> _Answer:
    """Send a request and return the answer; blocks."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or ports[parts.scheme]
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = stores.ssl_context or ssl.create_default_context()
        connection = http.client.HTTPSConnection(host, port, timeout=stores.timeout, context=context)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=stores.timeout)
    try:
        connection.request("POST", parts.path.rstrip("/") + path, body, dict(headers))
        response = connection.getresponse()
        code = response.headers.get("X-ClickHouse-Exception-Code", "")
        return _Answer(response.status, code, response.read())
    finally:
        connection.close()


def _clickhouse_error(name: str, stores: Stores, answer: _Answer) -> StoreUnavailable | StoreRefused:
    told = _short(answer.body.decode("utf-8", "replace"))
    if answer.code in _REFUSED_LOGIN or answer.status in {401, 403}:
        return StoreRefused(f"{name} refuses user {stores.clickhouse_user!r}: check clickhouse_user and its password")
    if answer.code in _UNKNOWN_DATABASE:
        return StoreRefused(
            f"{name} has no tables of the pipeline in database {stores.clickhouse_database!r}, or those of an older "
            "release: a worker makes them when it starts, and so does `profilestream migrate`"
        )
    if answer.status in _TRANSIENT and not answer.code:
        return StoreUnavailable(f"{name} answers with HTTP status {answer.status}: try again later")
    return StoreRefused(f"{name} answers with HTTP status {answer.status} ({told}): check its URL")


def _qdrant_error(name: str, stores: Stores, answer: _Answer) -> StoreUnavailable | StoreRefused:
    try:
        told = str(msgspec.json.decode(answer.body)["status"]["error"])
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        told = answer.body.decode("utf-8", "replace")
    said = f"{name} answers with HTTP status {answer.status} ({_short(told)})"
    if answer.status in {401, 403}:
        return StoreRefused(f"{name} refuses this client: check qdrant_api_key")
    if answer.status == 404:
        return StoreRefused(f"{said}: a worker makes collection {stores.qdrant_collection} when it starts")
    if answer.status in _TRANSIENT:
        return StoreUnavailable(f"{said}: try again later")
    return StoreRefused(f"{said}: check that the vector is of the model that {stores.qdrant_collection} is made with")


def _form(fields: Mapping[str, str], boundary: str) -> bytes:
    """Return fields as a form, whose length no server limits as it does that of a URL."""
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    return ("".join(parts) + f"--{boundary}--\r\n").encode("utf-8", "replace")


def _parameter(value: str | int | Sequence[str]) -> str:
    """Return a value as ClickHouse reads query parameters."""
    if isinstance(value, str):
        return value.translate(_ESCAPES)
    if isinstance(value, int):
        return str(value)
    return "[" + ",".join("'" + each.translate(_ESCAPES).replace("'", "\\'") + "'" for each in value) + "]"


def _shown(url: str) -> str:
    """Return a URL without what may be a password in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _QUOTED else text[: _QUOTED - 1] + "…"
