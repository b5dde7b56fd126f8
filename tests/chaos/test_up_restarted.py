"""`profilestream up` is stopped and started: the same profiles, the same versions, and the next one follows."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from benchmarks.harness import command, environment
from tests.integration.pipeline_support import FAST, eventually, said, write_chat

pytestmark = pytest.mark.timeout(240)


@asynccontextmanager
async def running_up(folder: Path, env: dict[str, str]) -> AsyncIterator[None]:
    log = (folder / "up.log").open("ab")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "streams.cli", "up", "--json", "--data-dir", str(folder / "data"),
        env=env, stdout=asyncio.subprocess.PIPE, stderr=log,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(90):
            line = await process.stdout.readline()
        assert json.loads(line).keys() == {"kafka", "clickhouse", "qdrant", "processor"}, (
            folder / "up.log"
        ).read_text()
        yield
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(90):
            assert await process.wait() == 0, (folder / "up.log").read_text()
    finally:
        log.close()
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_profiles_survive_and_versions_go_on(tmp_path: Path) -> None:
    env = {**environment(FAST), "XDG_STATE_HOME": str(tmp_path / "state")}
    env.pop("OPENAI_API_KEY", None)
    first = write_chat(tmp_path / "first.jsonl", said("ada", "My name is Ada.", "I live in Lyon.", "I like tea."))
    async with running_up(tmp_path, env):
        # Not flushed: the window is closed by the stop.
        await command("publish", str(first), env=env)
    async with running_up(tmp_path, env):
        before = json.loads(await command("profile", "ada", "--json", env=env))
        assert before["version"] == 3
        assert {slot["value"] for slot in before["slots"]} == {"Ada", "Lyon", "tea"}
        second = write_chat(tmp_path / "second.jsonl", said("ada", "I live in Oslo.", "I like tea."))
        await command("publish", "--flush", str(second), env=env)

        async def moved() -> bool:
            return json.loads(await command("profile", "ada", "--json", env=env))["version"] == 5

        await eventually(moved)
        history = [json.loads(line) for line in (await command("history", "ada", "--json", env=env)).splitlines()]
    assert [delta["version"] for delta in history] == [1, 2, 3, 4, 5]
    after = {delta["op"]: delta for delta in history[3:]}
    assert (after["update"]["before"], after["update"]["after"]) == ("Lyon", "Oslo")
    assert (after["confirm"]["before"], after["confirm"]["after"]) == ("tea", "tea")
