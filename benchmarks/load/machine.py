"""Where a figure was measured: machine, versions and commit."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final

import msgspec

_PACKAGES: Final = ("profilestream", "faust-streaming", "aiokafka", "clickhouse-connect", "chdb-core", "qdrant-client")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where and when something was measured.

    Attributes:
        cores: that this process may use.
        memory_gib: of the machine; 0 where it does not say.
        load: mean number of processes that wanted a processor during the minute before.
        nice: by how much this process gives way to others.
        commit: of the working tree, with ``+`` where files differ from it; empty outside of one.
    """

    at: datetime
    processor: str
    cores: int
    memory_gib: float
    system: str
    python: str
    versions: dict[str, str]
    commit: str
    load: float
    nice: int = 0

    def __str__(self) -> str:
        commit = f", commit {self.commit}" if self.commit else ""
        nice = f", nice {self.nice}" if self.nice else ""
        return (
            f"{self.cores} cores ({self.processor}), {self.memory_gib:.0f} GiB, {self.system}, Python {self.python}, "
            f"profilestream {self.versions.get('profilestream', '?')}{commit}, {self.at:%Y-%m-%d %H:%M} UTC, "
            f"load before {self.load:.1f}{nice}"
        )


def this_machine() -> Machine:
    """Describe this machine now."""
    return Machine(
        at=datetime.now(UTC).replace(microsecond=0),
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_gib=_memory(),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        versions={name: version for name in _PACKAGES if (version := _version(name))},
        commit=_commit(),
        load=os.getloadavg()[0],
        nice=os.nice(0),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _memory() -> float:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (OSError, ValueError):
        return 0.0


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _commit() -> str:
    folder = Path(__file__).parent
    try:
        said = subprocess.run(
            ("git", "describe", "--always", "--dirty=+", "--exclude=*"),  # noqa: S607
            cwd=folder, capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""
