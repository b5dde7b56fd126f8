"""Runs the program as its users do, in processes of its own, and reads back all that it wrote."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from agents.moved import origin_of
from schemas.codec import decode
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.flushes import FlushBatch, FlushRef, Lane
from streams.embedded.child import end_with_parent
from streams.kafka import consumer
from streams.settings import KafkaSettings
from streams.topics import Topics, ensure_topics

Overrides = Mapping[str, Mapping[str, object]]
Place = tuple[int, int]
"""Partition and offset of a record on the chat topic."""

User = tuple[str, str]
"""Tenant and user id."""


def environment(*overrides: Overrides) -> dict[str, str]:
    """Return this process's environment with settings added as variables."""
    variables = {
        f"PROFILESTREAM_{group}__{name}".upper(): str(value)
        for settings in overrides
        for group, values in settings.items()
        for name, value in values.items()
    }
    return {**os.environ, **variables}


class CommandError(Exception):
    """A command of the program ended with another exit code than expected."""


async def command(*arguments: str, env: Mapping[str, str], expect: Container[int] = (0,)) -> str:
    """Run ``profilestream`` with these arguments and return what it prints.

    Raises:
        CommandError: when its exit code is not among `expect`.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "streams.cli",
        *arguments,
        env=dict(env),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    if process.returncode not in expect:
        raise CommandError(f"{' '.join(arguments)} ended with {process.returncode}: {err.decode()}")
    return out.decode()


class WorkerProcess:
    """``profilestream worker`` as a process of its own, in an asynchronous context manager.

    It ends with the process that starts it, which must do so from its main thread.

    Args:
        env: its environment, with the settings.
        log: gets what it writes to standard error.

    Attributes:
        log_start: where in it the output of the process that was started last begins.
    """

    def __init__(self, env: Mapping[str, str], log: Path) -> None:
        self._env = dict(env)
        self._log = log
        self.log_start = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Its process number."""
        if self._process is None:
            raise RuntimeError("the worker has not been started")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.returncode is None

    async def start(self, limit: float = 60.0) -> None:
        """Start it and wait until it says that it is ready."""
        await self.spawn()
        await self.ready(limit)

    async def spawn(self) -> None:
        """Start it; it joins its groups while the caller goes on."""
        with self._log.open("ab") as log:
            self.log_start = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "streams.cli", "worker"),
                env=self._env,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent,
            )

    async def ready(self, limit: float = 60.0) -> None:
        """Wait until it says that it is ready.

        Raises:
            CommandError: when it ends before that.
            TimeoutError: when it is not ready in time.
        """
        async with asyncio.timeout(limit):
            while "ready." not in self.log(self.log_start):
                if not self.alive:
                    raise CommandError(f"the worker ended with {await self.ended()}: {self.log(self.log_start)}")
                await asyncio.sleep(0.05)

    def log(self, offset: int = 0) -> str:
        """Return what it has logged since `offset`."""
        with self._log.open("rb") as log:
            log.seek(offset)
            return log.read().decode(errors="replace")

    async def kill(self) -> None:
        """End it with SIGKILL."""
        await self._end(signal.SIGKILL)

    async def stop(self, limit: float = 40.0) -> int:
        """End it with SIGTERM and return its exit code."""
        return await self._end(signal.SIGTERM, limit)

    async def ended(self, limit: float = 10.0) -> int:
        """Wait until it ends by itself and return its exit code, below 0 when a signal has ended it."""
        if self._process is None:
            return 0
        async with asyncio.timeout(limit):
            return await self._process.wait()

    async def _end(self, number: signal.Signals, limit: float = 10.0) -> int:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)
        return await self.ended(limit)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.stop()
        except TimeoutError:
            await self.kill()
            raise


@dataclass(slots=True)
class Written:
    """Everything on the topics of the program, decoded, repeats included.

    Attributes:
        published: place and body of each record on the chat topic, but for those that were moved there.
        moved: of the records that were moved to another partition, where they are now: where they were first.
    """

    published: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
    moved: dict[Place, Place] = field(default_factory=dict)
    flushes: list[FlushBatch] = field(default_factory=list)
    events: list[FlushEvent] = field(default_factory=list)
    deltas: list[ProfileDelta] = field(default_factory=list)
    dead_letters: list[ConsumerRecord] = field(default_factory=list)

    @property
    def messages(self) -> int:
        """Messages on the chat topic, control events not counted."""
        return sum(body.get("type", "message") == "message" for _, _, body in self.published)

    @property
    def ended(self) -> int:
        """Messages in windows that have ended, each window counted once."""
        windows = {event.event_id: event.flush for event in self.events if event.flush.lane == "memo"}
        return sum(flush.message_count for flush in windows.values())

    @property
    def forgets(self) -> dict[User, int]:
        """Offset of each user's last request to be forgotten: what lies before it need not end any more."""
        return {_user(body): offset for _, offset, body in self.published if body.get("type") == "forget"}

    @property
    def idle(self) -> bool:
        """Whether every flush has ended, and every user who asked for it is forgotten."""
        ended, forgets = {event.flush.flush_id for event in self.events}, self.forgets
        forgotten = {
            (event.flush.tenant_id, event.flush.user_id): event.flush.last_offset
            for event in self.events
            if event.outcome == "forgotten"
        }
        return all(batch.ref.flush_id in ended or _was_forgotten(batch.ref, forgets) for batch in self.flushes) and all(
            forgotten.get(user) == offset for user, offset in forgets.items()
        )

    @property
    def complete(self) -> bool:
        """Whether every message is in a window that has ended, and every flush has ended."""
        ended, forgets = {event.flush.flush_id for event in self.events}, self.forgets
        homes = {
            self.moved.get(place, place)
            for batch in self.flushes
            if batch.ref.lane == "memo" and batch.ref.flush_id in ended
            for place in ((batch.ref.partition, message.offset) for message in batch.messages)
        }
        waiting = any(
            body.get("type", "message") == "message"
            and offset > forgets.get(_user(body), -1)
            and (partition, offset) not in homes
            for partition, offset, body in self.published
        )
        return bool(self.messages) and not waiting and self.idle


async def read_topics(kafka: KafkaSettings, until: Callable[[Written], bool], limit: float) -> Written:
    """Read all topics from their start until `until` holds and nothing more comes for a moment.

    Raises:
        TimeoutError: when it does not hold after `limit` seconds.
    """
    names = Topics.of(kafka)
    partitions = await ensure_topics(kafka)
    topics = (names.messages, names.flushes, names.events, names.deltas, names.dead_letters)
    written = Written()
    async with consumer(kafka) as client, asyncio.timeout(limit):
        places = [TopicPartition(topic, number) for topic in topics for number in range(partitions)]
        client.assign(places)
        await client.seek_to_beginning(*places)
        while True:
            records = await client.getmany(timeout_ms=500)
            for place, batch in records.items():
                _take(written, names, place.topic, batch)
            if not records and until(written):
                return written


def _take(written: Written, names: Topics, topic: str, records: Sequence[ConsumerRecord]) -> None:
    for record in records:
        if topic == names.messages:
            origin = origin_of(record.headers)
            if origin is not None:
                written.moved[record.partition, record.offset] = (origin.partition, origin.offset)
                continue
            try:
                body = json.loads(record.value)
            except (ValueError, TypeError, RecursionError):
                body = None
            if not isinstance(body, dict):
                body = {"type": "unreadable"}
            written.published.append((record.partition, record.offset, body))
        elif topic == names.flushes:
            written.flushes.append(decode(record.value, FlushBatch))
        elif topic == names.events:
            written.events.append(decode(record.value, FlushEvent))
        elif topic == names.deltas:
            written.deltas.append(decode(record.value, ProfileDelta))
        else:
            written.dead_letters.append(record)


def discrepancies(written: Written) -> list[str]:
    """Return what does not add up, a sentence each; an empty list when everything does.

    Every message is in exactly one window, and in one flush of lane ``facts`` at the most, every flush in exactly one
    event, every delta is cited by the event of its flush, and each user's versions rise by one. Repeated records count
    once, and must be equal to the letter.
    """
    problems: list[str] = []
    flushes = {batch.ref.flush_id: batch for batch in written.flushes}
    events = {event.event_id: event for event in written.events}
    deltas = {delta.delta_id: delta for delta in written.deltas}
    differing = [
        *(f"flush {batch.ref.flush_id}" for batch in written.flushes if flushes[batch.ref.flush_id] != batch),
        *(f"event {event.event_id}" for event in written.events if events[event.event_id] != event),
        *(f"delta {delta.delta_id}" for delta in written.deltas if deltas[delta.delta_id] != delta),
    ]
    problems += [f"{what} was sent with two contents" for what in differing]
    homes: Counter[tuple[Lane, Place]] = Counter()
    for batch in flushes.values():
        for message in batch.messages:
            place = (batch.ref.partition, message.offset)
            homes[batch.ref.lane, written.moved.get(place, place)] += 1
    forgotten = {
        (event.flush.tenant_id, event.flush.user_id): event.flush.last_offset
        for event in events.values()
        if event.outcome == "forgotten"
    }
    for partition, offset, body in written.published:
        if offset < forgotten.get(_user(body), -1):
            continue  # of a user who was forgotten later, a message may be in no window
        if body.get("type", "message") == "message" and homes["memo", (partition, offset)] != 1:
            problems.append(f"message [{partition}]@{offset} is in {homes['memo', (partition, offset)]} windows")
    problems += [f"{place} is in {count} flushes of its lane" for place, count in homes.items() if count != 1]
    ends: dict[str, int] = dict.fromkeys(flushes, 0)
    for event in events.values():
        ends[event.flush.flush_id] = ends.get(event.flush.flush_id, 0) + 1
    problems += [
        f"flush {flush} has {count} events"
        for flush, count in ends.items()
        if count != 1 and not (count == 0 and _was_forgotten(flushes[flush].ref, forgotten))
    ]
    cited = {delta_id for event in events.values() for delta_id in event.delta_ids}
    if cited != set(deltas):
        problems.append(f"{len(cited ^ set(deltas))} deltas are cited and missing, or there and not cited")
    by_user: dict[tuple[str, str], list[int]] = {}
    for delta in deltas.values():
        by_user.setdefault((delta.tenant_id, delta.user_id), []).append(delta.version)
        if delta.op == "forget":
            continue
        flush_messages = {message.message_id for message in flushes[delta.flush_id].messages if message.role == "user"}
        if not delta.evidence or not set(delta.evidence) <= flush_messages:
            problems.append(f"delta {delta.delta_id} cites messages that its user did not write in its flush")
    problems += [
        f"versions of {user} are not 1 to {len(versions)}"
        for user, versions in by_user.items()
        if sorted(versions) != list(range(1, len(versions) + 1))
    ]
    return problems


def _user(body: Mapping[str, Any]) -> User:
    return str(body.get("tenant_id", "default")), str(body.get("user_id", ""))


def _was_forgotten(ref: FlushRef, forgotten: Mapping[User, int]) -> bool:
    """Whether a flush is of before its user was forgotten: then it may have been dropped on its way."""
    return ref.last_offset < forgotten.get((ref.tenant_id, ref.user_id), -1)
