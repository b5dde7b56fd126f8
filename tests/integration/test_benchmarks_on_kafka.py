"""The benchmarks with a command of their own, small: they run on Apache Kafka, and what they say adds up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.recorded import Result
from schemas.codec import decode
from tests.support.brokers import apache_kafka

LIMIT = 600
pytestmark = [pytest.mark.long, pytest.mark.timeout(LIMIT)]


def run(folder: Path, name: str, *arguments: str) -> Result:
    """Run a benchmark as a user does, on a machine that has no settings; 1 only says that a target is missed."""
    apache_kafka(folder)  # skips, or fails, where there is none
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PROFILESTREAM_", "OPENAI_"))}
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *arguments, "--json", "--record", "page.md"],
        cwd=folder, capture_output=True, timeout=LIMIT, check=False,
        env=own | {
            "XDG_STATE_HOME": str(folder / "state"),
            "TMPDIR": str(folder),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
    )  # fmt: skip
    assert done.returncode in {0, 1}, done.stderr.decode()
    assert done.stdout, done.stderr.decode()
    result = decode(done.stdout.strip(), Result)
    assert result.problems == (), done.stderr.decode()
    assert (folder / "page.md").read_text().startswith(f"# {result.title}\n")
    assert f"python -m benchmarks.{name} {' '.join(arguments[:2])}" in result.command
    assert not list(folder.glob("profilestream-[a-z]*")), "what a run made in the temporary folder is removed"
    return result


def test_the_window_agent_takes_every_message_with_and_without_lane_facts(tmp_path: Path) -> None:
    result = run(tmp_path, "windowing", "--messages", "1500", "--users", "30", "--telling", "0.2", "--rounds", "1")
    passes = {name: found[0] for name, found in result.data["passes"].items()}
    plain, agent, without = passes["plain loop"], passes["window agent"], passes["window agent, without lane facts"]
    assert plain["messages"] == agent["messages"] == without["messages"] == 1_500
    assert agent["batches"]["memo"] == without["batches"]["memo"] >= 30
    assert 100 < agent["batches"]["facts"] < 200, "a fifth of the half that the users write"
    assert "facts" not in without["batches"]
    assert all(one["processor"] > 0 and one["seconds"] > 0 for one in passes.values())


def test_every_message_is_held_and_weighs_something(tmp_path: Path) -> None:
    result = run(tmp_path, "open_windows", "--users", "2000", "--each", "5")
    assert (result.data["windows"], result.data["messages"], result.data["flushes"]) == (2_000, 10_000, 0)
    assert result.data["before"] < result.data["after"] <= result.data["peak"]


def test_what_is_read_again_after_a_kill_is_bounded_by_the_horizon(tmp_path: Path) -> None:
    sizes = ("--messages", "2000", "--users", "50", "--profiles", "300", "--horizon", "100", "--session-timeout", "6")
    result = run(tmp_path, "recovery", *sizes)
    every, bounded = result.data["no horizon"], result.data["horizon 100"]
    assert (every["waiting"], every["windows"], every["read_again"]) == (2_000, 50, 2_002)
    assert 0 < bounded["waiting"] <= 4 * 100
    assert bounded["waiting"] < bounded["read_again"] < 1_000
    for one in (every, bounded):
        assert one["profiles"] == 300
        assert one["joined"] > 0
        assert 0 < one["restored"] <= one["caught_up"]
        assert one["first_flush"] > 0
