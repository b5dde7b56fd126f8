"""The embedded Qdrant for tests: as a process that can be killed, and in this process with faults to commit."""

from __future__ import annotations

import asyncio
import json
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from aiohttp import web
from aiohttp.typedefs import Handler

from streams.embedded.qdrant_engine import Engine
from streams.embedded.qdrant_http import RestInterface

START_LIMIT = 20.0  # seconds
STOP_LIMIT = 15.0


class QdrantProcess:
    """The service as `profilestream up` starts it; a context manager that stops it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = ""
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "streams.embedded.qdrant", "--path", str(self.path), "--die-with-parent"],
            stdout=subprocess.PIPE,
            text=True,
        )
        ready, _, _ = select.select([self.process.stdout], [], [], START_LIMIT)
        assert ready, "the embedded Qdrant did not get ready"
        announced = json.loads(self.process.stdout.readline())
        assert announced == {"service": "qdrant", "port": announced["port"], "pid": self.process.pid}
        self.url = f"http://127.0.0.1:{announced['port']}"
        return self

    def end(self, number: int) -> int:
        """Send a signal, wait for the end and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(STOP_LIMIT)
        self.process.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end(signal.SIGTERM)


@dataclass(kw_only=True)
class Fault:
    """Something that goes wrong once with a request whose method and path contain `match`."""

    kind: Literal["status", "delay", "drop", "drop_after"]
    match: str
    status: int = 503
    seconds: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)


class Faults:
    """The faults still to come, and the requests seen so far."""

    def __init__(self) -> None:
        self.pending: list[Fault] = []
        self.seen: list[str] = []

    def add(self, **fault: object) -> None:
        self.pending.append(Fault(**fault))

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        called = f"{request.method} {request.path}"
        self.seen.append(called)
        fault = next((fault for fault in self.pending if fault.match in called), None)
        if fault is None:
            return await handler(request)
        self.pending.remove(fault)
        if fault.kind == "status":
            body = {"status": {"error": "scripted"}, "time": 0.0}
            return web.json_response(body, status=fault.status, headers=fault.headers)
        if fault.kind == "delay":
            await asyncio.sleep(fault.seconds)
            return await handler(request)
        response = await handler(request) if fault.kind == "drop_after" else web.Response()
        request.transport.abort()
        return response


@asynccontextmanager
async def faulty_qdrant(path: Path) -> AsyncIterator[tuple[str, Faults]]:
    """Serve a directory in this process; yield the URL and the faults."""
    engine = Engine(path)
    faults = Faults()
    runner = RestInterface(engine, [faults.middleware]).runner()
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", faults
    finally:
        await runner.cleanup()
        engine.close()
