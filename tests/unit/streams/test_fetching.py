"""`streams.fetching`: fetches from a node begin at intervals, and nothing else waits for them."""

from __future__ import annotations

import asyncio
import inspect
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.metadata import MetadataRequest
from faust.types import TP

from streams.faust_app import create_app
from streams.fetching import PacedConsumer, paced
from streams.settings import Settings

FETCH = FetchRequest(500, 1, 1_000, 0, [], rack_id="")
OTHER = MetadataRequest([])


class Clock:
    """A clock that a sleep moves on, and what was sent when."""

    def __init__(self) -> None:
        self.now = 100.0
        self.sent: list[tuple[float, Any, Any]] = []
        self.takes = 0.0

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now = round(self.now + seconds, 6)

    async def send(self, node: Any, request: Any, **options: Any) -> str:
        self.sent.append((self.now, node, request))
        self.now += self.takes
        return f"answer {len(self.sent)} {options}"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("streams.fetching.asyncio.get_running_loop", lambda: clock)
    monkeypatch.setattr("streams.fetching.asyncio.sleep", clock.sleep)
    return clock


async def test_fetches_begin_at_intervals(clock: Clock) -> None:
    send = paced(clock.send, 0.01)
    assert await send(1, FETCH, group="g") == "answer 1 {'group': 'g'}"
    for _ in range(2):
        await send(1, FETCH)
    assert [when for when, *_ in clock.sent] == [100.0, 100.01, 100.02]


async def test_one_that_took_longer_is_followed_at_once(clock: Clock) -> None:
    send = paced(clock.send, 0.01)
    clock.takes = 0.5
    for _ in range(3):
        await send(1, FETCH)
    assert [when for when, *_ in clock.sent] == [100.0, 100.5, 101.0]


async def test_other_nodes_and_other_requests_wait_for_nothing(clock: Clock) -> None:
    send = paced(clock.send, 0.01)
    for node, request in ((1, FETCH), (2, FETCH), (1, OTHER), (1, OTHER)):
        await send(node, request)
    assert [when for when, *_ in clock.sent] == [100.0] * 4


async def test_one_that_is_cancelled_while_it_waits_is_not_sent() -> None:
    clock = Clock()
    send = paced(clock.send, 60.0)
    await send(1, FETCH)
    waiting = asyncio.ensure_future(send(1, FETCH))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(clock.sent) == 1


async def test_a_workers_consumer_fetches_like_that(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(AIOKafkaClient, "send", lambda _self, node, request: clock.send(node, request))
    app = create_app(Settings(), "group")
    app.fetch_interval = 60.0
    client = app.consumer._thread._create_consumer(asyncio.get_running_loop())._client  # type: ignore[attr-defined]
    await client.send(1, FETCH)
    await client.send(1, OTHER)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(client.send(1, FETCH), 0.05)
    assert [request for _, _, request in clock.sent] == [FETCH, OTHER]


def test_aiokafka_fetches_by_this_call() -> None:
    assert "await self._client.send(node_id, request)" in inspect.getsource(Fetcher._proc_fetch_request)
    assert "FetchRequest(" in inspect.getsource(Fetcher._get_actions_per_node)


async def test_a_workers_consumer_lives_in_its_event_loop() -> None:
    consumer: Any = create_app(Settings(), "group").consumer._thread  # type: ignore[attr-defined]
    assert consumer.thread_loop is consumer.parent_loop is asyncio.get_running_loop()


class Served(PacedConsumer):
    """A consumer of which only what serves it is real."""

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__(create_app(Settings(), "group").consumer)
        self.failure = failure
        self.told: list[BaseException] = []
        self.where: list[threading.Thread] = []
        self.stopping = asyncio.Event()
        self.stopped = False

    async def on_start(self) -> None:
        self.where.append(threading.current_thread())
        if self.failure is not None:
            raise self.failure

    async def on_thread_stop(self) -> None:
        await self.stopping.wait()
        self.stopped = True

    async def crash(self, exc: BaseException) -> None:
        self.told.append(exc)
        await super().crash(exc)

    def on_crash(self, msg: str, *fmt: Any, **kwargs: Any) -> None:
        pass  # which prints


async def test_it_is_served_without_a_thread_until_it_is_stopped() -> None:
    consumer = Served()
    bystander = asyncio.create_task(asyncio.Event().wait())
    await consumer.start()
    assert consumer.where == [threading.current_thread()]
    stopping = asyncio.create_task(consumer.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    consumer.stopping.set()
    await asyncio.wait_for(stopping, 10)
    assert consumer.stopped
    assert not bystander.done()
    bystander.cancel()


async def test_who_starts_one_that_fails_is_told() -> None:
    failure = OSError("no broker")
    consumer = Served(failure)
    consumer.stopping.set()
    with pytest.raises(OSError, match="no broker"):
        await consumer.start()
    await asyncio.wait_for(consumer.stop(), 10)
    assert consumer.told == [failure]


async def test_a_poll_asks_the_client_at_once_and_takes_no_more_than_one_poll_may() -> None:
    asked: list[dict[str, Any]] = []
    consumer = Served()
    consumer._consumer = cast(Any, SimpleNamespace(_max_poll_records=7))

    async def fetch(_client: Any, partitions: Any, **limits: Any) -> str:
        asked.append({"partitions": partitions, **limits})
        return "records"

    consumer._fetch_records = fetch  # type: ignore[assignment]
    place = TP("topic", 0)
    with pytest.raises(StopIteration) as end:
        consumer.getmany({place}, 1.5).send(None)  # which does not wait for anything
    assert end.value.value == "records"
    assert asked == [{"partitions": {place}, "timeout": 1.5, "max_records": 7}]
