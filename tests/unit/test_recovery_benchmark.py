"""The benchmark of recovery: its report, its profiles, and which flush batch counts as the first new one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from benchmarks.fixed_size import FixedSize, user_name
from benchmarks.load.machine import Machine
from benchmarks.recovery import problems, result
from benchmarks.recovery_run import Flushes, Recovery, Scenario, made_profiles
from schemas.codec import encode
from schemas.profiles import ProfileState

MACHINE = Machine(
    at=datetime(2026, 1, 2, tzinfo=UTC), processor="P", cores=2, memory_gib=16.0, system="Linux", python="3.11",
    versions={}, commit="abc", load=0.1,
)  # fmt: skip

ALL = Recovery(
    waiting=1_000, windows=10, read_again=1_002, profiles=500, table_bytes=2_000_000,
    joined=45.0, restored=50.5, first_flush=61.0, caught_up=60.0,
)  # fmt: skip
BOUNDED = replace(ALL, waiting=120, read_again=160, first_flush=52.0, caught_up=51.5)


def scenario(horizon: int | None) -> Scenario:
    traffic = FixedSize(messages=1_000, users=10)
    return Scenario(traffic=traffic, profiles=500, slots=3, horizon=horizon, session_timeout=45.0)


def test_both_runs_stand_side_by_side() -> None:
    runs = {scenario(None): ALL, scenario(40): BOUNDED}
    found = result(runs, "the command", MACHINE, "the defaults")
    (table,) = found.tables
    assert table.columns == ("", "no horizon", "horizon 40")
    assert {row[0]: row[1:] for row in table.rows} == {
        "messages in open windows": ("1,000", "120"),
        "open windows": ("10", "10"),
        "records read again": ("1,002", "160"),
        "profiles in the table": ("500", "500"),
        "their records": ("2 MB", "2 MB"),
        "joined: it has its partitions": ("45.0 s", "45.0 s"),
        "tables restored: it takes the first message": ("50.5 s", "50.5 s"),
        "first new flush batch on its topic": ("61.0 s", "52.0 s"),
        "caught up: every message is taken": ("60.0 s", "51.5 s"),
    }
    assert [one.value for one in found.findings] == ["61.0 s", "60.0 s", "52.0 s", "51.5 s"]
    assert found.problems == ()
    assert found.data["horizon 40"]["read_again"] == 160


@pytest.mark.parametrize(
    ("horizon", "run", "found"),
    [
        (None, ALL, []),
        (None, replace(ALL, waiting=999), ["no horizon: 999 messages were in windows, not the 1,000 that were sent"]),
        (40, BOUNDED, []),
        (
            40,
            replace(BOUNDED, read_again=119),
            ["horizon 40: 119 records were to be read again, fewer than were in windows"],
        ),
    ],
)
def test_a_kill_of_something_else_makes_the_figures_worth_nothing(
    horizon: int | None, run: Recovery, found: list[str]
) -> None:
    assert problems(scenario(horizon), run) == found


def test_only_a_horizon_is_a_setting_of_the_windows() -> None:
    assert scenario(None).settings == {"kafka.session_timeout": "45.0"}
    assert scenario(40).settings == {"kafka.session_timeout": "45.0", "window.horizon": "40"}


async def test_a_batch_that_is_sent_again_after_the_kill_is_no_new_one() -> None:
    flushes = Flushes()
    flushes.take("old", 1.0)
    flushes.mark()
    flushes.take("old", 2.0)
    flushes.take("new", 3.0)
    flushes.take("newer", 4.0)
    assert await flushes.first() == 3.0


async def test_profiles_are_those_of_the_first_users_and_what_they_weigh_is_told() -> None:
    sizes: list[int] = []
    states: list[ProfileState] = [state async for state in made_profiles(3, 12, sizes.append)]
    assert [state.profile.user_id for state in states] == [user_name(number) for number in range(3)]
    assert {len(state.profile.slots) for state in states} == {12}
    assert [slot.key for slot in states[0].profile.slots] == sorted(slot.key for slot in states[0].profile.slots)
    assert sizes == [len(encode(state)) for state in states]
