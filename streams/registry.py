"""What a running ``profilestream up`` announces, so that commands in another terminal need no settings.

An announcement is a file ``services.json`` in the data directory of that ``up``, readable only by its user, and
a pointer to it in the user's state directory. It counts while the process that made it runs: one that was
killed, or whose number has been given to another process, is ignored.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

FILE_NAME: Final = "services.json"
_STATE_OF_PROCESS: Final = 0
_START_OF_PROCESS: Final = 19
"""Fields of ``/proc/PID/stat``, counted after the command's name."""

logger = logging.getLogger(__name__)

SettingValue = str | int | float | bool


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """A running ``profilestream up``.

    Attributes:
        pid: its process.
        process_started: when that process started, in the kernel's own unit; null where the system does not say.
        started_at: when the services were ready.
        processes: process numbers of its services, by name.
        settings: what another process needs to use them, nested like the settings.
        processor: what its worker reads conversations with: ``rules``, or the name of a model; empty where an older
            release announced it.
        metrics: where its worker's metrics are; empty where they are off.
    """

    pid: int
    process_started: int | None
    started_at: datetime
    processes: dict[str, int]
    settings: dict[str, dict[str, SettingValue]]
    processor: str = ""
    metrics: str = ""


def default_data_dir() -> Path:
    """Return the folder for embedded state: ``PROFILESTREAM_DATA_DIR``, or the usual place for a user's data."""
    if named := os.environ.get("PROFILESTREAM_DATA_DIR"):
        return Path(named).expanduser()
    return _user_dir("XDG_DATA_HOME", ".local/share")


def announce(
    data_dir: Path,
    settings: Mapping[str, Mapping[str, SettingValue]],
    processes: Mapping[str, int] | None = None,
    *,
    processor: str = "",
    metrics: str = "",
) -> Announcement:
    """Announce this process's services; call it once they answer.

    Args:
        data_dir: existing folder that this ``up`` owns.
        settings: for other processes, nested like the settings: ``{"kafka": {"bootstrap_servers": ...}}``.
        processes: process numbers of the services, by name.
        processor: what the worker reads conversations with.
        metrics: where its metrics are; empty: nowhere.

    Raises:
        OSError: when the data directory cannot be written. A state directory that cannot be written only means
            that the other commands need ``--data-dir``; that is logged.
    """
    announcement = Announcement(
        pid=os.getpid(),
        process_started=process_started(os.getpid()),
        started_at=datetime.now(UTC),
        processes=dict(processes or {}),
        settings={group: dict(values) for group, values in settings.items()},
        processor=processor,
        metrics=metrics,
    )
    file = data_dir.absolute() / FILE_NAME
    _write(file, msgspec.json.encode(announcement))
    try:
        pointers = _pointer_dir()
        pointers.mkdir(parents=True, exist_ok=True)
        _write(pointers / str(announcement.pid), os.fsencode(file))
    except OSError as error:
        logger.warning("commands in other terminals need --data-dir %s: %s", data_dir, error)
    return announcement


def withdraw(data_dir: Path) -> None:
    """Take back this process's announcement; one of another process is left alone."""
    file = data_dir.absolute() / FILE_NAME
    found = _read(file)
    if found is not None and found.pid == os.getpid():
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        (_pointer_dir() / str(os.getpid())).unlink(missing_ok=True)


def find(data_dir: Path | None = None) -> Announcement | None:
    """Return the announcement of a running ``up``, or None.

    Args:
        data_dir: only the one that owns this folder; by default the one of ``PROFILESTREAM_DATA_DIR`` where that
            is set, otherwise the one that this user started last.
    """
    if data_dir is None and os.environ.get("PROFILESTREAM_DATA_DIR"):
        data_dir = default_data_dir()
    if data_dir is not None:
        return _running(data_dir / FILE_NAME)
    return next((found for found, _ in _all_running()), None)


def running_folders() -> list[Path]:
    """Return the data directories of every ``up`` that this user runs, the one started last first."""
    return [file.parent for _, file in _all_running()]


def _all_running() -> list[tuple[Announcement, Path]]:
    files = {default_data_dir() / FILE_NAME}
    with contextlib.suppress(OSError):
        for pointer in _pointer_dir().iterdir():
            file = Path(os.fsdecode(pointer.read_bytes()))
            if _running(file):
                files.add(file)
            else:
                pointer.unlink(missing_ok=True)
    running = [(found, file) for file in files if (found := _running(file))]
    return sorted(running, key=lambda each: each[0].started_at, reverse=True)


def process_started(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the system did; None where that cannot be read.

    Together with its number this identifies a process, because numbers are given again.
    """
    fields = _stat(pid)
    return int(fields[_START_OF_PROCESS]) if fields else None


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()  # the command's name may hold anything, so count from behind it


def _running(file: Path) -> Announcement | None:
    found = _read(file)
    return found if found is not None and _is_alive(found) else None


def _is_alive(found: Announcement) -> bool:
    try:
        os.kill(found.pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return False  # a process of another user is not the one that wrote this user's file
    fields = _stat(found.pid)
    if fields is None or found.process_started is None:
        return True
    return fields[_STATE_OF_PROCESS] not in "ZX" and int(fields[_START_OF_PROCESS]) == found.process_started


def _read(file: Path) -> Announcement | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Announcement)
    except (OSError, msgspec.DecodeError):
        return None


def _write(file: Path, data: bytes) -> None:
    """Write a file that only its user may read, so that readers see all of it or the one before."""
    descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
    try:
        with open(descriptor, "wb") as stream:
            stream.write(data)
        Path(temporary).replace(file)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _pointer_dir() -> Path:
    return _user_dir("XDG_STATE_HOME", ".local/state") / "running"


def _user_dir(variable: str, fallback: str) -> Path:
    base = os.environ.get(variable)
    return (Path(base) if base else Path.home() / fallback) / "profilestream"
