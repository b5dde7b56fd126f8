"""`streams.delivery`: records in place, without a task or a turn for each, and everything else as Faust does it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from faust.agents.actor import Actor
from faust.transport.consumer import Consumer
from faust.types.tuples import ConsumerMessage
from mode import Service
from mode.utils.queues import FlowControlEvent, ThrowableQueue

from streams.delivery import _TURN, PromptDelivery, RawSchema, events_of
from tests.support.fakes import eventually, settled


class Consuming(PromptDelivery, Service):
    """A service that waits like the consumer."""


@pytest.fixture
def consumer() -> Consuming:
    return Consuming()


def test_faust_hands_records_over_by_this_call() -> None:
    source = inspect.getsource(Consumer._drain_messages)
    assert source.count("wait_first(") == 1
    words = " ".join(source.split())
    assert "await self.wait_first( callback(message), self.suspend_flow.wait() ) set_read_offset(tp, offset)" in words


def test_faust_stops_an_agent_by_this() -> None:
    assert "self.stream.channel)._throw(StopAsyncIteration())" in inspect.getsource(Actor.cancel)


async def test_a_record_reaches_an_agent_as_it_is_and_is_acknowledged_to_the_consumer() -> None:
    consumer = Mock(ack=Mock(return_value=True))
    app: Any = SimpleNamespace(consumer=consumer)
    message = ConsumerMessage(
        "topic", 2, 7, timestamp=1.0, timestamp_type=0, headers=[("a", b"1")], key=b"\xff", value=None, checksum=None
    )
    message.incref()
    event = await RawSchema().compile(app)(message)
    assert event.message is message
    assert event.ack()
    consumer.ack.assert_called_once_with(message)


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


class TestWaitFirst:
    async def test_what_does_not_wait_runs_in_place(self, consumer: Consuming) -> None:
        ran: list[object] = []

        async def hand_over() -> str:
            ran.append(asyncio.current_task())
            return "taken"

        tasks = len(asyncio.all_tasks())
        waiting = consumer.wait_first(hand_over(), forever())
        with pytest.raises(StopIteration) as ended:
            waiting.send(None)
        assert ended.value.value.results == ["taken"]
        assert not ended.value.value.stopped
        assert ran == [asyncio.current_task()]
        assert len(asyncio.all_tasks()) == tasks

    async def test_what_waits_goes_on_from_where_it_was(self, consumer: Consuming) -> None:
        steps: list[str] = []
        gates = [asyncio.Event(), asyncio.Event()]

        async def hand_over() -> str:
            for number, gate in enumerate(gates):
                steps.append(f"waits {number}")
                await gate.wait()
            return "taken"

        waiting = asyncio.create_task(consumer.wait_first(hand_over(), forever()))
        await settled()
        assert steps == ["waits 0"]
        gates[0].set()
        await eventually(lambda: steps == ["waits 0", "waits 1"])
        assert not waiting.done()
        gates[1].set()
        assert (await waiting).results == ["taken"]

    async def test_a_pause_ends_the_wait_and_the_hand_over(self, consumer: Consuming) -> None:
        pause = asyncio.Event()
        ended: list[str] = []

        async def hand_over() -> None:
            try:
                await forever()
            finally:
                ended.append("cancelled")

        waiting = asyncio.create_task(consumer.wait_first(hand_over(), pause.wait()))
        await settled()
        pause.set()
        assert (await waiting).results == [True]
        await eventually(lambda: ended == ["cancelled"])

    async def test_a_stop_ends_the_wait(self, consumer: Consuming) -> None:
        waiting = asyncio.create_task(consumer.wait_first(forever(), forever()))
        await settled()
        consumer._stopped.set()
        assert (await waiting).stopped

    @pytest.mark.parametrize("waits_first", [False, True])
    async def test_errors_are_the_callers(self, consumer: Consuming, waits_first: bool) -> None:
        async def hand_over() -> None:
            if waits_first:
                await asyncio.sleep(0)
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await consumer.wait_first(hand_over(), forever())

    async def test_it_can_be_cancelled(self, consumer: Consuming) -> None:
        waiting = asyncio.create_task(consumer.wait_first(forever(), forever()))
        await settled()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    @pytest.mark.parametrize(
        "wait",
        [
            lambda consumer: consumer.wait_first(asyncio.sleep(0, "a"), forever(), timeout=5),
            lambda consumer: consumer.wait_first(asyncio.sleep(0, "a")),
            lambda consumer: consumer.wait_first(asyncio.ensure_future(asyncio.sleep(0, "a")), forever()),
        ],
        ids=["limit", "one", "future"],
    )
    async def test_anything_else_is_the_services(
        self, consumer: Consuming, wait: Callable[[Consuming], Awaitable[Any]]
    ) -> None:
        assert (await wait(consumer)).results == ["a"]


class Event:
    """Something that Faust takes for an event."""

    def __init__(self, offset: int) -> None:
        self.message = SimpleNamespace(offset=offset)


class Stream:
    """As much of a Faust stream as is used."""

    def __init__(self, size: int = 0) -> None:
        self.should_stop = False
        self.started = 0
        self.channel = SimpleNamespace(queue=ThrowableQueue(size, flow_control=FlowControlEvent()))

    async def maybe_start(self) -> None:
        self.started += 1


@pytest.fixture
def taken() -> list[int]:
    return []


class Clock:
    """Goes on by a tick whenever it is looked at."""

    now = 0.0
    tick = 0.0

    def monotonic(self) -> float:
        self.now += self.tick
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("streams.delivery.time", clock)
    return clock


async def take(stream: Stream, taken: list[int]) -> None:
    async for event in events_of(stream):  # type: ignore[arg-type]
        taken.append(event.message.offset)


class TestEventsOf:
    async def test_everything_is_taken_in_order(self, taken: list[int]) -> None:
        stream = Stream()
        for offset in range(100):
            stream.channel.queue.put_nowait(Event(offset))
        reading = asyncio.create_task(take(stream, taken))
        await eventually(lambda: len(taken) == 100)
        assert taken == list(range(100))
        stream.channel.queue.put_nowait(Event(100))
        await eventually(lambda: taken[-1] == 100)
        assert stream.started == 1
        reading.cancel()

    async def test_others_have_a_turn(self, taken: list[int], clock: Clock) -> None:
        stream = Stream()
        for offset in range(1000):
            stream.channel.queue.put_nowait(Event(offset))
        clock.tick = _TURN / 10
        reading = asyncio.create_task(take(stream, taken))
        await asyncio.sleep(0)
        assert 5 < len(taken) < 20
        before = len(taken)
        await asyncio.sleep(0)
        assert before + 5 < len(taken) < before + 20
        reading.cancel()

    async def test_a_wait_does_not_count(self, taken: list[int], clock: Clock) -> None:
        stream = Stream()
        reading = asyncio.create_task(take(stream, taken))
        await settled()
        clock.now += 60
        for offset in range(100):
            stream.channel.queue.put_nowait(Event(offset))
        await asyncio.sleep(0)
        assert len(taken) == 100
        reading.cancel()

    async def test_what_is_dropped_from_the_buffer_is_not_taken(self, taken: list[int], clock: Clock) -> None:
        stream = Stream()
        for offset in range(1000):
            stream.channel.queue.put_nowait(Event(offset))
        clock.tick = _TURN / 10
        reading = asyncio.create_task(take(stream, taken))
        await asyncio.sleep(0)
        stream.channel.queue.clear()
        before = len(taken)
        assert before < 1000
        stream.channel.queue.put_nowait(Event(2000))
        await eventually(lambda: taken[-1] == 2000)
        assert len(taken) == before + 1
        reading.cancel()

    async def test_a_full_buffer_says_when_there_is_room_again(self, taken: list[int]) -> None:
        stream = Stream(size=100)
        told: list[str] = []

        def full() -> None:
            told.append("full")

        def room() -> None:
            told.append("room")

        for offset in range(100):
            stream.channel.queue.put_nowait_enhanced(Event(offset), on_pressure_high=full, on_pressure_drop=room)
        assert told == ["full"]
        reading = asyncio.create_task(take(stream, taken))
        await eventually(lambda: len(taken) == 100)
        assert told == ["full", "room"]
        reading.cancel()

    async def test_it_ends_with_the_stream(self, taken: list[int]) -> None:
        stream = Stream()
        stream.channel.queue.put_nowait(Event(0))
        stream.should_stop = True
        await take(stream, taken)
        assert taken == []

    @pytest.mark.parametrize("waits", [False, True])
    async def test_it_ends_when_faust_says_so(self, taken: list[int], waits: bool) -> None:
        stream = Stream()
        reading = asyncio.create_task(take(stream, taken))
        if waits:
            await settled()
        await stream.channel.queue.throw(StopAsyncIteration())
        await asyncio.wait_for(reading, 5)
        assert taken == []
