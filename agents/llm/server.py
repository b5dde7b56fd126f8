"""`CompletionServer`: what is sent to an OpenAI-compatible server for a chat completion, and what comes back.

The OpenAI SDK says how a server is spoken to (addresses, headers, keys from the environment). The request itself goes
through aiohttp at once: of the processor time of a request the SDK's own way takes three quarters, which with
hundreds of calls in flight is more than everything else that a worker does (``docs/decisions/0010``).
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import certifi
import msgspec
import openai

from schemas.codec import encode
from streams.settings import without_credentials

_COMPLETIONS: Final = "chat/completions"
_KEPT: Final = 5.0
"""Seconds for which an idle connection is kept; servers close theirs after 5 at the earliest."""

_NO_KEY: Final = "none"
"""Servers without keys ignore it; the SDK insists on one."""

_TEXT_LIMIT: Final = 2_000
"""How much is kept of a refusal that is not in the form that the API defines."""


class Refused(Exception):
    """The server answered with an error.

    Attributes:
        status: HTTP status, 300 or more.
        message: the server's own words; where it redirects, the address.
        parameter: of the request that is to blame, empty when the server does not say.
        headers: of the answer.
    """

    def __init__(self, status: int, message: str, parameter: str, headers: Mapping[str, str]) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.parameter = parameter
        self.headers = headers


class CompletionServer:
    """Sends requests over connections that it keeps; to be used in one event loop.

    Args:
        base_url: of the API, without the path of the request.
        key: empty for a server that needs none.
    """

    def __init__(self, base_url: str, key: str) -> None:
        sdk = openai.AsyncOpenAI(api_key=key or _NO_KEY, base_url=base_url, max_retries=0)
        headers = {**sdk.default_headers, **sdk.auth_headers}
        self.url = f"{str(sdk.base_url).rstrip('/')}/{_COMPLETIONS}"
        self._headers = {name: value for name, value in headers.items() if isinstance(value, str)}
        self._sdk = sdk
        self._proxy = _proxy(self.url)
        self._session: aiohttp.ClientSession | None = None

    async def post(self, body: Mapping[str, Any]) -> bytes:
        """Send a request and return the body of the answer.

        Raises:
            Refused: the server answers with an error.
            aiohttp.ClientError: it cannot be reached, or the connection was lost.
        """
        # What users say goes to the server that is set, and to no other.
        sent = self._opened().post(self.url, data=encode(body), proxy=self._proxy, allow_redirects=False)
        async with sent as response:
            answer = await response.read()
            if response.status >= 300:
                message, parameter = _said(answer.decode("utf-8", "replace"))
                if location := response.headers.get("Location"):
                    message = f"to {without_credentials(location)}"
                raise Refused(response.status, message or response.reason or "", parameter, response.headers)
            return answer

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers=self._headers,
                # How many requests are in flight is limited by whoever sends them.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT, ssl=_certificates()),
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        await self._sdk.close()


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a URL; aiohttp by itself would look for it at every request."""
    address = urlsplit(url)
    if proxy_bypass(address.hostname or ""):
        return None
    proxies = getproxies()
    return proxies.get(address.scheme) or proxies.get("all")


def _certificates() -> ssl.SSLContext:
    """Return what servers are known by: the system's authorities, and those of certifi where it has none."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def _said(text: str) -> tuple[str, str]:
    """Return a refusal's message and the parameter that it blames."""
    try:
        answer = msgspec.json.decode(text)
    except msgspec.DecodeError:
        answer = None
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return error["message"], str(error.get("param") or "")
    return (error if isinstance(error, str) else text)[:_TEXT_LIMIT], ""
