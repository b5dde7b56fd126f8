"""A steady rate of messages for some minutes: memory stays flat, and what is in flight does not grow.

``python -m tests.chaos.soak --minutes 10 --rate 40`` runs Apache Kafka, the embedded stores and one worker. It prints
the worker's memory and, for each topic, how many records are not acknowledged, at each minute; then it closes all
windows, waits until nothing is left unacknowledged, and accounts for every message. It ends with 1 when something does
not add up, is left, or when memory has grown after it was warm.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiokafka import TopicPartition

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.harness import Overrides, WorkerProcess
from streams.embedded.services import EmbeddedServices
from streams.kafka import consumer, producer
from streams.settings import KafkaSettings
from streams.topics import Topics, ensure_topics
from tests.chaos.storm import Stage
from tests.chaos.talk import Spoken, send, talk
from tests.support.brokers import own_names

_TICK: Final = 0.1
_WARM: Final = 3
"""Minutes after which memory should not grow any more."""

_GROWTH: Final = 0.10
"""What it may have grown by then, as a share: the allocator is not exact."""

_LIMIT: Final = 300.0

WINDOWS: Overrides = {"window": {"idle": 5.0, "age": 60.0, "messages": 12, "tokens": 400}}


@dataclass(frozen=True)
class Sample:
    """What was seen at a minute.

    Attributes:
        minute: since the first message.
        sent: messages so far.
        memory: of the worker, resident, in MiB.
        open: records of each topic that are not acknowledged; of the chat topic, those in open windows included.
    """

    minute: int
    sent: int
    memory: float
    open: Mapping[str, int]

    def __str__(self) -> str:
        shown = "  ".join(f"{topic} {count}" for topic, count in self.open.items())
        return f"{self.minute:>3} min  {self.sent:>7} messages  {self.memory:6.1f} MiB  open: {shown}"


def resident(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)


async def unacknowledged(kafka: KafkaSettings) -> dict[str, int]:
    """Return how many records of each topic its readers have not acknowledged; of two readers, the slower counts."""
    names = Topics.of(kafka)
    readers = {
        kafka.group_id: (names.messages, names.flushes, names.memos, names.candidates),
        f"{kafka.group_id}-archive": (names.deltas, names.events),
        f"{kafka.group_id}-index": (names.deltas,),
    }
    found: dict[str, int] = {}
    for group, topics in readers.items():
        async with consumer(kafka, group_id=group) as client:
            for topic in topics:
                places = [TopicPartition(topic, number) for number in range(kafka.partitions)]
                client.assign(places)
                ends = await client.end_offsets(places)
                left = sum([ends[place] - (await client.committed(place) or 0) for place in places])
                name = topic.removeprefix(kafka.topic_prefix).removesuffix(".v1")
                found[name] = max(found.get(name, 0), left)
    return found


class Soak:
    """One run.

    Args:
        stage: where.
        worker: runs.
        lines: what is said.
        rate: messages a second.
    """

    def __init__(self, stage: Stage, worker: WorkerProcess, lines: Sequence[Spoken], rate: float) -> None:
        self._kafka = stage.settings.kafka
        self._worker = worker
        self._lines = lines
        self._rate = rate
        self._sent = 0

    async def publish(self) -> None:
        """Send the messages at the rate, however long each sending takes."""
        topic, partitions = Topics.of(self._kafka).messages, await ensure_topics(self._kafka)
        async with producer(self._kafka) as client:
            begun = time.monotonic()
            while self._sent < len(self._lines):
                due = min(len(self._lines), int((time.monotonic() - begun) * self._rate))
                await send(client, topic, partitions, self._lines[self._sent : due])
                self._sent = max(self._sent, due)
                await asyncio.sleep(_TICK)

    async def samples(self) -> list[Sample]:
        """Look at the worker each minute until everything is sent."""
        found: list[Sample] = []
        publishing = asyncio.create_task(self.publish())
        begun = time.monotonic()
        try:
            while not publishing.done():
                await asyncio.wait([publishing], timeout=60 * (len(found) + 1) - (time.monotonic() - begun))
                found.append(await self._sample(len(found) + 1))
                print(found[-1], flush=True)
        finally:
            publishing.cancel()
        return found

    async def _sample(self, minute: int) -> Sample:
        return Sample(minute, self._sent, resident(self._worker.pid), await unacknowledged(self._kafka))

    async def emptied(self) -> float:
        """Wait until every record is acknowledged and return the seconds that it took.

        Raises:
            TimeoutError: when it takes too long.
        """
        begun = time.monotonic()
        async with asyncio.timeout(_LIMIT):
            while sum((await unacknowledged(self._kafka)).values()):
                await asyncio.sleep(0.5)
        return time.monotonic() - begun


async def soak(folder: Path, minutes: float, rate: float, users: int, seed: int) -> list[str]:
    """Run it, print what is seen, and return what is wrong."""
    messages = round(minutes * 60 * rate)
    lines = talk(seed, messages, users)
    async with (
        ApacheKafka(folder / "kafka") as broker,
        EmbeddedServices(folder / "stores", broker.settings()) as services,
    ):
        stage = Stage(folder / "worker", {**services.settings, "kafka": own_names(broker.bootstrap_servers)}, WINDOWS)
        async with stage.worker("worker") as worker:
            run = Soak(stage, worker, lines, rate)
            samples = await run.samples()
            seconds = await run.emptied()
            result = await stage.result(messages, _LIMIT)
            print(f"everything acknowledged {seconds:.1f} s after the last message, {resident(worker.pid):.1f} MiB")
            print(result)
    problems = list(result.problems)
    warm = [sample.memory for sample in samples if sample.minute >= min(_WARM, len(samples))]
    if max(warm) > warm[0] * (1 + _GROWTH):
        problems.append(f"memory has grown from {warm[0]:.1f} to {max(warm):.1f} MiB since it was warm")
    return problems


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=40.0, help="messages a second (default 40)")
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="profilestream-soak-") as folder:
        problems = asyncio.run(soak(Path(folder), options.minutes, options.rate, options.users, options.seed))
    for problem in problems:
        print(f"wrong: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
