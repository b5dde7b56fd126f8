"""The embedded Qdrant: a process that answers Qdrant's REST interface on 127.0.0.1, on top of Qdrant Edge.

``python -m streams.embedded.qdrant --path DIR --port N`` owns DIR while it runs. When it is ready it prints one
line of JSON, ``{"service": "qdrant", "port": N, "pid": P}``; SIGTERM and SIGINT flush everything to disk and
stop it. What it has acknowledged survives the death of the process at any moment.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aiohttp import web

from streams.embedded.qdrant_engine import Engine, PathUnusable
from streams.embedded.qdrant_http import RestInterface

HOST: Final = "127.0.0.1"
_PR_SET_PDEATHSIG: Final = 1
_PARENT_CHECK: Final = 0.5  # seconds


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service until it is told to stop; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m streams.embedded.qdrant", description=__doc__)
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
        _ask_for_signal_on_parents_death()
    try:
        engine = Engine(options.path.resolve())
    except PathUnusable as error:
        print(f"qdrant: {error}", file=sys.stderr)
        return 1
    try:
        asyncio.run(_serve(engine, options.port, parent))
    except OSError as error:
        print(f"qdrant: cannot listen on {HOST}:{options.port}: {error.strerror}", file=sys.stderr)
        return 1
    finally:
        engine.close()
    return 0


async def _serve(engine: Engine, port: int, parent: int | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner = RestInterface(engine).runner()
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, port).start()
        bound = runner.addresses[0][1]
        print(json.dumps({"service": "qdrant", "port": bound, "pid": os.getpid()}), flush=True)
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


def _ask_for_signal_on_parents_death() -> None:
    """Have Linux send SIGTERM when the thread that started this process ends; elsewhere the check has to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
