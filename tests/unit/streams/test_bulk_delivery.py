"""`BulkDelivery`: what a poll brought arrives as Faust itself would have handed it over, record by record."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import ConsumerRecord, TopicPartition
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from streams.delivery import BulkDelivery, Delivered, RawSchema
from streams.faust_app import PipelineApp, PipelineConsumer, create_app
from streams.settings import Settings

CHAT, OTHER = TP("chat", 0), TP("chat", 1)
FLUSHES = TP("flushes", 0)
Poll = dict[TP, list[Any]]


def records(place: TP, *offsets: int) -> list[Any]:
    return [
        ConsumerRecord(
            topic=place.topic,
            partition=place.partition,
            offset=offset,
            timestamp=1_700_000_000_000 + offset,
            timestamp_type=0,
            key=b"user",
            value=b"%d" % offset,
            checksum=None,
            serialized_key_size=4,
            serialized_value_size=1,
            headers=(),
        )
        for offset in offsets
    ]


@dataclass
class Found:
    """What there was after all polls.

    Attributes:
        buffers: the records in the buffer of each reader, those of a partition in their order.
        read: how far each partition is read.
        gaps: offsets of each partition that hold no record, as Faust notes them for its commits.
        paused: partitions that are not read while a buffer is nearly full.
        handed_over: how many records were handed over at once.
    """

    buffers: list[list[tuple[str, int, int, bytes, int]]] = field(default_factory=list)
    read: dict[TP, int | None] = field(default_factory=dict)
    gaps: dict[TP, list[Any]] = field(default_factory=dict)
    paused: set[TP] = field(default_factory=set)
    handed_over: int = 0


class Polls:
    """An application with readers whose consumer gets these polls, and is stopped after the last."""

    def __init__(self, polls: Sequence[Poll], readers: Sequence[str] = ("chat",), size: int | None = None) -> None:
        self.app: PipelineApp = create_app(Settings(), "group")
        self.app.fetch_interval = 0
        if size is not None:
            self.app.conf.stream_buffer_maxsize = size
        self.consumer: Any = self.app.consumer
        self.handed_over = 0
        self._hand_over = self.consumer._hand_over
        self.consumer._hand_over = self._counted
        self.channels: list[Any] = [
            self.app.topic(name, schema=RawSchema(), partitions=2).clone(is_iterator=True) for name in readers
        ]
        self._polls = iter(polls)
        self._stopped = asyncio.Event()

    def _counted(self, place: TP, batch: Sequence[Any], readers: Sequence[Any]) -> bool:
        done: bool = self._hand_over(place, batch, readers)
        self.handed_over += done * len(batch)
        return done

    async def poll(self, *_arguments: Any) -> Poll:
        poll = next(self._polls, None)
        if poll is None:
            self._stopped.set()
            return {}
        return {TopicPartition(*place): batch for place, batch in poll.items()}  # as aiokafka has it

    async def begin(self) -> None:
        for channel in self.channels:
            self.app.topics.add(channel)
        places = {CHAT, OTHER, FLUSHES}
        await self.app.topics._update_indices()  # type: ignore[attr-defined]
        assert self.app.topics.acks_enabled_for("chat")
        await self.app.topics.on_partitions_assigned(places)
        self.consumer._set_active_tps(places)
        self.app.flow_control.resume()
        self.consumer.resume_flow()

    async def drain(self, within: float = 5.0) -> Found:
        fetcher: Any = SimpleNamespace(_stopped=self._stopped)
        async with asyncio.timeout(within):
            await self.consumer._drain_messages(fetcher)
        return self.found()

    def found(self) -> Found:
        return Found(
            buffers=[
                sorted(map(_told, channel.queue._queue), key=lambda record: record[:2]) for channel in self.channels
            ],
            read={place: offset for place, offset in self.consumer._read_offset.items() if offset is not None},
            gaps={place: sorted(gaps) for place, gaps in self.consumer._gap.items()},
            paused=set(self.consumer._buffered_partitions),
            handed_over=self.handed_over,
        )


def _told(event: Any) -> tuple[str, int, int, bytes, int]:
    message = event.message
    return message.topic, message.partition, message.offset, message.value, message.refcount


@pytest.fixture
def polled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that asks `Polls` and not a broker."""
    asked: dict[Any, Polls] = {}

    async def getmany(self: Any, *arguments: Any) -> Poll:
        return await asked[self].poll(*arguments)

    begin = Polls.begin

    async def known(self: Polls) -> None:
        asked[self.consumer] = self
        await begin(self)

    monkeypatch.setattr(Polls, "begin", known)
    monkeypatch.setattr(driver.Consumer, "_getmany", getmany)
    monkeypatch.setattr(driver.Consumer, "highwater", lambda *_: 0)


def fausts_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BulkDelivery, "_hand_over", lambda *_: False)


async def outcome(polls: Sequence[Poll], readers: Sequence[str] = ("chat",), size: int | None = None) -> Found:
    there = Polls(polls, readers, size)
    await there.begin()
    return await there.drain()


@pytest.mark.usefixtures("polled")
@pytest.mark.parametrize(
    ("polls", "readers", "at_once"),
    [
        ([{CHAT: records(CHAT, 0, 1, 2)}, {CHAT: records(CHAT, 3)}], ["chat"], 4),
        ([{CHAT: records(CHAT, 7, 8), OTHER: records(OTHER, 3, 4)}], ["chat"], 4),
        ([{CHAT: records(CHAT, 1), FLUSHES: records(FLUSHES, 1, 2)}], ["chat", "flushes"], 3),
        ([{CHAT: records(CHAT, 1, 2)}, {CHAT: records(CHAT, 3)}], ["chat", "chat", "chat"], 3),
        # A gap, inside a poll or before it, is Faust's to note; what follows it is as usual.
        ([{CHAT: records(CHAT, 1, 3)}, {CHAT: records(CHAT, 4)}], ["chat"], 1),
        ([{CHAT: records(CHAT, 1)}, {CHAT: records(CHAT, 3)}, {CHAT: records(CHAT, 4)}], ["chat"], 2),
        # What was read before is dropped by Faust.
        ([{CHAT: records(CHAT, 5, 6)}, {CHAT: records(CHAT, 3, 4)}, {CHAT: records(CHAT, 7)}], ["chat"], 3),
        ([{}, {CHAT: []}, {CHAT: records(CHAT, 1)}], ["chat"], 1),
    ],
    ids=["polls", "partitions", "topics", "readers", "gap-inside", "gap-between", "again", "nothing"],
)
async def test_what_arrives_is_what_faust_would_have_handed_over(
    polls: list[Poll], readers: list[str], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = await outcome(polls, readers)
    with monkeypatch.context() as without:
        fausts_way(without)
        fausts = await outcome(polls, readers)
    assert (ours.handed_over, fausts.handed_over) == (at_once, 0)
    assert replace(ours, handed_over=0) == fausts
    assert sum(map(len, ours.buffers)) > 0


@pytest.mark.usefixtures("polled")
async def test_a_record_with_several_readers_is_acknowledged_by_the_last() -> None:
    there = Polls([{CHAT: records(CHAT, 1)}], ["chat", "chat"])
    await there.begin()
    await there.drain()
    first, second = (channel.queue.get_nowait() for channel in there.channels)
    assert isinstance(first, Delivered)
    assert first.message is second.message
    assert not first.ack()
    assert not first.message.acked
    assert second.ack()
    assert first.message.acked


@pytest.mark.usefixtures("polled")
@pytest.mark.parametrize("bulk", [True, False])
async def test_a_partition_is_not_read_while_a_buffer_is_nearly_full(
    bulk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not bulk:
        fausts_way(monkeypatch)
    there = Polls([{CHAT: records(CHAT, *range(6)), OTHER: records(OTHER, 0)}], size=10)
    await there.begin()
    await there.drain()
    assert there.found().paused == set()
    there._polls = iter([{CHAT: records(CHAT, 6, 7)}])
    there._stopped.clear()
    await there.drain()
    assert there.found().paused == {CHAT}
    assert CHAT not in there.consumer._get_active_partitions()
    assert there.found().handed_over == (9 if bulk else 0)
    buffer = there.channels[0].queue
    while buffer.qsize():
        buffer.get_nowait()
    with pytest.raises(asyncio.QueueEmpty):
        buffer.get_nowait()
    assert there.found().paused == set()
    assert CHAT in there.consumer._get_active_partitions()


@pytest.mark.usefixtures("polled")
async def test_what_does_not_fit_waits_as_with_faust() -> None:
    there = Polls([{CHAT: records(CHAT, *range(12))}], size=10)
    await there.begin()
    draining = asyncio.create_task(there.drain())
    buffer = there.channels[0].queue
    taken = []
    async with asyncio.timeout(5):
        while len(taken) < 12:
            taken.append((await buffer.get()).message.offset)
    await draining
    assert taken == list(range(12))
    assert there.handed_over == 0


@pytest.mark.usefixtures("polled")
@pytest.mark.parametrize("stopped", ["flow", "streams", "partition", "consumer"])
async def test_where_nothing_may_be_handed_over_nothing_is(stopped: str) -> None:
    there = Polls([])
    await there.begin()
    poll = {CHAT: records(CHAT, 1)}
    there._polls = iter([poll])
    active = set(there.consumer._get_active_partitions())
    match stopped:
        case "flow":
            there.consumer.stop_flow()
        case "streams":
            there.app.flow_control.suspend()
        case "partition":
            active.discard(CHAT)
        case "consumer":
            there.consumer._stopped.set()
    assert await there.consumer._getmany(active, 1.0) == poll
    assert there.channels[0].queue.empty()
    assert there.consumer._read_offset[CHAT] is None


@pytest.mark.usefixtures("polled")
async def test_readers_that_are_not_ours_are_fausts() -> None:
    there = Polls([{CHAT: records(CHAT, 1)}])
    there.channels.append(there.app.topic("chat", key_type=bytes, value_type=bytes).clone(is_iterator=True))
    await there.begin()
    found = await there.drain()
    assert [len(buffer) for buffer in found.buffers] == [1, 1]
    assert found.handed_over == 0


def test_it_stands_before_the_consumer_that_asks_the_broker() -> None:
    order = PipelineConsumer.__mro__
    assert order.index(BulkDelivery) < order.index(driver.Consumer)
