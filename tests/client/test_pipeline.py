"""The example of the client's README, as a program of its own beside a worker."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from benchmarks.harness import WorkerProcess, environment
from streams.embedded.services import EmbeddedServices
from streams.settings import KafkaSettings
from streams.topics import ensure_topics
from tests.client.conftest import CLIENT
from tests.client.support import connection_to
from tests.integration.pipeline_support import FAST, settings_of

pytestmark = pytest.mark.timeout(180)


def example(kafka: KafkaSettings) -> str:
    """Return the first program of the README, for these settings instead of the address it names."""
    program = re.search(r"```python\n(.+?)```", (CLIENT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert program is not None
    connection = connection_to(kafka)
    text, replaced = re.subn(re.escape("Client.local()"), lambda _: f"Client({connection!r})", program[1])
    assert replaced == 1
    return text.replace("import ChatMessage", "import Connection, ChatMessage")


async def test_the_example_prints_what_was_said(tmp_path: Path) -> None:
    async with EmbeddedServices(tmp_path / "services") as services:
        kafka = settings_of(services.settings, FAST).kafka
        await ensure_topics(kafka)
        async with WorkerProcess(environment(services.settings, FAST), tmp_path / "worker.log"):
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-c", example(kafka)),
                env={"PYTHONPATH": str(CLIENT), "PATH": ""},
                cwd=tmp_path,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            async with asyncio.timeout(90):
                printed, complaints = await process.communicate()
    assert (process.returncode, complaints) == (0, b"")
    assert printed.decode() == "1 add location  None -> User lives in Lyon\n"
