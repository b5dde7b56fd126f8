"""Runs a worker, alone or together with the embedded services, from start to an orderly stop."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from aiokafka.errors import KafkaError

from schemas.deltas import FlushEvent
from streams.app import Worker
from streams.carried_letters import Carried, carried_letters
from streams.draining import Drained
from streams.embedded.child import ServiceFailed
from streams.embedded.services import EmbeddedServices
from streams.kafka import unavailable
from streams.late_messages import park_late
from streams.letters import User
from streams.metrics_server import serve_metrics
from streams.patience import be_patient
from streams.pipeline_file import load_pipeline
from streams.processors import open_processor, processor_name
from streams.registry import announce, withdraw
from streams.restore import restore_profiles
from streams.runtime import utc_now
from streams.settings import Settings
from streams.stores import open_archive, open_vectors
from streams.unfinished_forgets import finish_forgets

Result = TypeVar("Result")
LoadSettings = Callable[[dict[str, dict[str, str | int | float | bool]]], Settings]
"""Reads the settings with these on top."""

logger = logging.getLogger(__name__)

_STOP_SECONDS: Final = 15.0
"""Beyond the drain: to commit, flush the producers and leave the groups."""

_PATIENCE: Final = 120.0
"""Seconds without progress that an embedded pipeline may take before what it waits for is parked."""

_COLLECTED_AFTER: Final = (20_000, 20, 20)
"""New objects after which Python looks for garbage. Records come and go in crowds and leave hardly any: looking after
every 700, as it does by itself, takes a tenth of a loaded worker's processor time."""

_SAY_AGAIN: Final = 10.0

_LOST: Final = (
    "profiles are kept as far as they are archived; messages in open windows and what was being processed are lost: "
    "start `profilestream up` again and publish those once more"
)


class WorkerCrashed(Exception):
    """The worker cannot go on; the message says why and what to do."""


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on the fastest event loop that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


@contextlib.contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """Yield an event that SIGINT and SIGTERM set; the second signal ends the process at once.

    At once means without unwinding: the services end with their parent, and what is not committed is read again.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def stop_or_end(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    for number in numbers:
        loop.add_signal_handler(number, stop_or_end, number)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@asynccontextmanager
async def open_worker(settings: Settings, *, embedded: bool) -> AsyncIterator[Worker]:
    """Open stores and processor, and yield a started worker; it is stopped when the block is left.

    Args:
        settings: of the process.
        embedded: the broker keeps nothing: what was cut short when users were forgotten is finished and profiles are
            restored from the archive first, and what is outstanding is tracked so that `Worker.drain` can bring it into
            the stores.

    Raises:
        KafkaUnavailable: when the broker does not answer.
        TopicsError: when its topics are not as they must be.
        SinkUnavailable: when a store does not answer.
        SinkRejected: when it refuses this client.
        PipelineFileError: when the pipeline file is wrong.
        MetricsUnavailable: when the metrics cannot be served where the settings say.
    """
    be_patient()
    config = load_pipeline(settings.pipeline_file)
    async with (
        open_processor(settings.model, config) as processor,
        open_archive(settings.clickhouse) as store,
        open_vectors(settings) as vectors,
    ):
        await store.migrate()
        if embedded:
            await finish_forgets(store, vectors)
            await restore_profiles(store.profiles(), settings.kafka)
        worker = await Worker.create(settings, config, processor, store, vectors, track=embedded)
        try:
            try:
                await worker.start()
            except KafkaError as error:
                raise unavailable(settings.kafka, error) from error
            async with serve_metrics(settings.metrics, worker.collector) as worker.metrics_address:
                collect_seldom()
                yield worker
        finally:
            await _stop_or_end(worker, settings.lanes.drain + _STOP_SECONDS, _fate(embedded))


def collect_seldom() -> None:
    """Have Python look for garbage less often, and never among what there is by now, which stays.

    A full collection, which stops everything, need not look at it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)


def _fate(embedded: bool) -> str:
    """Return what becomes of what a worker had not finished."""
    return "what was not in the stores is lost" if embedded else "what was not committed will be read again"


async def _stop_or_end(worker: Worker, limit: float, fate: str) -> None:
    """Stop a worker; end the process when that takes too long, as it does when the broker has gone for good."""
    try:
        async with asyncio.timeout(limit):
            await worker.stop()
    except TimeoutError:
        logger.error("the worker did not stop within %.0f s and is ended: %s", limit, fate)
        os._exit(1)


async def until_stopped(worker: Worker, stop: asyncio.Event, *also: Awaitable[str]) -> None:
    """Wait for the stop event.

    Raises:
        WorkerCrashed: when the worker fails, or one of the services named by `also` ends, before that.
    """
    stopped = asyncio.ensure_future(stop.wait())
    crashed = asyncio.ensure_future(worker.crashed())
    ended = [asyncio.ensure_future(service) for service in also]
    waits = {stopped, crashed, *ended}
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    if stopped in done:
        return
    if crashed in done:
        reason = crashed.result()
        logger.error("the worker cannot go on: %r", reason)
        what_now = "nothing is lost: start it again" if worker.outstanding is None else _LOST
        raise WorkerCrashed(f"the worker cannot go on ({type(reason).__name__}: {reason}); {what_now}")
    service = next(task for task in ended if task in done).result()
    logger.error("the embedded %s has ended by itself: stopping", service)
    raise WorkerCrashed(f"the embedded {service} has ended by itself; {_LOST}")


@contextlib.contextmanager
def own_data_dir(data_dir: Path) -> Iterator[None]:
    """Own a data directory for the duration of the block.

    Raises:
        ServiceFailed: when it cannot be made, or another process owns it.
    """
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = (data_dir / "lock").open("w")
    except OSError as error:
        raise ServiceFailed(f"the data directory {data_dir} cannot be used: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ServiceFailed(
                f"another `profilestream up` is using {data_dir}: stop it, or choose another folder with --data-dir"
            ) from None
        yield


class Embedded:
    """The embedded services with a running worker: what `profilestream up` is.

    Attributes:
        settings: in force for the worker; they hold the services' addresses.
        worker: started.
        letters: the dead letters that are kept for the next start.
        late: messages that were published after `drain` had closed the windows, and are dead letters now.
    """

    def __init__(self, services: EmbeddedServices, settings: Settings, worker: Worker, letters: Carried) -> None:
        self._services = services
        self.settings = settings
        self.worker = worker
        self.letters = letters
        self.late = 0
        self._drained = False

    @classmethod
    @asynccontextmanager
    async def open(cls, data_dir: Path, load: LoadSettings) -> AsyncIterator[Embedded]:
        """Start services and worker, announce them to the other commands, and undo all of it at the end.

        Dead letters come back at the start, and are taken from the broker once the worker has stopped.

        Raises:
            ServiceFailed: when a service does not start, or the dead letters cannot be kept.
        """
        with own_data_dir(data_dir):
            async with EmbeddedServices(data_dir) as services:
                settings = load(services.settings)
                async with (
                    carried_letters(data_dir, settings.kafka, partial(_forgotten, settings)) as letters,
                    AsyncExitStack() as stopped,
                    open_worker(settings, embedded=True) as worker,
                ):
                    embedded = cls(services, settings, worker, letters)
                    stopped.push_async_callback(embedded.park_late)
                    announce(
                        data_dir,
                        services.settings,
                        services.processes,
                        processor=processor_name(settings.model),
                        metrics=worker.metrics_address or "",
                    )
                    try:
                        yield embedded
                    finally:
                        withdraw(data_dir)

    async def run(self, stop: asyncio.Event) -> None:
        """Wait for the stop event or a failure.

        Raises:
            WorkerCrashed: when the worker or a service fails before that.
        """
        await until_stopped(self.worker, stop, self._services.first_to_end())

    async def park_late(self) -> None:
        """Park what was published after the windows were closed; called when the worker has stopped."""
        if self._drained:
            self.late = await park_late(self.settings.kafka, self.worker.window.read_up_to, utc_now)

    async def drain(self, say: Callable[[int], None]) -> Drained:
        """Bring everything into the stores, and park what does not get there because a service does not answer.

        Args:
            say: told now and then how much is outstanding.

        Raises:
            WorkerCrashed: when the worker or a service fails meanwhile.
        """
        # A request that is still within its time limit may be answered.
        patience = max(_PATIENCE, self.settings.model.timeout)
        tasks = (
            asyncio.create_task(self.worker.drain(patience)),
            asyncio.create_task(self.run(asyncio.Event())),
            asyncio.create_task(self._tell(say)),
        )
        draining, failing, _ = tasks
        try:
            await asyncio.wait({draining, failing}, return_when=asyncio.FIRST_COMPLETED)
            if not draining.done():
                failing.result()
            self._drained = True
            return draining.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell(self, say: Callable[[int], None]) -> None:
        while True:
            await asyncio.sleep(_SAY_AGAIN)
            say(len(self.worker.outstanding or ()))


async def _forgotten(settings: Settings, users: Iterable[User]) -> Sequence[FlushEvent]:
    async with open_archive(settings.clickhouse) as store:
        await store.migrate()
        return await store.forgotten(users)
