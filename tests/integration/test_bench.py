"""`profilestream bench` at work: small runs on the embedded services, and an account that adds up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

from benchmarks.load.report import Report
from schemas.codec import decode
from streams.cli.root import cli
from streams.kafka import admin
from streams.settings import KafkaSettings

LIMIT = 400


def bench(folder: Path, *arguments: str, expect: int = 0) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a user does."""
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=folder, env=environment(folder), capture_output=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert result.returncode == expect, result.stderr.decode()
    return result


def environment(folder: Path) -> dict[str, str]:
    """Return an environment with none of this machine's settings."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PROFILESTREAM_", "OPENAI_"))}
    return own | {
        "XDG_STATE_HOME": str(folder / "state"),
        "XDG_DATA_HOME": str(folder / "share"),
        "TMPDIR": str(folder),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }


def report_of(folder: Path, arguments: Sequence[str]) -> Report:
    (line,) = bench(folder, *arguments, "--json", "-").stdout.splitlines()
    return decode(line, Report)


@pytest.mark.timeout(LIMIT)
def test_every_message_of_a_run_is_accounted_for(tmp_path: Path) -> None:
    page, kept = tmp_path / "report.html", tmp_path / "report.md"
    traffic = ["--messages", "2000", "--users", "100", "--telling", "0.1", "--zipf", "1.0", "--late", "0.1"]
    (run,) = report_of(tmp_path, [*traffic, "--duplicates", "0.05", "--html", str(page), "--markdown", str(kept)]).runs
    account = run.account
    assert account.problems == ()
    assert account.sent == account.accounted == 2_000
    assert account.archived["deltas"] == account.deltas > 50
    assert account.archived["events"] == sum(account.flushes.values())
    assert account.flushes["memo applied"] + account.flushes["memo empty"] >= 100
    assert account.flushes["facts applied"] > 10
    assert set(account.triggers) == {"tokens", "flush"}
    assert {lane.lane for lane in run.latency} == {"memo", "facts"}
    assert all(0 < lane.added.p50 <= lane.added.p99 <= lane.added.most for lane in run.latency)
    assert all(lane.total == lane.added for lane in run.latency)
    assert run.messages_per_second == pytest.approx(2_000 / run.seconds, abs=0.1)
    assert run.peak_rss_mib > 50
    assert {"worker 1", "kafka", "clickhouse", "qdrant", "bench"} == set(run.cpu)
    assert run.cpu["worker 1"] > 0
    assert run.moments
    assert run.settings == {"embedding.kind": "hash"}
    assert "<svg" in page.read_text()
    assert f"profilestream bench {' '.join(traffic)} --duplicates 0.05\n" in kept.read_text()
    assert left_behind(tmp_path) == []


@pytest.mark.timeout(LIMIT)
@pytest.mark.long
def test_a_scripted_model_is_late_and_fails_and_still_nothing_is_lost(tmp_path: Path) -> None:
    model = ["--model-latency", "0.05:0.2", "--model-errors", "0.1"]
    quick = ["--set", "lanes.backoff=0.05", "--set", "window.messages=4"]
    (run,) = report_of(tmp_path, ["--messages", "200", "--users", "20", *model, *quick]).runs
    assert run.account.problems == ()
    assert run.account.accounted == 200
    assert run.model is not None
    assert run.model.calls["summary"] >= 40
    assert run.model.calls["extract"] > 0
    assert run.model.requests > sum(run.model.calls.values())
    assert run.settings == {"embedding.kind": "hash", "lanes.backoff": "0.05", "window.messages": "4"}
    assert run.account.triggers["messages"] > 0
    memo = next(lane for lane in run.latency if lane.lane == "memo")
    assert memo.total.p50 - memo.added.p50 > 50  # at least a call for the summary
    assert "model" in run.cpu


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--burst", "1:1"], "need --rate"),
        (["--rate", "5", "--burst", "1"], "ON:OFF"),
        (["--rate", "5", "--burst", "1:1", "--ramp"], "exclude each other"),
        (["--rate", "5", "--seconds", "1", "--messages", "5"], "exclude each other"),
        (["--length", "x"], "MEDIAN:P99"),
        (["--set", "lanes"], "NAME=VALUE"),
    ],
)
def test_options_that_make_no_sense_together_are_refused(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(cli, ["bench", *arguments])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


@pytest.mark.timeout(LIMIT)
@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["--set", "lanes.concurency=3"], "--set: there is no setting 'lanes.concurency', did you mean", 2),
        (["--set", "lanes.concurrency=many"], "as an integer but is 'many' (--set)", 2),
        (["--kafka", "127.0.0.1:1", "--messages", "1"], "Kafka does not answer at 127.0.0.1:1", 1),
        (["--json", "/nowhere/report.json"], "the folder of /nowhere/report.json does not exist", 1),
    ],
)
def test_what_cannot_be_run_is_said_in_a_sentence(tmp_path: Path, arguments: list[str], said: str, code: int) -> None:
    result = bench(tmp_path, *arguments, expect=code)
    text = " ".join(result.stderr.decode().split())
    assert said in text
    assert "Traceback" not in text
    assert result.stdout == b""


def left_behind(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir() if entry.name.startswith("profilestream-bench")]


@pytest.mark.timeout(LIMIT)
@pytest.mark.long
def test_ctrl_c_ends_everything_that_was_started(tmp_path: Path) -> None:
    arguments = [sys.executable, "-m", "benchmarks", "--messages", "100000", "--rate", "10"]
    with subprocess.Popen(
        arguments, cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        assert any("sending" in line for line in lines)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers get it as well
        said = process.stderr.read()
        assert process.wait(LIMIT) == 130
    assert "Traceback" not in said
    assert left_behind(tmp_path) == []
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.timeout(LIMIT)
@pytest.mark.long
def test_services_that_run_already_are_used_and_left_as_they_were(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "streams.cli", "up", "--json", "--data-dir", "data"],
        cwd=tmp_path, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as up:  # fmt: skip
        assert up.stdout is not None
        try:
            addresses = json.loads(up.stdout.readline())
            kafka = KafkaSettings.model_validate({"bootstrap_servers": addresses["kafka"]})
            before = asyncio.run(contents(addresses, kafka))
            services = ["--kafka", "settings", "--stores", "settings"]
            (run,) = report_of(tmp_path, ["--messages", "50", "--users", "5", *services]).runs
            assert (run.account.accounted, run.account.problems) == (50, ())
            assert asyncio.run(contents(addresses, kafka)) == before
        finally:
            up.terminate()
        assert up.wait(LIMIT) == 0


async def contents(addresses: dict[str, str], kafka: KafkaSettings) -> tuple[set[str], str, str]:
    """Return the topics, the databases, and the collections of services that run."""
    async with admin(kafka) as client, aiohttp.ClientSession() as session:
        async with session.post(addresses["clickhouse"], data="SHOW DATABASES") as answer:
            databases = await answer.text()
        async with session.get(f"{addresses['qdrant']}/collections") as answer:
            collections = (await answer.json())["result"]["collections"]
        return set(await client.list_topics()), databases, str(collections)
