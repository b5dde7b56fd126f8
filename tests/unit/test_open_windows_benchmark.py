"""The benchmark of open windows: what its report says of memory that is known."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from benchmarks.fixed_size import FixedSize
from benchmarks.load.machine import Machine
from benchmarks.open_windows import Held, problems, result

TRAFFIC = FixedSize(messages=1_000_000, users=100_000)
MACHINE = Machine(
    at=datetime(2026, 1, 2, tzinfo=UTC), processor="P", cores=2, memory_gib=16.0, system="Linux", python="3.11",
    versions={}, commit="abc", load=0.1,
)  # fmt: skip


def held(
    *, before: float = 0.2e9, after: float = 1.5e9, windows: int = 100_000, messages: int = 1_000_000, flushes: int = 0
) -> Held:
    return Held(
        windows=windows, messages=messages, before=before, after=after, peak=after + 1e8, seconds=60.0, flushes=flushes
    )


def test_what_a_message_takes_is_what_came_on_top() -> None:
    found = result(held(), TRAFFIC, "the command", MACHINE, "the defaults")
    assert [(one.value, one.met) for one in found.findings] == [
        ("1.50 GB", True),
        ("1,300 bytes", True),
        ("0.20 GB", None),
        ("1.60 GB", None),
    ]
    assert found.data["bytes_a_message"] == pytest.approx(1_300)
    assert found.problems == ()


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (held(before=0.0, after=1.5e9), []),
        (held(before=0.01e9, after=1.52e9), ["1.52 GB", "1,510 bytes"]),
        (held(before=0.3e9, after=1.6e9), ["1.60 GB"]),
    ],
)
def test_the_targets(found: Held, missed: list[str]) -> None:
    report = result(found, TRAFFIC, "the command", MACHINE, "the defaults")
    assert [one.value for one in report.missed] == missed


def test_a_window_that_closed_makes_the_figures_worth_nothing() -> None:
    assert problems(held(windows=99_999, messages=999_990, flushes=1), TRAFFIC) == [
        "999,990 messages are in 99,999 windows, not 1,000,000 in 100,000",
        "1 flush batches were sent",
    ]
