"""`streams.fetching`: fetches from a node begin at intervals, and nothing else waits for them."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.metadata import MetadataRequest

from streams.faust_app import create_app
from streams.fetching import paced
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


async def test_its_event_loop_is_of_the_workers_kind_and_closed_with_it() -> None:
    thread: Any = create_app(Settings(), "group").consumer._thread  # type: ignore[attr-defined]
    assert type(thread.thread_loop) is type(asyncio.get_running_loop())
    assert thread.thread_loop is not asyncio.get_running_loop()
    assert thread._close_thread_loop_on_stop
    thread.thread_loop.close()
    thread._stopped_set()  # to stop one that has crashed is no error
