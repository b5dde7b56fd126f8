"""One run: services, model and workers start, the traffic is sent, and it ends when every message is accounted for."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from benchmarks.harness import CommandError, Overrides, WorkerProcess, environment
from benchmarks.load.following import Follower
from benchmarks.load.measure import Sample, Sampler, cpu_seconds
from benchmarks.load.plan import Plan
from benchmarks.load.report import RunReport, run_report
from benchmarks.load.sending import Sender
from benchmarks.load.services import LoadSettings, Services, nested, open_services
from benchmarks.load.traffic import Message
from streams.embedded.child import ServiceFailed
from streams.kafka import producer
from streams.pipeline_file import load_pipeline
from streams.settings import describe
from streams.stores import open_archive
from streams.topics import Topics, ensure_topics

T = TypeVar("T")

_READY_LIMIT: Final = 120.0
_POLL: Final = 0.1
_ADDRESS: Final = re.compile(r"metrics at (http://\S+)")


@dataclass(frozen=True, slots=True)
class Progress:
    """What is shown while a run goes on.

    Attributes:
        doing: in a few words.
        messages: of the run.
        sent: of these, that the broker has.
        ended: of these, in windows that have ended.
        sample: the last one of the workers.
    """

    doing: str
    messages: int
    sent: int = 0
    ended: int = 0
    sample: Sample | None = None


@dataclass(frozen=True, slots=True)
class Bench:
    """What all runs of a command share.

    Attributes:
        load: reads the settings, with others on top.
        variables: of the environment of workers, which make them read the same.
        show: is told how a run goes on.
    """

    load: LoadSettings
    variables: Mapping[str, str]
    show: Callable[[Progress], None]

    async def run(self, plan: Plan, folder: Path) -> RunReport:
        """Run it; data and logs are left in the folder, which must not exist.

        Raises:
            SettingsError: when the settings are wrong.
            ServiceFailed: when a service or a worker does not start, or ends.
            KafkaUnavailable: when the broker does not answer.
            SinkUnavailable: when a store does not answer.
        """
        self.load(nested(plan.settings))  # a mistake is said before anything is started
        await asyncio.to_thread(folder.mkdir, parents=True)
        self.show(Progress(f"{plan.name}: making the messages", plan.traffic.messages))
        messages = await asyncio.to_thread(list, plan.traffic.records(datetime.now(UTC)))
        self.show(Progress(f"{plan.name}: starting the services", len(messages)))
        async with open_services(plan, folder, self.load, sys.executable) as services, AsyncExitStack() as stack:
            partitions = await ensure_topics(services.settings.kafka)
            workers = await self._start_workers(plan, services.overrides, folder, stack)
            return await self._measure(plan, messages, services, workers, partitions)

    async def _start_workers(
        self, plan: Plan, overrides: Overrides, folder: Path, stack: AsyncExitStack
    ) -> list[WorkerProcess]:
        self.show(Progress(f"{plan.name}: starting the workers", plan.traffic.messages))
        env = environment(overrides) | dict(self.variables)
        workers = [WorkerProcess(env, folder / f"worker-{number}.log") for number in range(1, plan.workers + 1)]
        for worker in workers:
            await worker.spawn()
            stack.push_async_callback(_end, worker)
        try:
            for worker in workers:
                await worker.ready(_READY_LIMIT)
        except CommandError as error:
            said = "; ".join(str(error).strip().splitlines()[-1:])
            raise ServiceFailed(f"a worker of the run ended before it was ready: {said}") from error
        return workers

    async def _measure(
        self,
        plan: Plan,
        messages: list[Message],
        services: Services,
        workers: list[WorkerProcess],
        partitions: int,
    ) -> RunReport:
        settings = services.settings
        tokens = min(
            settings.window.tokens, load_pipeline(settings.pipeline_file).max_chat_blob_buffer_process_token_size
        )
        processes = {
            **{f"worker {number}": worker.pid for number, worker in enumerate(workers, 1)},
            **services.processes,
            "bench": os.getpid(),
        }
        async with producer(settings.kafka) as client, open_archive(settings.clickhouse) as archive:
            sender = Sender(client, Topics.of(settings.kafka).messages)
            follower = Follower(settings.kafka, partitions, sender, tokens)
            begun = time.monotonic()

            def show(sample: Sample) -> None:
                doing = f"{plan.name}: sending" if sender.acknowledged < len(messages) else f"{plan.name}: processing"
                self.show(Progress(doing, len(messages), sample.sent, sample.ended, sample))

            sampler = Sampler(
                [metrics_address(worker) for worker in workers],
                lambda: (sender.acknowledged, follower.seen.ended),
                lambda: time.monotonic() - begun,
                show,
            )
            before = cpu_seconds(processes)
            async with _Beside(follower.run(), sampler.run(), *map(_fail_when_ended, workers)) as beside:
                await beside.guard(sender.send(messages, plan.pace))
                await beside.guard(sender.close_windows())
                ending = _Ending(follower, sampler, archive.counts, len(messages), plan.patience)
                archived, archived_at, stuck = await beside.guard(ending.wait())
                await beside.guard(sampler.take())
            after = cpu_seconds(processes)
        return run_report(
            plan,
            settings={
                shown.name: shown.value
                for shown in describe(settings)
                if shown.source != "default" and shown.name not in services.started
            },
            messages=messages,
            sender=sender,
            follower=follower,
            samples=sampler.samples,
            archived=archived,
            archived_at=archived_at,
            cpu={name: after[name] - before[name] for name in after if name in before},
            in_flight=settings.model.max_in_flight,
            stuck=stuck,
        )


class _Ending:
    """Waits for the end of a run: all messages in windows that ended, all flushes ended, all of it in the archive.

    Args:
        follower: sees the topics.
        sampler: sees the workers.
        counts: says what is in the archive.
        messages: that were sent.
        patience: seconds without progress after which it gives up.
    """

    def __init__(
        self,
        follower: Follower,
        sampler: Sampler,
        counts: Callable[[], Coroutine[Any, Any, dict[str, int]]],
        messages: int,
        patience: float,
    ) -> None:
        self._follower = follower
        self._sampler = sampler
        self._counts = counts
        self._messages = messages
        self._patience = patience

    async def wait(self) -> tuple[dict[str, int], float, str]:
        """Return what is in the archive, since when, and why it did not come to its end, if so."""
        known, moved = (-1, -1, -1, -1.0), time.monotonic()
        archived: dict[str, int] = {}
        while True:
            seen = self._follower.seen
            if await self._on_topics():
                archived = await self._counts()
                if (archived["deltas"], archived["events"]) == (seen.deltas, seen.events):
                    return archived, time.time(), ""
            state = (seen.ended, seen.events, seen.deltas, self._sampler.samples[-1].workers.rows)
            if state != known:
                known, moved = state, time.monotonic()
            elif time.monotonic() - moved > self._patience:
                return await self._counts(), time.time(), f"nothing happened for {self._patience:.0f} s: given up"
            await asyncio.sleep(_POLL)

    async def _on_topics(self) -> bool:
        """Whether every flush that was sent has ended, and all its deltas have come."""
        seen = self._follower.seen
        if seen.ended < self._messages or self._follower.deltas_missing:
            return False
        sent = (await self._sampler.take()).workers.sent
        return seen.of_lane("facts") >= sent.get("facts", 0.0) and seen.of_lane("memo") >= sent.get("memo", 0.0)


class _Beside:
    """Coroutines that run beside the block; `guard` runs one in the foreground for as long as none of them fails."""

    def __init__(self, *coroutines: Coroutine[Any, Any, None]) -> None:
        self._coroutines = coroutines
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(coroutine) for coroutine in self._coroutines]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def guard(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return what the coroutine returns.

        Raises:
            Exception: what one of the others failed with before that.
        """
        own = asyncio.create_task(coroutine)
        try:
            await asyncio.wait({own, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in self._tasks:
                if task.done():
                    task.result()
            return await own
        finally:
            own.cancel()


async def _end(worker: WorkerProcess) -> None:
    """End a worker; how it ends says nothing of the run, whose account is closed."""
    try:
        await worker.stop()
    except TimeoutError:
        await worker.kill()


async def _fail_when_ended(worker: WorkerProcess) -> None:
    while worker.alive:
        await asyncio.sleep(_POLL)
    last = worker.log().strip().splitlines()[-1:]
    raise ServiceFailed(f"a worker of the run ended with {await worker.ended()}: {''.join(last)}")


def metrics_address(worker: WorkerProcess) -> str:
    """Return where a worker that is ready serves its metrics.

    Raises:
        ServiceFailed: when it does not say.
    """
    found = _ADDRESS.search(worker.log(worker.log_start))
    if found is None:
        raise ServiceFailed("a worker of the run does not say where its metrics are")
    return found[1]
