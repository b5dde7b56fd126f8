"""Runs the program as its users do, in processes of its own, and reads back all that it wrote."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aiokafka import TopicPartition
from aiokafka.structs import ConsumerRecord

from schemas.codec import decode
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.flushes import FlushBatch
from streams.kafka import consumer
from streams.settings import KafkaSettings
from streams.topics import Topics, ensure_topics

Overrides = Mapping[str, Mapping[str, object]]


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

    Args:
        env: its environment, with the settings.
        log: gets what it writes to standard error.
    """

    def __init__(self, env: Mapping[str, str], log: Path) -> None:
        self._env = dict(env)
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, limit: float = 60.0) -> None:
        """Start it and wait until it says that it is ready."""
        with self._log.open("ab") as log:
            written = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "streams.cli", "worker", env=self._env, stderr=log, stdout=log
            )
        async with asyncio.timeout(limit):
            while "ready." not in self.log(written):
                if self._process.returncode is not None:
                    raise CommandError(f"the worker ended with {self._process.returncode}: {self.log(written)}")
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

    async def _end(self, number: signal.Signals, limit: float = 10.0) -> int:
        if self._process is None:
            return 0
        if self._process.returncode is None:
            self._process.send_signal(number)
        async with asyncio.timeout(limit):
            return await self._process.wait()

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
        published: place and body of each record on the chat topic.
    """

    published: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
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
        """Messages in flushes that have ended, each flush counted once."""
        return sum({event.event_id: event.flush.message_count for event in self.events}.values())


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

    Every message is in exactly one flush, every flush in exactly one event, every delta is cited by the event of its
    flush, and each user's versions rise by one. Repeated records count once, and must be equal to the letter.
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
    homes: dict[tuple[int, int], list[str]] = {}
    for batch in flushes.values():
        for message in batch.messages:
            homes.setdefault((batch.ref.partition, message.offset), []).append(batch.ref.flush_id)
    for partition, offset, body in written.published:
        if body.get("type", "message") == "message" and len(homes.get((partition, offset), [])) != 1:
            problems.append(f"message [{partition}]@{offset} is in {len(homes.get((partition, offset), []))} flushes")
    ends: dict[str, int] = dict.fromkeys(flushes, 0)
    for event in events.values():
        ends[event.flush.flush_id] = ends.get(event.flush.flush_id, 0) + 1
    problems += [f"flush {flush} has {count} events" for flush, count in ends.items() if count != 1]
    cited = {delta_id for event in events.values() for delta_id in event.delta_ids}
    if cited != set(deltas):
        problems.append(f"{len(cited ^ set(deltas))} deltas are cited and missing, or there and not cited")
    by_user: dict[tuple[str, str], list[int]] = {}
    for delta in deltas.values():
        by_user.setdefault((delta.tenant_id, delta.user_id), []).append(delta.version)
        flush_messages = {message.message_id for message in flushes[delta.flush_id].messages if message.role == "user"}
        if not delta.evidence or not set(delta.evidence) <= flush_messages:
            problems.append(f"delta {delta.delta_id} cites messages that its user did not write in its flush")
    problems += [
        f"versions of {user} are not 1 to {len(versions)}"
        for user, versions in by_user.items()
        if sorted(versions) != list(range(1, len(versions) + 1))
    ]
    return problems
