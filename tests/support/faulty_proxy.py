"""`FaultyProxy`: stands between the program and an HTTP service, and does to requests what networks do."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import repeat
from typing import Literal, Self

import aiohttp
from aiohttp import web

Fault = Literal["none", "cut_request", "cut_answer", "hold_answer"]

_OF_ONE_CONNECTION = {"connection", "host", "keep-alive", "transfer-encoding", "content-length"}


class FaultyProxy:
    """Passes requests on to a service, as an asynchronous context manager.

    Each request suffers the next of `faults`: ``cut_request``: half of its body is passed on, then both connections
    break; ``cut_answer``: the service has done it, and the connection breaks; ``hold_answer``: likewise, but the answer
    comes `held` seconds later; ``none``.

    Args:
        target: URL of the service.
        held: seconds for which answers are held.

    Attributes:
        faults: of the coming requests; none at first.
        happened: how many requests suffered what.
    """

    def __init__(self, target: str, held: float) -> None:
        self.faults: Iterator[Fault] = repeat("none")
        self.happened: Counter[Fault] = Counter()
        self._target = target
        self._held = held
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Where the program finds it."""
        assert self._runner is not None
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(auto_decompress=False)
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(app, access_log=None, auto_decompress=False, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _pass_on(self, request: web.Request) -> web.Response:
        assert self._session is not None
        body = await request.read()
        fault = next(self.faults)
        self.happened[fault] += 1
        if fault == "cut_request":
            await self._half(request, body)
            return self._broken(request)
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _OF_ONE_CONNECTION]
        async with self._session.request(
            request.method, self._target + request.raw_path, data=body, headers=headers
        ) as answer:
            passed = web.Response(
                status=answer.status,
                body=await answer.read(),
                headers=[(n, v) for n, v in answer.headers.items() if n.lower() not in _OF_ONE_CONNECTION],
            )
        if fault == "cut_answer":
            return self._broken(request)
        if fault == "hold_answer":
            await asyncio.sleep(self._held)
        return passed

    async def _half(self, request: web.Request, body: bytes) -> None:
        _, _, address = self._target.partition("//")
        host, _, port = address.partition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        lines = [f"{request.method} {request.raw_path} HTTP/1.1", f"Host: {address}", f"Content-Length: {len(body)}"]
        lines += [f"{n}: {v}" for n, v in request.headers.items() if n.lower() not in _OF_ONE_CONNECTION]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body[: len(body) // 2])
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    def _broken(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()
