"""`paced`: a consumer asks the broker for records at most so often, and has at once what it is given.

Records that trickle would otherwise be fetched one by one, at several times their cost. They gather at the broker and
not here: a record that waits here, fetched, keeps those behind it from being asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.protocol.fetch import FetchRequest
from faust.transport.drivers import aiokafka as driver

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


class PacedConsumerThread(driver.AIOKafkaConsumerThread):
    """Faust's thread with a client whose fetches are as far apart as the application's `fetch_interval`.

    Its event loop is of the same kind as the one it is made in, and so a fast one where that is.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, thread_loop=type(asyncio.get_running_loop())(), **kwargs)
        self._close_thread_loop_on_stop = True  # as if Faust had made it

    def _stopped_set(self) -> None:
        """Tell the thread to stop, unless it has crashed and its loop is closed: then nobody is there to be told."""
        if not self.thread_loop.is_closed():
            super()._stopped_set()

    def _create_consumer(self, loop: asyncio.AbstractEventLoop) -> AIOKafkaConsumer:
        consumer = super()._create_consumer(loop)
        client: Any = consumer._client
        interval: float = self.app.fetch_interval  # type: ignore[attr-defined]
        client.send = paced(client.send, interval)
        return consumer
