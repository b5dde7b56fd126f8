"""The embedded Qdrant: a process that answers Qdrant's REST interface on 127.0.0.1, on top of Qdrant Edge.

``python -m streams.embedded.qdrant --path DIR --port N`` owns DIR while it runs. When it is ready it prints one
line of JSON, ``{"service": "qdrant", "port": N, "pid": P}``; SIGTERM and SIGINT flush everything to disk and
stop it. What it has acknowledged survives the death of the process at any moment.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from aiohttp import web

from streams.embedded.qdrant_engine import Engine
from streams.embedded.qdrant_http import RestInterface
from streams.embedded.serving import serve_command


def main(argv: Sequence[str] | None = None) -> int:
    """Run the service until it is told to stop; return the exit code."""
    return serve_command("qdrant", __doc__, _open, argv)


def _open(path: Path) -> tuple[Engine, Callable[[], web.AppRunner]]:
    engine = Engine(path)
    return engine, RestInterface(engine).runner


if __name__ == "__main__":
    sys.exit(main())
