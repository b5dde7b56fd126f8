"""The jars of Apache Kafka, for the tests that want a real broker: fetched by Maven into a folder of the user's cache.

``python -m benchmarks.kafka_jars`` (``make kafka``) fetches what is missing. It needs Maven and Java, nothing else;
which registry is asked is a matter of Maven's own settings.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

VERSION: Final = "4.4.0"
"""Version of Apache Kafka."""

JAVA: Final = 17
"""Oldest Java that its broker runs on."""

_POM: Final = Path(__file__).with_name("kafka.pom.xml")

_GOAL: Final = "org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies"

_FETCH_LIMIT: Final = 900.0
"""Seconds that Maven may take."""


class KafkaMissing(Exception):
    """Apache Kafka cannot be fetched or run here; the message says in one sentence why and what to do."""


def jars_folder() -> Path:
    """Return the folder for the jars, whether it exists or not."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "profilestream" / f"kafka-{VERSION}"


def java_program() -> str:
    """Return the path of a Java that runs Kafka: that of ``JAVA_HOME``, else the first on the search path.

    Raises:
        KafkaMissing: when there is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the search path"
        raise KafkaMissing(f"Apache Kafka needs Java {JAVA} or newer, and there is none {where}")
    said = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < JAVA:
        has = version[1] if version else "of an unknown version"
        raise KafkaMissing(f"Apache Kafka needs Java {JAVA} or newer, and {found} is {has}")
    return found


def fetched() -> Path:
    """Return the folder of the jars.

    Raises:
        KafkaMissing: when they have not been fetched, or are others than are wanted now.
    """
    folder = jars_folder()
    if not _complete(folder):
        raise KafkaMissing(f"the jars of Apache Kafka {VERSION} are not in {folder}: run `make kafka`")
    return folder


def fetch() -> Path:
    """Fetch the jars unless they are there, and return their folder.

    It appears whole or not at all, also when several processes fetch at once.

    Raises:
        KafkaMissing: when Java or Maven is missing, or Maven fails.
    """
    java_program()
    folder = jars_folder()
    if _complete(folder):
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaMissing("Apache Kafka is fetched with Maven, and there is no mvn on the search path")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as temporary:
            staged = Path(temporary) / "jars"
            _run_maven(maven, staged)
            shutil.copyfile(_POM, staged / _POM.name)
            if folder.exists() and not _complete(folder):
                folder.rename(Path(temporary) / "outdated")
            if not folder.exists():
                staged.rename(folder)
    except OSError as error:
        if not _complete(folder):  # another process may have been faster
            raise KafkaMissing(f"the jars of Apache Kafka cannot be put into {folder}: {error}") from error
    return folder


def _complete(folder: Path) -> bool:
    """Whether the folder was filled from the list of jars as it is today."""
    try:
        return (folder / _POM.name).read_bytes() == _POM.read_bytes()
    except OSError:
        return False


def _run_maven(maven: str, into: Path) -> None:
    command = [maven, "--batch-mode", "--no-transfer-progress", "--file", str(_POM), _GOAL]
    options = [f"-Dkafka.version={VERSION}", f"-DoutputDirectory={into}", "-Dstyle.color=never"]
    try:
        done = subprocess.run(  # noqa: S603
            [*command, *options], capture_output=True, text=True, errors="replace", check=False, timeout=_FETCH_LIMIT
        )
    except subprocess.TimeoutExpired:
        raise KafkaMissing(f"Maven did not fetch Apache Kafka {VERSION} within {_FETCH_LIMIT:.0f} s") from None
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        reasons = [line for line in said if line.startswith("[ERROR]")] or said[-1:] or [f"exit {done.returncode}"]
        reason = reasons[0].removeprefix("[ERROR]").partition(" -> ")[0].strip()
        raise KafkaMissing(f"Maven could not fetch Apache Kafka {VERSION}: {reason}")


def main() -> int:
    """Run from the command line."""
    started = time.monotonic()
    try:
        folder = fetch()
    except KafkaMissing as error:
        print(error, file=sys.stderr)
        return 1
    size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    print(f"Apache Kafka {VERSION} is in {folder} ({size:.0f} MB, {time.monotonic() - started:.1f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
