"""A worker is suspended under load until another has its partitions; when it goes on, it writes nothing any more."""

from __future__ import annotations

import asyncio
import os
import random
import signal

import pytest

from benchmarks.harness import Written
from tests.chaos.conftest import NewStage
from tests.chaos.outcome import differences
from tests.chaos.storm import Run, Storm
from tests.chaos.talk import publish

pytestmark = pytest.mark.timeout(300)


def sizes(written: Written) -> tuple[int, ...]:
    """Return how many records are on each topic."""
    return tuple(map(len, (written.flushes, written.events, written.deltas, written.dead_letters, written.moved)))


async def test_a_suspended_worker_that_goes_on_writes_nothing(new_stage: NewStage, storm: Storm, calm: Run) -> None:
    stage = new_stage("suspended")
    lines, half = storm.lines(), storm.messages // 2
    enough = random.Random(storm.seed).randrange(1, half // 4)
    sleeper, other = stage.worker("sleeper"), stage.worker("other")
    await sleeper.start()
    try:
        await other.start()
        publishing = asyncio.create_task(publish(stage.settings.kafka, lines[:half]))
        await stage.read(lambda written: len(written.events) >= enough, 60)
        os.kill(sleeper.pid, signal.SIGSTOP)
        await publishing
        await publish(stage.settings.kafka, lines[half:])
        # The other has found out that it is alone, and has done everything.
        before = await stage.ended(storm.messages, 120)
        os.kill(sleeper.pid, signal.SIGCONT)
        assert await sleeper.ended(60) == 1
        assert "this process was suspended for" in sleeper.log()
        assert "Traceback" not in sleeper.log()
        run = await stage.result(storm.messages, 120)
        assert sizes(run.written) == sizes(before), storm
        assert run.problems == [], storm
        assert differences(calm.left, run.left) == [], storm
        assert await other.stop() == 0
    finally:
        for worker in (sleeper, other):
            if worker.alive:
                await worker.kill()
