"""The benchmark of the window agent alone: what its report says of passes whose figures are known."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from benchmarks.fixed_size import FixedSize
from benchmarks.load.machine import Machine
from benchmarks.recorded import Result, markdown, tenths
from benchmarks.windowing import AGENT, PLAIN, WITHOUT_FACTS, result
from benchmarks.windowing_process import Kind, Pass

TRAFFIC = FixedSize(messages=1_000, users=10)
MACHINE = Machine(
    at=datetime(2026, 1, 2, tzinfo=UTC), processor="P", cores=2, memory_gib=16.0, system="Linux", python="3.11",
    versions={"profilestream": "0.1.0", "aiokafka": "1.2"}, commit="abc", load=0.1,
)  # fmt: skip


def one_pass(kind: Kind, seconds: float, messages: int = 1_000) -> Pass:
    return Pass(kind=kind, messages=messages, seconds=seconds, processor=seconds / 2)


def of(agent: list[Pass]) -> Result:
    passes = {
        PLAIN: [one_pass("plain", seconds) for seconds in (0.01, 0.02, 5.0)],
        AGENT: agent,
        WITHOUT_FACTS: [one_pass("agent", 0.1)] * 3,
    }
    return result(passes, TRAFFIC, "the command", MACHINE, "the defaults")


def test_the_ratio_is_that_of_the_medians() -> None:
    found = of([one_pass("agent", seconds) for seconds in (0.01, 0.2, 0.4)])
    assert found.data["ratios"] == {AGENT: pytest.approx(0.1), WITHOUT_FACTS: pytest.approx(0.2)}
    assert [(one.value, one.met) for one in found.findings[:2]] == [
        ("10.0% (5,000 against 50,000 messages/s)", True),
        ("20.0% (10,000 messages/s)", None),
    ]
    assert [one.value for one in found.findings[2:]] == ["10.0 µs", "100.0 µs", "50.0 µs"]
    assert len(found.tables[0].rows) == 9
    assert found.problems == ()


def test_a_slower_agent_misses_the_target() -> None:
    (missed,) = of([one_pass("agent", 0.201)] * 3).missed
    assert missed.value.startswith("10.0% (4,975 ")


def test_a_pass_that_did_not_take_every_message_is_no_measurement() -> None:
    found = of([one_pass("agent", 0.1), one_pass("agent", 0.1, messages=1_001), one_pass("agent", 0.1)])
    assert found.problems == ("window agent, round 2: 1,001 messages were taken, 1,000 were sent",)


def test_a_page_tells_command_target_settings_and_machine() -> None:
    page = markdown(of([one_pass("agent", 0.4)] * 3))
    assert page.splitlines()[:5] == ["# The window agent alone", "", "```sh", "the command", "```"]
    assert (
        "| window agent against the plain loop | at least 10% | **5.0% (2,500 against 50,000 messages/s), missed** |"
    ) in page
    assert "| plain loop | 3 | 200 | 2500.0 | 5.00 |  |" in page
    assert "1,000 records of 200 bytes, 10 users" in page
    assert "commit abc" in page
    assert "- versions: aiokafka 1.2" in page


def test_a_page_says_so_when_the_machine_was_busy() -> None:
    found = of([one_pass("agent", 0.1)] * 3)
    assert "not quiet" not in markdown(found)
    busy = msgspec.structs.replace(found, machine=msgspec.structs.replace(MACHINE, load=2.0))
    assert "**The machine was not quiet** (2.0 processes wanted its 2 cores" in markdown(busy)
    assert "not quiet" not in markdown(msgspec.structs.replace(busy, timed=False))


def test_progress_is_told_once_for_each_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    tell = tenths(2_000, "sent")
    for done in (0, 199, 200, 201, 399, 1_000, 1_001, 2_000):
        tell(done)
    tenths(0, "sent")(0)
    assert capsys.readouterr().err.splitlines() == [
        "  200 of 2,000 sent",
        "  1,000 of 2,000 sent",
        "  2,000 of 2,000 sent",
    ]
