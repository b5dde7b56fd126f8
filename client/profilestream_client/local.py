"""Where a `profilestream up` on this machine says that its services are."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from profilestream_client.connection import Connection
from profilestream_client.errors import KafkaUnavailable
from profilestream_client.stores import Stores

_FILE: Final = "services.json"
_VARIABLE: Final = "PROFILESTREAM_DATA_DIR"


class _Announcement(msgspec.Struct, frozen=True):
    pid: int
    started_at: datetime
    settings: dict[str, dict[str, str | int | float | bool]]


def find_local(data_dir: str | os.PathLike[str] | None = None) -> tuple[Connection, Stores]:
    """Return how to connect with the services of a running `profilestream up`, as its other commands do.

    Args:
        data_dir: its data directory; by default that of the variable ``PROFILESTREAM_DATA_DIR``, or of any `up` that
            this user runs, the one started last.

    Raises:
        KafkaUnavailable: when there is none.
    """
    named = data_dir if data_dir is not None else os.environ.get(_VARIABLE)
    files = [Path(named).expanduser() / _FILE] if named else list(_files())
    running = [found for file in files if (found := _read(file)) is not None]
    if not running:
        where = f" with its data in {named}" if named else ""
        raise KafkaUnavailable(
            f"no `profilestream up` of this user is running{where}: start it, or say where Kafka is with "
            "Client('HOST:PORT')"
        )
    settings = max(running, key=lambda one: one.started_at).settings
    kafka, clickhouse, qdrant = (settings.get(name, {}) for name in ("kafka", "clickhouse", "qdrant"))
    connection = Connection(
        bootstrap_servers=str(kafka.get("bootstrap_servers", "")),
        idempotent=not kafka.get("single_record_batches", False),
    )
    return connection, Stores(clickhouse_url=str(clickhouse.get("url", "")), qdrant_url=str(qdrant.get("url", "")))


def _files() -> Iterator[Path]:
    yield _folder("XDG_DATA_HOME", ".local/share") / _FILE
    with contextlib.suppress(OSError):
        for pointer in (_folder("XDG_STATE_HOME", ".local/state") / "running").iterdir():
            yield Path(os.fsdecode(pointer.read_bytes()))


def _folder(variable: str, otherwise: str) -> Path:
    base = os.environ.get(variable)
    return (Path(base) if base else Path.home() / otherwise) / "profilestream"


def _read(file: Path) -> _Announcement | None:
    """Return what a file announces, if the process that wrote it runs."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=_Announcement)
        os.kill(found.pid, 0)
    except (OSError, OverflowError, msgspec.DecodeError):
        return None
    return found
