"""Workers under load are killed at random moments, and what is left in the end is what an undisturbed run leaves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.conftest import NewStage
from tests.chaos.outcome import differences
from tests.chaos.storm import Run, Storm, stormy, undisturbed

pytestmark = pytest.mark.timeout(7200)

Report = Callable[[str, object], None]


def check(run: Run, calm: Run, storm: Storm) -> None:
    """Check that a run adds up and ends where the undisturbed one does."""
    assert calm.problems == []
    assert run.problems == [], storm
    assert run.written.dead_letters == [], storm
    assert differences(calm.left, run.left) == [], storm
    assert len(run.left.profiles) > 0.8 * storm.users
    assert len(run.kills) == storm.kills
    # Otherwise nothing was cut off in its midst, and nothing is proven.
    assert sum(run.repeats.values()) > 0, storm


@pytest.mark.long
async def test_worker_that_is_killed_again_and_again(
    new_stage: NewStage, storm: Storm, calm: Run, record_property: Report
) -> None:
    print(storm, f"undisturbed: {calm}", sep="\n")
    run = await stormy(new_stage("storm"), storm)
    print(f"one worker: {run}")
    record_property("storm", str(run))
    check(run, calm, storm)


async def test_users_who_were_forgotten_stay_so_however_often_a_worker_is_killed(
    new_stage: NewStage, storm: Storm, record_property: Report
) -> None:
    """What is dropped on its way is another matter in each run: the topics differ, and what is left does not."""
    small = Storm(storm.seed, messages=storm.messages // 2, users=storm.users // 2, kills=storm.kills, forgets=0.03)
    calm = await undisturbed(new_stage("calm"), small)
    run = await stormy(new_stage("storm"), small)
    print(small, f"undisturbed: {calm}", f"with users who are forgotten: {run}", sep="\n")
    record_property("storm", str(run))
    check(run, calm, small)
    assert len(run.written.forgets) > small.users / 4


@pytest.mark.long
async def test_one_of_two_workers_is_killed_again_and_again(
    new_stage: NewStage, storm: Storm, calm: Run, record_property: Report
) -> None:
    print(storm, f"undisturbed: {calm}", sep="\n")
    run = await stormy(new_stage("storm"), storm, survivor=True)
    print(f"two workers: {run}")
    record_property("storm", str(run))
    check(run, calm, storm)
