"""What this program relies on in Faust, and what it sets; an upgrade that changes it fails here."""

from __future__ import annotations

import asyncio
import inspect
from unittest.mock import AsyncMock, MagicMock

import faust
import pytest
from faust.tables.recovery import Recovery
from faust.transport.consumer import Consumer

from streams.faust_app import PipelineApp, create_app
from streams.settings import Settings


def order(source: str, *parts: str) -> bool:
    places = [source.index(part) for part in parts]
    return places == sorted(places)


def test_this_is_the_faust_that_was_read() -> None:
    assert faust.__version__ == "0.15.3"


@pytest.mark.parametrize("function", [Recovery.on_recovery_completed, Recovery._resume_streams])
def test_faust_announces_a_complete_rebalance_before_it_goes_back_to_the_committed_offsets(function: object) -> None:
    source = inspect.getsource(function)
    assert order(
        source,
        "on_rebalance_complete.send()",
        "consumer.resume_partitions(",
        "consumer.perform_seek()",
        "flow_control.resume()",
        "consumer.resume_flow()",
    )


@pytest.mark.parametrize("started", [False, True])
async def test_a_record_goes_straight_to_the_producer(started: bool) -> None:
    app = create_app(Settings(), "group")
    delivery: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    producer = MagicMock(started=started, maybe_start=AsyncMock(), send=AsyncMock(return_value=delivery))
    app.producer = producer
    sent = await app.produce("chat", b"k", None, partition=3, timestamp=12.5, headers=[("name", b"value")])
    assert sent is delivery
    producer.send.assert_awaited_once_with("chat", b"k", None, 3, 12.5, [("name", b"value")])
    assert producer.maybe_start.await_count == (0 if started else 1)


def test_faust_delivers_nothing_while_the_flow_is_stopped() -> None:
    source = inspect.getsource(Consumer._wait_next_records)
    assert order(source, "if not self.flow_active:", "can_resume_flow", "self._getmany(")


async def test_delivery_is_held_when_a_rebalance_completes_and_records_are_taken_after_it() -> None:
    app = create_app(Settings(), "group")
    calls: list[str] = []
    app.lifecycle = MagicMock(resume=lambda: calls.append("take"))
    app.hold_delivery = AsyncMock(side_effect=lambda: calls.append("hold"))  # type: ignore[method-assign]
    await app.on_rebalance_complete.send()
    assert calls == ["hold", "take"]


async def test_holding_delivery_stops_consumer_and_streams() -> None:
    app = MagicMock(consumer=MagicMock(wait_for_stopped_flow=AsyncMock()))
    await PipelineApp.hold_delivery(app)
    app.consumer.stop_flow.assert_called_once_with()
    app.flow_control.suspend.assert_called_once_with()
    app.consumer.wait_for_stopped_flow.assert_awaited_once_with()


def test_settings_that_correctness_rests_on() -> None:
    conf = create_app(Settings(), "group").conf
    assert conf.stream_wait_empty is True
    assert conf.consumer_auto_offset_reset == "earliest"
    assert conf.producer_acks == -1
    assert conf.datadir.is_absolute(), "nothing is made where the process was started"
    assert conf.table_standby_replicas == 0
    assert conf.broker_max_poll_interval >= 86_400
    room = conf.stream_buffer_maxsize - conf.stream_buffer_maxsize / 1.25
    assert room > conf.broker_max_poll_records, "a stream that is not read pauses its partition before it is full"
    assert (
        create_app(
            Settings.model_validate({"kafka": {"single_record_batches": True}}), "g"
        ).conf.producer_max_batch_size
        == 1
    )
