"""A whole worker on Apache Kafka and the embedded stores, whose windows close only when they are told to."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from benchmarks.harness import Overrides, WorkerProcess, environment
from benchmarks.load.measure import Sample, Sampler
from benchmarks.load.plan import APACHE, Plan
from benchmarks.load.run import metrics_address
from benchmarks.load.services import open_services
from streams.embedded.child import ServiceFailed
from streams.settings import KafkaSettings, load_settings

_NEVER: Final = str(10**9)

OPEN: Final[Mapping[str, str]] = {
    "window.tokens": _NEVER,
    "window.messages": _NEVER,
    "window.idle": _NEVER,
    "window.age": _NEVER,
    "window.horizon": _NEVER,
}
"""Settings with which no window closes by itself."""

_PIPELINE: Final = f"max_chat_blob_buffer_process_token_size: {_NEVER}\n"
_PATIENCE: Final = 300.0
"""Seconds without progress after which a run is given up."""

_LOOK: Final = 0.5


@dataclass(frozen=True, slots=True)
class Place:
    """Services for one worker after the other.

    Attributes:
        kafka: where the worker's topics are.
        overrides: settings that lead a worker here.
    """

    folder: Path
    kafka: KafkaSettings
    overrides: Overrides

    def worker(self) -> WorkerProcess:
        """Return a worker that is not started."""
        pipeline = self.folder / "pipeline.yaml"
        pipeline.write_text(_PIPELINE)
        env = environment(self.overrides) | {"PROFILESTREAM_PIPELINE_FILE": str(pipeline)}
        return WorkerProcess(env, self.folder / "worker.log")


@asynccontextmanager
async def open_place(name: str, settings: Mapping[str, str], folder: Path) -> AsyncIterator[Place]:
    """Start Apache Kafka and the embedded stores in a folder, for workers with the rules and these settings.

    Raises:
        ServiceFailed: when one does not start.
        SettingsError: when the settings are wrong.
    """
    plan = Plan(name=name, kafka=APACHE, settings={**OPEN, **settings})
    async with open_services(plan, folder, lambda groups: load_settings(overrides=groups), sys.executable) as services:
        yield Place(folder, services.settings.kafka, services.overrides)


class Watched:
    """A worker whose metrics are read.

    Args:
        worker: started.

    Attributes:
        began: when it was first looked at, by the monotonic clock.
    """

    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker
        self._sampler: Sampler | None = None
        self.began = time.monotonic()

    async def sample(self) -> Sample | None:
        """Return what it says of itself now, or None while it does not answer.

        Raises:
            ServiceFailed: when it has ended.
        """
        if not self._worker.alive:
            said = self._worker.log(self._worker.log_start).strip().splitlines()[-1:]
            raise ServiceFailed(f"the worker ended with {await self._worker.ended()}: {''.join(said)}")
        if self._sampler is None:
            if "metrics at http" not in self._worker.log(self._worker.log_start):
                return None
            self._sampler = Sampler(
                [metrics_address(self._worker)],
                lambda: (0, 0),
                lambda: time.monotonic() - self.began,
                lambda _sample: None,
            )
        try:
            return await self._sampler.take()
        except (aiohttp.ClientError, TimeoutError):
            return None

    async def until(
        self, holds: Callable[[Sample], bool], on_sample: Callable[[Sample], None] = lambda _: None, look: float = _LOOK
    ) -> Sample:
        """Wait until something holds of what the worker says, and return that.

        Args:
            holds: what is waited for.
            on_sample: shown every sample.
            look: seconds between two looks.

        Raises:
            ServiceFailed: when the worker ends.
            TimeoutError: when nothing moves any more.
        """
        known: object = None
        since = time.monotonic()
        while True:
            sample = await self.sample()
            if sample is not None:
                on_sample(sample)
                if holds(sample):
                    return sample
            moved = sample and (sample.workers.consumed, sample.workers.running, sample.workers.window_messages)
            if moved != known:
                known, since = moved, time.monotonic()
            elif time.monotonic() - since > _PATIENCE:
                raise TimeoutError(f"the worker has done nothing for {_PATIENCE:.0f} s")
            await asyncio.sleep(look)


def idle(sample: Sample) -> bool:
    """Whether all that has been made of messages so far has come to its end."""
    workers = sample.workers
    return not any(workers.running.values()) and not any(lag for stage, lag in workers.lag.items() if stage != "window")
