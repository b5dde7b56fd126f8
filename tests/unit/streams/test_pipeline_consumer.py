"""`PipelineConsumer`: goes back in every partition, and waits for nothing but the drain."""

from __future__ import annotations

import asyncio
import inspect
from unittest.mock import AsyncMock, MagicMock

import pytest
from aiokafka import AIOKafkaConsumer
from faust.transport.conductor import Conductor
from faust.transport.consumer import Consumer, ThreadDelegateConsumer
from faust.types import TP

from streams.faust_app import PipelineConsumer, create_app
from streams.settings import Settings
from tests.support.fakes import eventually
from tests.unit.streams.test_lifecycle import Part, lifecycle

NEW, KNOWN, TABLE = TP("chat", 0), TP("chat", 1), TP("changelog", 0)


def test_the_client_goes_back_only_where_something_was_committed() -> None:
    assert "if offset and offset > 0:" in inspect.getsource(AIOKafkaConsumer.seek_to_committed)


def test_faust_goes_back_by_this_call_alone() -> None:
    assert "await self.seek_to_committed()" in inspect.getsource(Consumer.perform_seek)
    assert "await self.perform_seek()" in inspect.getsource(Consumer.getmany)


def test_the_application_uses_it() -> None:
    assert create_app(Settings(), "group").transport.Consumer is PipelineConsumer


@pytest.fixture
def consumer() -> PipelineConsumer:
    made = PipelineConsumer.__new__(PipelineConsumer)
    made.app = MagicMock(tables=MagicMock(changelog_topics={"changelog"}))
    made.earliest_offsets = AsyncMock(side_effect=lambda *places: dict.fromkeys(places, 3))  # type: ignore[method-assign]
    made.seek_wait = AsyncMock()  # type: ignore[method-assign]
    return made


def committed(monkeypatch: pytest.MonkeyPatch, offsets: dict[TP, int | None]) -> None:
    monkeypatch.setattr(ThreadDelegateConsumer, "seek_to_committed", AsyncMock(return_value=offsets))


async def test_it_goes_to_the_beginning_of_what_was_never_committed(
    monkeypatch: pytest.MonkeyPatch, consumer: PipelineConsumer
) -> None:
    offsets = {NEW: None, KNOWN: 17, TABLE: None}
    committed(monkeypatch, offsets)
    assert await consumer.seek_to_committed() == offsets
    consumer.seek_wait.assert_awaited_once_with({NEW: 3})  # type: ignore[attr-defined]


async def test_it_does_no_more_where_everything_was_committed(
    monkeypatch: pytest.MonkeyPatch, consumer: PipelineConsumer
) -> None:
    committed(monkeypatch, {KNOWN: 17, TABLE: None})
    assert await consumer.seek_to_committed() == {KNOWN: 17, TABLE: None}
    consumer.seek_wait.assert_not_awaited()  # type: ignore[attr-defined]


@pytest.mark.parametrize("ends", [True, False], ids=["in time", "not in time"])
async def test_it_waits_for_the_drain(monkeypatch: pytest.MonkeyPatch, consumer: PipelineConsumer, ends: bool) -> None:
    part = Part(running=1)
    consumer.app.lifecycle = lifecycle(part, seconds=60.0 if ends else 0.05)
    faust = AsyncMock()
    monkeypatch.setattr(Consumer, "wait_empty", faust)
    waiting = asyncio.create_task(consumer.wait_empty())
    await eventually(lambda: part.told == ["drain"])
    faust.assert_not_awaited()
    if ends:
        part.running = 0
    await waiting
    faust.assert_awaited_once()
    assert part.told == (["drain"] if ends else ["drain", "abandon"])
    consumer.app.lifecycle.close()


def test_faust_waits_only_for_what_its_own_iterator_has_handed_out() -> None:
    assert "while not self.should_stop and self._unacked_messages:" in inspect.getsource(Consumer.wait_empty)
    assert "_unacked_messages" not in inspect.getsource(Conductor) + inspect.getsource(Consumer._drain_messages)
