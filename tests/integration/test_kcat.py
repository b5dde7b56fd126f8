"""The README's commands with kcat, as they stand there, but for the broker's address and the topics' prefix."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from benchmarks.harness import WorkerProcess, command, environment
from schemas.codec import decode
from schemas.deltas import ProfileDelta
from streams.embedded.services import EmbeddedServices
from tests.integration.pipeline_support import FAST, eventually
from tests.readme.blocks import commands
from tests.support.brokers import KafkaSettingsByName

OLDEST_ON_EMBEDDED: Final = (2, 2, 0)
"""Older librdkafkas misread the embedded broker's answer about its versions."""

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(180),
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed (Debian: apt install kcat)"),
    pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed (Debian: apt install jq)"),
]


def librdkafka() -> tuple[int, ...]:
    """Return the version of the library that kcat uses."""
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True, timeout=10).stdout
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", said)
    assert found, said
    return tuple(int(part) for part in found.groups())


@dataclass(frozen=True)
class Here:
    """A running worker and the README's commands for its broker.

    Attributes:
        all_changes, following, headers, writing: the commands.
        env: environment of commands.
    """

    all_changes: str
    following: str
    headers: str
    writing: str
    env: Mapping[str, str]

    async def run(self, text: str) -> str:
        """Run a command in a shell, every part of whose pipes must succeed, and return what it prints."""
        process = await asyncio.create_subprocess_exec(
            *("bash", "-o", "pipefail", "-c", text), env=dict(self.env), stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(30):
            out, _ = await process.communicate()
        assert process.returncode == 0, text
        return out.decode()


@asynccontextmanager
async def worker_and_commands(folder: Path, kafka: KafkaSettingsByName | None) -> AsyncIterator[Here]:
    """Run a worker on this broker, or on the embedded one."""
    async with EmbeddedServices(folder / "services", kafka) as services:
        used = services.settings["kafka"]
        address, prefix = str(used["bootstrap_servers"]), str(used.get("topic_prefix", ""))
        texts = [
            one.text.replace("localhost:9092", address).replace("-t ", f"-t {prefix}")
            for one in commands()
            if "kcat " in one.text
        ]
        all_changes, following, headers, writing = texts
        env = environment(services.settings, FAST)
        async with WorkerProcess(env, folder / "worker.log") as worker:
            yield Here(all_changes, following, headers, writing, env)
            assert await worker.stop() == 0


async def the_commands_do_what_they_say(here: Here) -> None:
    async def say() -> None:
        await here.run(here.writing)
        await command("flush", "anna", "--wait", env=here.env)

    await say()
    lines = (await here.run(here.all_changes)).splitlines()
    assert lines
    for line in lines:
        key, _, value = line.partition(" ")
        assert key == "default:anna"
        assert decode(value.encode(), ProfileDelta).user_id == "anna"
    assert "Lyon" in "".join(lines)

    with_headers = (await here.run(here.headers)).splitlines()
    assert len(with_headers) == len(lines)
    for line in with_headers:
        headers = dict(header.split("=", 1) for header in line.split(","))
        assert headers["ce_specversion"] == "1.0"
        assert headers["ce_subject"] == "default:anna"

    # A message that comes again is a change each time, so that one comes after kcat has found the topic's end.
    with terminal(here) as printed:

        async def followed() -> bool:
            await say()
            return "\n" in printed()

        await eventually(followed)
        assert re.match(r"\d+ confirm .*Lyon", printed())


@contextmanager
def terminal(here: Here) -> Iterator[Callable[[], str]]:
    """Run the command that follows in a terminal, into which jq writes at once; give what returns all that it wrote."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    process = subprocess.Popen(
        ["bash", "-c", here.following],
        env=dict(here.env),
        stdout=theirs,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    os.close(theirs)
    printed = bytearray()

    def read() -> str:
        assert process.poll() is None, process.communicate()[1].decode()
        with suppress(BlockingIOError):
            while part := os.read(ours, 65536):
                printed.extend(part)
        return printed.decode()

    try:
        yield read
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        os.close(ours)


async def test_on_apache_kafka(on_apache_kafka: KafkaSettingsByName, tmp_path: Path) -> None:
    async with worker_and_commands(tmp_path, on_apache_kafka) as here:
        await the_commands_do_what_they_say(here)


async def test_on_the_embedded_broker(tmp_path: Path) -> None:
    if (version := librdkafka()) < OLDEST_ON_EMBEDDED:
        wanted = ".".join(map(str, OLDEST_ON_EMBEDDED))
        pytest.skip(f"kcat uses librdkafka {'.'.join(map(str, version))}; the embedded broker needs {wanted} or newer")
    async with worker_and_commands(tmp_path, None) as here:
        await the_commands_do_what_they_say(here)
