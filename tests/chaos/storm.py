"""Runs of the program under load whose workers are killed at random moments, again and again."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiokafka.structs import ConsumerRecord

from benchmarks.harness import Overrides, WorkerProcess, Written, discrepancies, environment, read_topics
from schemas.dead_letters import DeadLetterReason
from streams.settings.names import TEST_PREFIX
from tests.chaos.outcome import Outcome, disagreements, outcome
from tests.chaos.talk import Spoken, publish, talk, write_pipeline
from tests.integration.pipeline_support import FAST, settings_of

PREFIX: Final = TEST_PREFIX + "CHAOS_"

_READY_LIMIT: Final = 120.0
_EARLY: Final = 0.25
"""Share of the kills that come while the worker starts."""

_START_SECONDS: Final = 6.0
_LIFE_SECONDS: Final = 5.0
"""How long after its start, and after it was ready, a worker lives at the most."""


@dataclass(frozen=True)
class Storm:
    """How big a run is; each number can be given by an environment variable, ``PROFILESTREAM_TEST_CHAOS_MESSAGES`` ...

    Attributes:
        seed: of what is said, and of the moments at which workers are killed.
        messages: of all users.
        users: of two tenants.
        kills: at random moments.
        forgets: share of the messages after which their user asks to be forgotten.
    """

    seed: int
    messages: int = 1_000
    users: int = 30
    kills: int = 4
    forgets: float = 0.0

    @classmethod
    def of_environment(cls, variables: Mapping[str, str] = os.environ) -> Storm:
        """Return the run that the environment asks for; without a seed, one that nobody has seen."""
        given = {
            name: int(variables[PREFIX + name.upper()])
            for name in ("messages", "users", "kills")
            if PREFIX + name.upper() in variables
        }
        return cls(seed=int(variables.get(PREFIX + "SEED") or random.SystemRandom().randrange(2**32)), **given)

    def lines(self) -> list[Spoken]:
        """Return what is said."""
        return talk(self.seed, self.messages, self.users, self.forgets)


@dataclass
class Run:
    """A run that has come to its end.

    Attributes:
        written: everything on the topics.
        left: what is in the stores.
        problems: what does not add up within the run itself.
        seconds: from the first message to the end of the last flush.
        kills: for each, the seconds after the worker's start and whether it was ready.
    """

    written: Written
    left: Outcome
    problems: list[str]
    seconds: float
    kills: list[tuple[float, bool]] = field(default_factory=list)

    @property
    def repeats(self) -> dict[str, int]:
        """How many records were sent again, by topic."""
        written = self.written
        return {
            "flushes": len(written.flushes) - len({batch.ref.flush_id for batch in written.flushes}),
            "events": len(written.events) - len({event.event_id for event in written.events}),
            "deltas": len(written.deltas) - len({delta.delta_id for delta in written.deltas}),
            "dead letters": len(written.dead_letters) - len({_place(letter) for letter in written.dead_letters}),
            "moves": len(written.moved) - len(set(written.moved.values())),
        }

    def __str__(self) -> str:
        early = sum(not ready for _, ready in self.kills)
        flushes = {batch.ref.flush_id for batch in self.written.flushes}
        return (
            f"{self.written.messages} messages, {len(flushes)} flushes, {len(self.left.profiles)} profiles, "
            f"{sum(map(len, self.left.deltas.values()))} deltas in {self.seconds:.0f} s, {len(self.kills)} kills "
            f"({early} of a worker that was not ready yet), repeats {self.repeats}"
        )


class Stage:
    """The services of one run, and the environment of its workers.

    Args:
        folder: for the pipeline file and the logs of the workers.
        services: settings of broker and stores; topics, groups, database and collection are this run's own.
        overrides: further settings of its workers.
    """

    def __init__(self, folder: Path, services: Overrides, overrides: Overrides | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        own = str(services["kafka"]["group_id"]).replace("-", "_")
        groups: Sequence[Overrides] = (
            FAST,
            services,
            {"clickhouse": {"database": own}, "qdrant": {"collection": own}, "kafka": QUICK, "window": CLOSING},
            overrides or {},
        )
        self._folder = folder
        self.settings = settings_of(*groups)
        self.env = environment(*groups) | {"PROFILESTREAM_PIPELINE_FILE": str(write_pipeline(folder))}

    def worker(self, name: str, **variables: str) -> WorkerProcess:
        """Return a worker, not started; `variables` are added to its environment."""
        return WorkerProcess(self.env | variables, self._folder / f"{name}.log")

    async def read(self, until: Callable[[Written], bool], limit: float) -> Written:
        """Return everything on the topics once that is so."""
        return await read_topics(self.settings.kafka, until, limit)

    async def ended(self, messages: int, limit: float) -> Written:
        """Return everything on the topics once all messages are in windows that have ended."""
        return await self.read(lambda written: written.messages == messages and written.complete, limit)

    async def result(self, messages: int, limit: float, started: float | None = None) -> Run:
        """Return the run, once it is at its end.

        Args:
            messages: that were published.
            limit: seconds that they may take.
            started: when the first was, by the monotonic clock.
        """
        written = await self.ended(messages, limit)
        seconds = time.monotonic() - (started or time.monotonic())
        left = await outcome(self.settings, written)
        problems = discrepancies(written) + await disagreements(self.settings, written, left)
        return Run(written, left, problems, seconds)


QUICK: Final[Mapping[str, Any]] = {
    "log_id": "chaos",
    "session_timeout": 3.0,
    "heartbeat_interval": 0.5,
    "rebalance_timeout": 8.0,
    "commit_interval": 0.5,
}
"""The same log in all runs, so that ids can be compared; a group that finds out soon who has died."""

CLOSING: Final[Mapping[str, Any]] = {"messages": 7, "tokens": 60, "idle": 86_400.0, "age": 86_400.0}
"""Windows that close by what is in them, and never by the clock."""


async def undisturbed(stage: Stage, storm: Storm) -> Run:
    """Run it with one worker that nobody kills."""
    async with stage.worker("worker") as worker:
        started = time.monotonic()
        await publish(stage.settings.kafka, storm.lines())
        run = await stage.result(storm.messages, _limit(storm), started)
        if await worker.stop() != 0:
            run.problems.append("the worker did not end well")
    return run


async def stormy(stage: Stage, storm: Storm, *, survivor: bool = False) -> Run:
    """Run it with a worker that is killed at random moments, while messages come in.

    Args:
        stage: where.
        storm: how big.
        survivor: run a second worker, which is never killed.
    """
    chance = random.Random(storm.seed + survivor)
    lines = storm.lines()
    size = -(-len(lines) // (storm.kills + 1))
    portions = [lines[start : start + size] for start in range(0, len(lines), size)]
    victim, other = stage.worker("victim"), stage.worker("survivor")
    kills: list[tuple[float, bool]] = []
    started = time.monotonic()
    if survivor:
        await other.start(_READY_LIMIT)
    try:
        for portion in portions[: storm.kills]:
            kills.append(await _life(victim, stage, portion, chance))
            _say(f"kill {len(kills)} of {storm.kills}: {kills[-1][0]:.1f} s after the start")
        await victim.start(_READY_LIMIT)
        for portion in portions[storm.kills :]:
            await publish(stage.settings.kafka, portion)
        run = await stage.result(storm.messages, _limit(storm), started)
        run.kills = kills
        for worker in (victim, other) if survivor else (victim,):
            if await worker.stop() != 0:
                run.problems.append("a worker did not end well")
        return run
    finally:
        for worker in (victim, other):
            if worker.alive:
                await worker.kill()


async def _life(
    worker: WorkerProcess, stage: Stage, portion: Sequence[Spoken], chance: random.Random
) -> tuple[float, bool]:
    """Start a worker, publish meanwhile, and kill it; return when that was and whether it was ready."""
    begun = time.monotonic()
    early, seconds = chance.random() < _EARLY, chance.random()
    await worker.spawn()
    publishing = asyncio.create_task(publish(stage.settings.kafka, portion))
    try:
        if early:
            await asyncio.sleep(seconds * _START_SECONDS)
        else:
            await worker.ready(_READY_LIMIT)
            await asyncio.sleep(seconds * _LIFE_SECONDS)
        ready = "ready." in worker.log(worker.log_start)
        await worker.kill()
        return time.monotonic() - begun, ready
    finally:
        await publishing


def _place(letter: ConsumerRecord) -> tuple[str, int, int]:
    reason = DeadLetterReason.from_headers(letter.headers)
    return reason.topic, reason.partition, reason.offset


def _limit(storm: Storm) -> float:
    """Return how long the messages of a run may take to their end, in seconds: a multiple of what they need."""
    return 120 + storm.messages / 10


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
