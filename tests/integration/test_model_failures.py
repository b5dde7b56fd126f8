"""Every way in which a model server fails, in every stage of both lanes, before a worker on Apache Kafka.

Each case is a user of its own, so that all of them share one worker: what happens to one must not touch the others.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from benchmarks.harness import (
    Overrides,
    WorkerProcess,
    Written,
    command,
    discrepancies,
    environment,
    read_topics,
)
from benchmarks.model_server import ModelServer, Reply, Request
from benchmarks.scripted_answers import ScriptedModel
from schemas.dead_letters import DeadLetterReason
from schemas.deltas import FlushEvent
from schemas.messages import split_user_key
from schemas.profiles import Profile, apply_deltas
from streams.embedded.services import EmbeddedServices
from streams.pipeline_file import load_pipeline
from streams.settings import KafkaSettings
from tests.integration.pipeline_support import FAST, eventually, said, settings_of, write_chat
from tests.support.brokers import KafkaSettingsByName

pytestmark = pytest.mark.timeout(240)

PIPELINE = "event_tags: [{name: emotion}]\ndomain: {enabled: true}\n"
STAGES = ("summary", "extract", "tag", "merge", "facts", "preferences", "relation", "domain")
COMPARING = {"merge", "relation"}
"""Stages that ask only where there is something to compare with: at the second message."""

TIMEOUT = 2.0
RETRY_AFTER = 1.2
FAULTS = {
    "overloaded": Reply(status=429, headers={"Retry-After": str(RETRY_AFTER)}),
    "broken": Reply(status=500),
    "slow": Reply(content="too late", delay=3 * TIMEOUT),
    "lost": Reply(drop=True),
    "garbled": Reply(body=b"<html>502</html>"),
    "nested": Reply(body=b'{"choices": [], "x": ' + b"[" * 100_000),
    "talkative": Reply(content="I found nothing useful, sorry."),
    "silent": Reply(content=""),
}
REASONS = {
    "broken": "model_unavailable",
    "slow": "model_timeout",
    "lost": "connection_lost",
    "garbled": "bad_response",
    "nested": "bad_response",
    "talkative": "unreadable_answer",
    "silent": "empty_answer",
}
"""What a stage fails with, by the fault that does not go away; a server that is overloaded or away is waited for."""

USELESS = {"talkative", "silent"}
"""Faults in an answer that came: it is asked for once more, and then no more."""

ATTEMPTS = 2
MODEL: dict[str, object] = {"processor": "llm", "name": "scripted", "api_key": "k", "timeout": TIMEOUT}
QUICK: Overrides = {
    "embedding": {"kind": "hash"},
    "window": {"messages": 1},
    "lanes": {"attempts": 3, "backoff": 0.05, "backoff_limit": 2 * RETRY_AFTER},
}
CITY = re.compile(r"\b([A-Z][a-z]+)(?:ton|ham)\b")
LAST = "I have a dog."


def conversation(code: str) -> tuple[str, ...]:
    """Return messages that make every stage ask the model; all questions before the last one hold the code."""
    return (
        f"I live in {code}ton. I prefer short answers.",
        f"I feel happy. I live in {code}ham now. Please keep your answers short.",
        LAST,
    )


@dataclass
class Trouble:
    """What happens to one user.

    Attributes:
        stage: where.
        fault: what.
        left: how many requests fail; None for all.
        name: tells it from others of the same kind.
        asked: when each request of that stage came, and whether it failed.
    """

    stage: str
    fault: str
    left: int | None = None
    name: str = ""
    asked: list[tuple[float, bool]] = field(default_factory=list)

    @property
    def code(self) -> str:
        """What the user's messages, and all that comes of them, are known by."""
        return f"{self.stage}{self.fault}{self.name}".capitalize()

    def strikes(self) -> bool:
        """Note a request, and return whether it fails."""
        failing = self.left is None or self.left > 0
        if self.left:
            self.left -= 1
        self.asked.append((time.monotonic(), failing))
        return failing


class Model:
    """A model that answers by the rules, and fails the users in trouble."""

    def __init__(self, troubles: Iterable[Trouble], scripted: ScriptedModel) -> None:
        self._scripted = scripted
        self._troubles = {trouble.code: trouble for trouble in troubles}

    async def __call__(self, request: Request) -> Reply | dict[str, Any]:
        """Answer a request."""
        found = CITY.search(request.user)
        trouble = self._troubles.get(found[1]) if found and LAST not in request.user else None
        if trouble is not None and trouble.stage == request.stage and trouble.strikes():
            return FAULTS[trouble.fault]
        return await self._scripted(request)


class Program:
    """A worker with a model server, on Apache Kafka."""

    def __init__(self, services: EmbeddedServices, folder: Path) -> None:
        self._services = services
        self._folder = folder
        self.pipeline = folder / "pipeline.yaml"
        self.pipeline.write_text(PIPELINE)
        self.scripted = ScriptedModel(load_pipeline(self.pipeline))
        self.model = ModelServer()
        self._overrides: Overrides = QUICK

    def worker(self, lanes: dict[str, object] | None = None, **model: object) -> WorkerProcess:
        """Return a worker, not started."""
        own = {"base_url": self.model.url, "attempts": ATTEMPTS} | MODEL | model
        self._overrides = {**QUICK, "model": own, "lanes": {**QUICK["lanes"], **(lanes or {})}}
        env = environment(self._services.settings, self._overrides)
        return WorkerProcess(env | {"PROFILESTREAM_PIPELINE_FILE": str(self.pipeline)}, self._folder / "worker.log")

    @property
    def kafka(self) -> KafkaSettings:
        """Its broker."""
        return settings_of(self._services.settings, FAST).kafka

    async def publish(self, users: dict[str, Iterable[str]]) -> None:
        """Publish what users say."""
        lines = [line for user, texts in users.items() for line in said(user, *texts)]
        file = write_chat(self._folder / "chat.jsonl", lines)
        await command("publish", str(file), env=environment(self._services.settings))

    async def outcome(self, until, limit: float = 120) -> Written:
        """Return everything that was written, once `until` holds."""
        return await read_topics(self.kafka, until, limit)


@pytest_asyncio.fixture
async def program(on_apache_kafka: KafkaSettingsByName, tmp_path: Path) -> AsyncIterator[Program]:
    async with EmbeddedServices(tmp_path / "services", on_apache_kafka) as services:
        running = Program(services, tmp_path)
        async with running.model:
            yield running


def complete(written: Written) -> bool:
    return written.complete


def events_of(written: Written, user: str, lane: str | None = None) -> list[FlushEvent]:
    """Return how the flushes of a user ended, in the order of their messages."""
    found = {event.event_id: event for event in written.events if event.flush.user_id == user}
    ended = [event for event in found.values() if lane in {None, event.flush.lane}]
    return sorted(ended, key=lambda event: (event.flush.lane, event.flush.last_offset))


def profile_of(written: Written, user: str) -> Profile:
    deltas = {delta.delta_id: delta for delta in written.deltas if delta.user_id == user}
    ordered = sorted(deltas.values(), key=lambda delta: delta.version)
    return apply_deltas(Profile(tenant_id="default", user_id=user), ordered)


def statements(written: Written, user: str, code: str) -> list[str]:
    """Return everything that a user's profile says, with the code taken out."""
    profile = profile_of(written, user)
    slots = [f"{slot.topic}/{slot.sub_topic}: {slot.value} x{slot.update_hits}" for slot in profile.slots]
    facts = [f"{fact.text} x{fact.times_mentioned}" for fact in profile.facts]
    preferences = [f"{each.text} x{each.times_observed}" for each in profile.preferences]
    return [text.replace(code, "City") for text in sorted([*slots, *facts, *preferences])]


def letters_of(written: Written) -> dict[str, Counter[tuple[str, str]]]:
    """Return stage and reason of the dead letters of each user."""
    letters: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for letter in written.dead_letters:
        why = DeadLetterReason.from_headers(letter.headers)
        letters[split_user_key(letter.key)[1]][why.stage, why.reason] += 1
    return letters


async def waited(holds: Callable[[], bool]) -> None:
    async def now() -> bool:
        return holds()

    await eventually(now)


def resident(pid: int) -> int:
    """Return the memory that a process has, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_what_passes_costs_time_and_nothing_else(program: Program) -> None:
    troubles = [
        # The domain stage does not wait; an answer that is useless is asked for only once more.
        Trouble(stage, fault, left=1 if fault in USELESS or stage == "domain" else ATTEMPTS + 1)
        for stage in STAGES
        for fault in FAULTS
    ]
    program.model.script = Model(troubles, program.scripted)
    async with program.worker():
        users = {trouble.code: conversation(trouble.code) for trouble in troubles}
        await program.publish({"calm": conversation("Calm"), **users})
        written = await program.outcome(complete)
    assert discrepancies(written) == []
    assert written.dead_letters == []
    expected = statements(written, "calm", "Calm")
    assert len(expected) > 3
    for trouble in troubles:
        assert any(failed for _, failed in trouble.asked), trouble.code
        assert {event.outcome for event in events_of(written, trouble.code)} == {"applied"}, trouble.code
        assert statements(written, trouble.code, trouble.code) == expected
        if trouble.fault == "overloaded":
            waits = [after - at for (at, failed), (after, _) in pairwise(trouble.asked) if failed]
            assert len(waits) == (1 if trouble.stage == "domain" else ATTEMPTS + 1)
            assert min(waits) >= RETRY_AFTER, trouble.code


def parked_by(trouble: Trouble) -> str | None:
    """Return the stage that parks what cannot be answered; None where the flush goes on without the answer."""
    match trouble.stage:
        case "facts" | "preferences":
            # The other half is kept, unless nothing of the server's is of use.
            return f"{trouble.stage}_half" if trouble.fault in USELESS else "facts"
        case "relation":
            return None if trouble.fault in USELESS else "merge"
        case "domain":
            return "domain" if trouble.fault in USELESS else None
    return trouble.stage


async def test_what_stays_fails_its_flush_and_no_other(program: Program) -> None:
    troubles = [Trouble(stage, fault) for stage in STAGES for fault in REASONS]
    program.model.script = Model(troubles, program.scripted)
    async with program.worker(timeout=2.0):
        users = {trouble.code: conversation(trouble.code) for trouble in troubles}
        await program.publish({**users, "calm": conversation("Calm")})
        written = await program.outcome(complete)
    assert discrepancies(written) == []
    letters = letters_of(written)
    assert {event.outcome for event in events_of(written, "calm")} == {"applied"}
    assert "calm" not in letters
    for trouble in troubles:
        lane = "facts" if trouble.stage in {"facts", "preferences", "relation"} else "memo"
        hit = events_of(written, trouble.code, lane)[1 if trouble.stage in COMPARING else 0 : 2]
        others = [event for event in events_of(written, trouble.code) if event not in hit]
        assert others
        assert {event.outcome for event in others} == {"applied"}, trouble.code
        stage = parked_by(trouble)
        fails = stage in {"summary", "extract", "merge", "facts"}
        assert {event.outcome for event in hit} == {"failed" if fails else "applied"}, trouble.code
        parked = Counter({(stage, REASONS[trouble.fault]): len(hit)} if stage else {})
        assert letters.get(trouble.code, Counter()) == parked, trouble.code
        if fails or stage in {"tag", "facts_half", "preferences_half"}:
            assert all(REASONS[trouble.fault] in " ".join(event.errors.values()) for event in hit), trouble.code
        outcomes = {call.outcome for event in hit for call in event.calls if call.stage == trouble.stage}
        assert outcomes == {REASONS[trouble.fault]}, trouble.code
        if trouble.stage == "domain" and stage is None:
            assert all("call_failed" in {drop.reason for drop in event.dropped} for event in hit)


async def test_who_waits_holds_up_nobody(program: Program) -> None:
    """More users wait in each stage than it has places, and the others are through all the same."""
    waiting = [stage for stage in STAGES if stage != "domain"]
    troubles = [Trouble(stage, "overloaded", name=letter) for stage in waiting for letter in "abc"]
    program.model.script = Model(troubles, program.scripted)
    calm = [f"Calm{letter}" for letter in "abcdefgh"]
    async with program.worker({"concurrency": 2}, attempts=1):
        users = [*(trouble.code for trouble in troubles), *calm]
        await program.publish({user: conversation(user) for user in users})
        before = await program.outcome(lambda written: all(len(events_of(written, user)) == 6 for user in calm), 30)
        for trouble in troubles:
            assert len(events_of(before, trouble.code)) < 6
            trouble.left = 0
        written = await program.outcome(complete)
    assert discrepancies(written) == []
    assert written.dead_letters == []
    expected = statements(written, calm[0], calm[0])
    for user in users:
        assert {event.outcome for event in events_of(written, user)} == {"applied"}
        assert statements(written, user, user) == expected


async def test_a_server_that_is_away_is_waited_for(program: Program) -> None:
    early, late = "Earlybird", "Latecomer"
    program.model.script = program.scripted
    async with program.worker() as worker:
        await program.model.close()
        await program.publish({early: conversation(early)})
        # Every record that waits says so at each of its tries; the log tells how many lines it left out.
        await waited(lambda: re.search(r"model_unreachable.*\(\d+ more lines like this", worker.log()) is not None)
        await program.publish({late: conversation(late)})
        away = await program.outcome(lambda written: len(written.flushes) == 12)
        assert {event.outcome for event in away.events} == set()
        await program.model.listen()
        written = await program.outcome(complete)
    assert discrepancies(written) == []
    assert written.dead_letters == []
    assert {event.outcome for event in written.events} == {"applied"}
    assert statements(written, early, early) == statements(written, late, late) != []


async def test_what_cannot_be_taken_yet_stays_in_its_topic(program: Program) -> None:
    """With few records open at once, a model that says nothing stops the reading; then all of it arrives."""
    answers = asyncio.Event()

    async def script(request: Request) -> dict[str, Any]:
        await answers.wait()
        return await program.scripted(request)

    expected = 3 * 4  # of the summary, the facts and the domain stage
    program.model.script = script
    users = [f"user-{number}" for number in range(150)]
    async with program.worker({"max_open": 4, "concurrency": 4}, timeout=120) as worker:
        await program.publish(dict.fromkeys(users, ("I live in Oslo.", "I have a dog.")))
        stuck = await program.outcome(lambda written: len(written.flushes) == 600)
        assert stuck.events == []

        async def asked() -> bool:
            return len(program.model.requests) >= expected

        await eventually(asked)
        assert program.model.peak == len(program.model.requests) == expected
        memory = resident(worker.pid)
        answers.set()
        written = await program.outcome(complete)
        assert resident(worker.pid) < memory + 100_000_000
    assert discrepancies(written) == []
    assert written.dead_letters == []
    assert {event.outcome for event in written.events} == {"applied"}
