"""What the embedded services have in common: their command line, readiness line, stop signals and exit codes."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from aiohttp import web

from streams.embedded.child import end_with_parent

HOST: Final = "127.0.0.1"
_PARENT_CHECK: Final = 0.5  # seconds


class PathUnusable(Exception):
    """The data directory cannot be used; the message is one sentence that says why."""


class Engine(Protocol):
    """A database engine that owns a data directory."""

    def close(self) -> None:
        """Write everything to disk and give the directory up."""
        ...


def serve_command(
    service: str,
    description: str | None,
    open_engine: Callable[[Path], tuple[Engine, Callable[[], web.AppRunner]]],
    argv: Sequence[str] | None,
) -> int:
    """Run a service until it is told to stop; return the exit code.

    When it is ready it prints one line of JSON: ``{"service": ..., "port": N, "pid": P}``.

    Args:
        service: its name.
        description: for ``--help``.
        open_engine: opens a data directory and returns the engine, and what makes the web runner on top of it;
            raises `PathUnusable`.
        argv: command line without the program's name; None takes the process's.
    """
    parser = argparse.ArgumentParser(prog=f"python -m streams.embedded.{service}", description=description)
    parser.add_argument("--path", type=Path, required=True, help="data directory, created when missing")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0: a free one (default)")
    parser.add_argument(
        "--die-with-parent",
        type=int,
        nargs="?",
        const=os.getppid(),
        metavar="PID",
        help="stop when the process that started it ends; with its PID, also if it has ended already",
    )
    options = parser.parse_args(argv)
    parent: int | None = options.die_with_parent
    if parent is not None:
        end_with_parent()
    try:
        engine, runner = open_engine(options.path.resolve())
    except PathUnusable as error:
        print(f"{service}: {error}", file=sys.stderr)
        return 1
    try:
        asyncio.run(_serve(service, runner, options.port, parent))
    except OSError as error:
        print(f"{service}: cannot listen on {HOST}:{options.port}: {error.strerror}", file=sys.stderr)
        return 1
    finally:
        engine.close()
    return 0


async def _serve(service: str, make_runner: Callable[[], web.AppRunner], port: int, parent: int | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner = make_runner()
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
        bound = runner.addresses[0][1]
        print(json.dumps({"service": service, "port": bound, "pid": os.getpid()}), flush=True)
        await _until_stopped(stop, parent)
    finally:
        await runner.cleanup()


async def _until_stopped(stop: asyncio.Event, parent: int | None) -> None:
    """Wait for the signal, or for the parent's end: it may have come before the signal was asked for."""
    while not stop.is_set() and (parent is None or os.getppid() == parent):
        try:
            await asyncio.wait_for(stop.wait(), None if parent is None else _PARENT_CHECK)
        except TimeoutError:
            continue
