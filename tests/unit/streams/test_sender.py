"""`Sender`: returns when the broker has the records, and names what went wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    NotEnoughReplicasError,
    RecordListTooLargeError,
)
from faust.exceptions import ProducerSendError

from streams.errors import DependencyDown, RecordFailed
from streams.sender import Outgoing, Sender, delivered
from tests.support.fakes import settled


class Broker:
    """A producer that enqueues at once and delivers when told to."""

    def __init__(self) -> None:
        self.enqueued: list[tuple[str, dict[str, Any]]] = []
        self.pending: list[asyncio.Future[None]] = []
        self.refusal: Exception | None = None
        self.sender = Sender(self.produce)

    async def produce(self, topic: str, key: bytes | None, value: bytes | None, **record: Any) -> asyncio.Future[None]:
        if self.refusal:
            raise self.refusal
        self.enqueued.append((topic, {"key": key, "value": value, **record}))
        self.pending.append(asyncio.get_running_loop().create_future())
        return self.pending[-1]


def outgoing(topic: str = "a", key: bytes = b"k", **changes) -> Outgoing:
    return Outgoing(**({"topic": topic, "key": key, "value": b"v", "partition": 2} | changes))


async def test_a_record_is_produced_as_it_is() -> None:
    broker = Broker()
    sending = asyncio.create_task(
        broker.sender.send(outgoing(headers=[("name", b"value")], timestamp=12.5, value=None))
    )
    await settled()
    broker.pending[0].set_result(None)
    await sending
    assert broker.enqueued == [
        ("a", {"key": b"k", "value": None, "partition": 2, "timestamp": 12.5, "headers": [("name", b"value")]})
    ]


async def test_no_headers_are_sent_as_none() -> None:
    broker = Broker()
    sending = asyncio.create_task(broker.sender.send(outgoing()))
    await settled()
    broker.pending[0].set_result(None)
    await sending
    assert broker.enqueued[0][1]["headers"] is None
    assert broker.enqueued[0][1]["timestamp"] is None


async def test_sending_returns_when_the_broker_has_every_record() -> None:
    broker = Broker()
    sending = asyncio.create_task(broker.sender.send(outgoing("a", b"1"), outgoing("b", b"2"), outgoing("a", b"3")))
    await settled()
    assert [(topic, record["key"]) for topic, record in broker.enqueued] == [("a", b"1"), ("b", b"2"), ("a", b"3")]
    broker.pending[0].set_result(None)
    broker.pending[2].set_result(None)
    await settled()
    assert not sending.done()
    broker.pending[1].set_result(None)
    await sending


async def test_sending_nothing_is_done_at_once() -> None:
    await Broker().sender.send()


@pytest.mark.parametrize(
    "error", [KafkaTimeoutError(), NotEnoughReplicasError(), TimeoutError(), KafkaConnectionError()]
)
async def test_a_broker_that_does_not_take_a_record_is_a_dependency_that_is_down(error: Exception) -> None:
    broker = Broker()
    sending = asyncio.create_task(broker.sender.send(outgoing(), outgoing()))
    await settled()
    broker.pending[0].set_result(None)
    broker.pending[1].set_exception(error)
    with pytest.raises(DependencyDown, match=f"Kafka did not take a record for a: {type(error).__name__}"):
        await sending


@pytest.mark.parametrize("error", [MessageSizeTooLargeError("9 MB"), RecordListTooLargeError("9 MB")])
async def test_a_record_that_is_too_large_has_failed(error: Exception) -> None:
    broker = Broker()
    sending = asyncio.create_task(broker.sender.send(outgoing()))
    await settled()
    broker.pending[0].set_exception(error)
    with pytest.raises(RecordFailed, match="record_too_large: a record for a is larger than the broker takes"):
        await sending


def wrapped(error: Exception) -> ProducerSendError:
    """Return what Faust raises for an error of its client while a record is handed over."""
    found = ProducerSendError(f"Error while sending: {error!r}")
    found.__cause__ = error
    return found


async def test_an_outage_while_a_record_is_enqueued_is_a_dependency_that_is_down() -> None:
    broker = Broker()
    broker.refusal = wrapped(KafkaTimeoutError())
    with pytest.raises(DependencyDown, match="Kafka did not take a record for a: KafkaTimeoutError"):
        await broker.sender.send(outgoing())


async def test_a_record_that_is_refused_for_its_size_while_it_is_enqueued_has_failed() -> None:
    broker = Broker()
    broker.refusal = wrapped(MessageSizeTooLargeError("9 MB"))
    with pytest.raises(RecordFailed, match="record_too_large"):
        await broker.sender.send(outgoing())


async def test_faust_not_sending_for_a_reason_of_its_own_is_an_outage() -> None:
    broker = Broker()
    broker.refusal = ProducerSendError("no producer")
    with pytest.raises(DependencyDown, match="ProducerSendError: no producer"):
        await broker.sender.send(outgoing())


async def test_an_error_that_is_not_the_brokers_is_left_alone() -> None:
    async def send() -> None:
        raise KeyError("no such channel")

    with pytest.raises(KeyError):
        await delivered(send, "a record")
