"""`profilestream up` is stopped and started: the same profiles, the same versions, and the next one follows.

Dead letters, and what was decided about them, are there again too; so is what waited for a model that did not answer.
"""

from __future__ import annotations

import asyncio
import base64
import json
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness import Overrides, command, environment
from benchmarks.model_server import ModelServer, Reply, Request
from benchmarks.scripted_answers import ScriptedModel
from schemas.codec import encode
from schemas.messages import user_key
from schemas.pipeline import PipelineConfig
from streams.kafka import producer
from streams.registry import find
from streams.settings import KafkaSettings
from streams.topics import Topics
from tests.integration.dead_letter_support import deadletters
from tests.integration.pipeline_support import FAST, eventually, said, write_chat

pytestmark = pytest.mark.timeout(900)

IMPATIENT = """
import sys
from streams import running
from streams.cli.__main__ import main
running._PATIENCE = float(sys.argv.pop(1))
running._SAY_AGAIN = 0.5
main()
"""
"""Runs the program with another limit of a drain that stands still."""


@asynccontextmanager
async def running_up(
    folder: Path, env: dict[str, str], *, killed: bool = False, patience: float | None = None
) -> AsyncIterator[None]:
    """Run it until the block ends, then stop it in order, or kill it; `patience`: of a drain that stands still."""
    log = (folder / "up.log").open("ab")
    program = ["-m", "streams.cli"] if patience is None else ["-c", IMPATIENT, str(patience)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *program, "up", "--json", "--data-dir", str(folder / "data"),
        env=env, stdout=asyncio.subprocess.PIPE, stderr=log,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(180):
            line = await process.stdout.readline()
        assert json.loads(line).keys() == {"kafka", "clickhouse", "qdrant", "processor", "metrics"}, (
            folder / "up.log"
        ).read_text()
        yield
        if killed:
            return
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(180):
            assert await process.wait() == 0, (folder / "up.log").read_text()
    finally:
        log.close()
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    env = {**environment(FAST), "XDG_STATE_HOME": str(tmp_path / "state")}
    env.pop("OPENAI_API_KEY", None)
    return env


async def park_rubbish(folder: Path, env: dict[str, str], *users: str) -> dict[str, str]:
    """Publish of each user what cannot be read; returns the ids of their letters, once they are all there."""
    announced = find(folder / "data")
    assert announced is not None
    kafka = KafkaSettings.model_validate(announced.settings["kafka"])
    async with producer(kafka) as client:
        for user in users:
            await client.send_and_wait(
                Topics.of(kafka).messages, encode({"user_id": user, "role": "pope"}), key=user_key("default", user)
            )
    found: dict[str, str] = {}

    async def parked() -> bool:
        found.update({one["user_id"]: one["id"] for one in await deadletters(env, "list")})
        return found.keys() >= set(users)

    await eventually(parked)
    return {user: found[user] for user in users}


async def states(env: dict[str, str]) -> dict[str, tuple[str, str | None]]:
    """Return what became of each letter, and why."""
    return {one["id"]: (one["state"], one["resolved_because"]) for one in await deadletters(env, "list", "--all")}


@pytest.mark.long
async def test_dead_letters_and_decisions_survive_an_orderly_stop(tmp_path: Path, env: dict[str, str]) -> None:
    async with running_up(tmp_path, env):
        ids = await park_rubbish(tmp_path, env, "ada", "bea", "cleo", "dora")
        await deadletters(env, "discard", ids["bea"], "--reason", "a test")
        await command("forget", "cleo", "--yes", env=env)
        (shown,) = await deadletters(env, "show", ids["ada"])
    left = {ids["ada"]: ("open", None), ids["bea"]: ("discarded", "a test"), ids["dora"]: ("open", None)}
    assert "Open dead letters: 2. They are kept" in " ".join((tmp_path / "up.log").read_text().split())
    file = tmp_path / "data" / "dead-letters.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert ids["ada"].encode() not in file.read_bytes()  # it is derived, not written
    assert base64.b64encode(user_key("default", "cleo")) not in file.read_bytes()

    async with running_up(tmp_path, env):
        assert await states(env) == left
        (again,) = await deadletters(env, "show", ids["ada"])
        assert again == shown
        # What is sent again comes onto a new log, fails again, and that is a letter of its own.
        (sent,) = await deadletters(env, "redrive", ids["ada"])
        assert sent["sent"]
        left[ids["ada"]] = ("redriven", "sent again")

        async def failed_again() -> bool:
            return len(await states(env)) == 4

        await eventually(failed_again)
        left |= {id_: state for id_, state in (await states(env)).items() if id_ not in left}
    assert sorted(left.values()) == [
        ("discarded", "a test"),
        ("open", None),
        ("open", None),
        ("redriven", "sent again"),
    ]

    async with running_up(tmp_path, env, killed=True):
        assert await states(env) == left
        ids |= await park_rubbish(tmp_path, env, "eva")
        await command("forget", "dora", "--yes", env=env)

        async def kept() -> bool:
            held = file.read_bytes()
            eva, dora = (base64.b64encode(user_key("default", user)) for user in ("eva", "dora"))
            return eva in held and dora not in held

        await eventually(kept)
    del left[ids["dora"]]
    async with running_up(tmp_path, env):
        assert await states(env) == {**left, ids["eva"]: ("open", None)}


async def test_profiles_survive_and_versions_go_on(tmp_path: Path, env: dict[str, str]) -> None:
    first = write_chat(tmp_path / "first.jsonl", said("ada", "My name is Ada.", "I live in Lyon.", "I like tea."))
    async with running_up(tmp_path, env):
        # Not flushed: the window is closed by the stop.
        await command("publish", str(first), env=env)
    async with running_up(tmp_path, env):
        before = json.loads(await command("profile", "ada", "--json", env=env))
        assert before["version"] == 6
        assert {slot["value"] for slot in before["slots"]} == {"Ada", "Lyon", "tea"}
        assert before["facts_count"] == 2
        assert before["preferences_count"] == 1
        second = write_chat(tmp_path / "second.jsonl", said("ada", "I live in Oslo.", "I like tea."))
        await command("publish", "--flush", str(second), env=env)

        async def moved() -> bool:
            return json.loads(await command("profile", "ada", "--json", env=env))["version"] == 10

        await eventually(moved)
        history = [json.loads(line) for line in (await command("history", "ada", "--json", env=env)).splitlines()]
    assert [delta["version"] for delta in history] == list(range(1, 11))
    after = {(delta["kind"], delta["op"]): delta for delta in history[6:]}
    assert (after["slot", "update"]["before"], after["slot", "update"]["after"]) == ("Lyon", "Oslo")
    assert (after["slot", "confirm"]["before"], after["slot", "confirm"]["after"]) == ("tea", "tea")
    assert (after["fact", "update"]["before"], after["fact", "update"]["after"]) == (
        "User lives in Lyon",
        "User lives in Oslo",
    )
    assert (after["preference", "confirm"]["after"], after["preference", "confirm"]["update_hits"]) == ("Likes tea", 2)


@pytest.mark.long
async def test_what_waits_for_a_model_at_the_stop_is_redriven_after_it(tmp_path: Path, env: dict[str, str]) -> None:
    model = ScriptedModel(PipelineConfig())
    away = True

    async def script(request: Request) -> Reply | dict[str, Any]:
        return Reply(status=503) if away else await model(request)

    async with ModelServer(script) as server:
        of_model: Overrides = {
            "model": {"processor": "llm", "base_url": server.url, "api_key": "k", "name": "scripted", "timeout": 3}
        }
        env |= environment(of_model)
        chat = write_chat(tmp_path / "chat.jsonl", said("ada", "My name is Ada. I live in Lyon."))
        async with running_up(tmp_path, env, patience=3):
            await command("publish", "--flush", str(chat), env=env)

            async def both_wait() -> bool:
                said = (tmp_path / "up.log").read_text()
                return all(f"{stage}: model_overloaded" in said for stage in ("summary", "facts"))

            await eventually(both_wait)
        log = " ".join((tmp_path / "up.log").read_text().split())
        assert "Parked because a service did not answer: 2 records." in log
        assert "waiting for 4 records to reach the stores" in log
        assert "stopped; everything is in the archive." in log
        assert "lost" not in log.split("stopped;")[1]

        away = False
        async with running_up(tmp_path, env):
            letters = await deadletters(env, "list")
            assert sorted((one["stage"], one["reason"]) for one in letters) == [
                ("facts", "stopped"),
                ("summary", "stopped"),
            ]
            assert all("the worker was stopped while it waited: model_overloaded" in one["detail"] for one in letters)
            sent = await deadletters(env, "redrive", "--reason", "stopped", "--wait", "120")
            assert [one["outcome"] for one in sent] == ["applied", "applied"]
            profile = json.loads(await command("profile", "ada", "--json", env=env))
            assert {slot["value"] for slot in profile["slots"]} == {"Ada", "Lyon"}
            assert profile["facts_count"] > 0


@pytest.mark.long
async def test_what_is_published_while_it_stops_is_kept(tmp_path: Path, env: dict[str, str]) -> None:
    """A message is acknowledged until the broker ends: what came too late for the windows is a dead letter."""
    taken: list[str] = []

    async def go_on_publishing(kafka: KafkaSettings) -> None:
        """Publish until the windows have long been closed, and the broker still takes messages."""
        stopping: float | None = None
        clock = asyncio.get_running_loop().time
        async with producer(kafka) as client:
            while stopping is None or clock() < stopping + 3:
                user = f"u{len(taken)}"
                body = encode({"user_id": user, "role": "user", "content": "I live in Rome."})
                await client.send_and_wait(Topics.of(kafka).messages, body, key=user_key("default", user))
                taken.append(user)
                if stopping is None and "stopping:" in (tmp_path / "up.log").read_text():
                    stopping = clock()
                await asyncio.sleep(0.1)

    async with running_up(tmp_path, env):
        announced = find(tmp_path / "data")
        assert announced is not None
        kafka = KafkaSettings.model_validate(announced.settings["kafka"])
        publishing = asyncio.create_task(go_on_publishing(kafka))

        async def begun() -> bool:
            return len(taken) >= 10

        await eventually(begun)
    await publishing
    async with running_up(tmp_path, env):
        late = await deadletters(env, "list")
        assert late, "nothing was late: it was published until the windows had been closed"
        assert {letter["reason"] for letter in late} == {"stopped"}
        await command("deadletters", "redrive", "--reason", "stopped", "--json", "--wait", "120", env=env)

        async def all_known() -> bool:
            place = ("-p", "topic=basic_info", "-p", "sub_topic=location")
            rows = await command("query", "slot_holders", *place, "--json", env=env)
            missing = set(taken) - {json.loads(row)["user_id"] for row in rows.splitlines()}
            print("not known yet:", sorted(missing))
            return not missing

        await eventually(all_known, 240)
