"""`Child`: a service process of ours: started in its own session, stopped by its process number, ends when we do."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import random
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

START_LIMIT: Final = 30.0
"""Seconds that a service may take until it is ready."""

STOP_LIMIT: Final = 15.0
"""Seconds that it may take to end after SIGTERM, before it is killed."""

_PORTS: Final = range(20_000, 32_768)
"""Below those that Linux, macOS and Windows give to outgoing connections unless told otherwise."""

_TRIES: Final = 100

_PR_SET_PDEATHSIG: Final = 1


class ServiceFailed(Exception):
    """An embedded service did not start; the message says which, why and where its log is."""


def free_port() -> int:
    """Return a port on 127.0.0.1 that was free a moment ago, and that no outgoing connection is given.

    A service takes its port seconds later, and once more when it starts again. One of the ports that the system gives
    out may be a client's by then; a client that tries to reach it in vain may even be connected with itself.
    """
    for port in random.sample(_PORTS, _TRIES):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        given: int = listener.getsockname()[1]
        return given


async def listens(address: str) -> bool:
    """Whether something accepts connections at ``host:port``."""
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.close()
    return True


def end_with_parent() -> None:
    """Called in a child: have Linux send it SIGTERM when the thread that started it ends; elsewhere nothing happens."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


class Child:
    """One service process.

    It runs in a session of its own, so that Ctrl-C in a terminal reaches only the program that started it, which can
    then stop its services in order. It must be started from the main thread: it ends with the thread that starts it.

    Args:
        name: for messages and the log file.
        log_dir: folder of the log file, which gets what the service writes to stderr.
    """

    def __init__(self, name: str, log_dir: Path) -> None:
        self.name = name
        self._log = log_dir / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Its process number."""
        if self._process is None:
            raise RuntimeError(f"{self.name} has not been started")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.returncode is None

    async def start(
        self, command: Sequence[str], *, ready: Callable[[], Awaitable[bool]] | None = None
    ) -> dict[str, Any]:
        """Start it and wait until it is ready.

        Args:
            command: program and arguments.
            ready: asked repeatedly; without it the service prints one line of JSON when it is ready.

        Returns:
            That line, decoded; an empty dictionary when `ready` is given.

        Raises:
            ServiceFailed: when it ends or is not ready in time; it is stopped then.
        """
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log if ready else asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        try:
            async with asyncio.timeout(START_LIMIT):
                return await (self._until(ready) if ready else self._first_line())
        except TimeoutError:
            await self.stop()
            raise self._failed(f"was not ready within {START_LIMIT:.0f} s") from None
        except BaseException:
            await self.stop()
            raise

    async def _first_line(self) -> dict[str, Any]:
        if self._process is None or self._process.stdout is None:
            raise RuntimeError(f"{self.name} has no output to read")
        line = await self._process.stdout.readline()
        if not line:
            await self._process.wait()
            raise self._failed("ended at once")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def _until(self, ready: Callable[[], Awaitable[bool]]) -> dict[str, Any]:
        while not await ready():
            if not self.alive:
                raise self._failed("ended at once")
            await asyncio.sleep(0.05)
        return {}

    def _failed(self, what: str) -> ServiceFailed:
        try:
            last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
        except OSError:
            last = []
        said = f": {last[0]}" if last else ""
        return ServiceFailed(f"the embedded {self.name} {what}{said} (log: {self._log})")

    async def wait(self) -> int:
        """Wait until it ends and return its exit code."""
        if self._process is None:
            raise RuntimeError(f"{self.name} has not been started")
        return await self._process.wait()

    async def stop(self) -> None:
        """End it: SIGTERM, and SIGKILL when that is not enough."""
        if self._process is None or self._process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_LIMIT):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            await self._process.wait()
