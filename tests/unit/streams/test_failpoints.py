"""Fail points: nothing without the variable, a kill at the right time with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from streams.failpoints import FAIL_POINTS, VARIABLE, Trap, trap_of


def test_without_the_variable_there_is_no_trap() -> None:
    assert trap_of({}) is None
    assert trap_of({VARIABLE: ""}) is None


def test_a_trap_kills_once_at_its_point_the_given_time() -> None:
    kills: list[int] = []
    trap = Trap("merge.after_send", 3, kill=lambda: kills.append(1))
    for name in ("merge.after_send", "merge.after_table", "merge.after_send", "window.after_send"):
        trap.pass_by(name)  # type: ignore[arg-type]
    assert kills == []
    trap.pass_by("merge.after_send")
    trap.pass_by("merge.after_send")
    assert kills == [1]


def test_the_variable_names_point_and_count() -> None:
    trap = trap_of({VARIABLE: "index.mid_upsert:12"})
    assert trap is not None
    assert (trap.name, trap.count) == ("index.mid_upsert", 12)


@pytest.mark.parametrize("wanted", ["merge.after_send", "merge.after_send:", "merge.after_send:0", "merge:1", ":1"])
def test_anything_else_is_refused(wanted: str) -> None:
    with pytest.raises(ValueError, match=VARIABLE):
        trap_of({VARIABLE: wanted})


@pytest.mark.parametrize(("wanted", "code"), [("", 0), ("park.after_send:2", -signal.SIGKILL)])
def test_a_process_is_killed_when_it_comes_by(wanted: str, code: int) -> None:
    program = "from streams.failpoints import fail_point\nfor _ in range(2): fail_point('park.after_send')"
    ended = subprocess.run([sys.executable, "-c", program], env={**os.environ, VARIABLE: wanted}, check=False)
    assert ended.returncode == code


def test_every_point_is_in_the_program() -> None:
    root = Path(__file__).parents[3]
    source = "".join(
        path.read_text() for folder in ("agents", "streams", "sinks") for path in (root / folder).rglob("*.py")
    )
    missing = [name for name in FAIL_POINTS if f'fail_point("{name}")' not in source]
    assert missing == []
