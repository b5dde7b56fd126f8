"""`PacedConsumer`: asks the broker for records at most so often, and has at once what it is given.

Records that trickle would otherwise be fetched one by one, at several times their cost. They gather at the broker and
not here: a record that waits here, fetched, keeps those behind it from being asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from aiokafka import AIOKafkaConsumer
from aiokafka.protocol.fetch import FetchRequest
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

Send = Callable[..., Awaitable[Any]]
"""Sends a request to a node of the cluster, and returns its answer."""


def paced(send: Send, interval: float) -> Send:
    """Return the same, with fetches from a node that begin at least `interval` seconds after each other."""
    due: dict[Any, float] = {}

    async def paced_send(node: Any, request: Any, **options: Any) -> Any:
        if isinstance(request, FetchRequest):
            loop = asyncio.get_running_loop()
            if (wait := due.get(node, 0.0) - loop.time()) > 0:
                await asyncio.sleep(wait)
            due[node] = loop.time() + interval
        return await send(node, request, **options)

    return paced_send


class _Task:
    """Serves a service of Faust's for threads in a task of the present event loop: what Faust starts and stops.

    Args:
        service: has this loop as its own.
    """

    def __init__(self, service: Any) -> None:
        self._service = service
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to serve."""
        self._task = asyncio.create_task(self._serve(), name=self._service.label)

    async def _serve(self) -> None:
        try:
            await self._service._serve()
        except Exception:  # the service has told who waits for it, and the application
            self._service.set_shutdown()

    def stop(self) -> None:
        """Do nothing: the service is told by an event of its own, and `ended` waits."""

    async def ended(self) -> None:
        """Wait until nothing is served any more."""
        if self._task is not None:
            await asyncio.wait({self._task})


class PacedConsumer(driver.AIOKafkaConsumerThread):
    """Faust's consumer, with fetches that are as far apart as the application's `fetch_interval`, and without a thread.

    In a thread of its own each fetch, each poll and each answer would wait for the interpreter's lock, which the event
    loop gives up after 5 ms. What a thread is for, heartbeats while the event loop is blocked, is not wanted: this
    program's never is, and a worker whose event loop stands still is better replaced.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, thread_loop=asyncio.get_running_loop(), Worker=_Task, **kwargs)

    async def getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:
        """Return records, at once where some have been fetched, or wait for them."""
        consumer = self._ensure_consumer()
        limit = consumer._max_poll_records
        return await self._fetch_records(consumer, cast(Any, active_partitions), timeout=timeout, max_records=limit)

    async def stop(self) -> None:
        """Stop, and wait until everything of it has ended."""
        await super().stop()
        if self._thread is not None:
            await cast(Any, self._thread).ended()

    async def _keepalive2(self) -> None:
        """Look after no thread."""

    async def _gather_remaining_tasks(self) -> None:
        """Cancel no other task: they are not this consumer's."""

    def _create_consumer(self, loop: asyncio.AbstractEventLoop) -> AIOKafkaConsumer:
        consumer = super()._create_consumer(loop)
        client: Any = consumer._client
        interval: float = self.app.fetch_interval  # type: ignore[attr-defined]
        client.send = paced(client.send, interval)
        return consumer
