"""What the load generator makes of the topics: which message closed a window, and how long its deltas took."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from aiokafka.structs import ConsumerRecord

from benchmarks.load.following import Follower
from benchmarks.load.pace import Pace
from benchmarks.load.sending import Sender
from benchmarks.load.traffic import Message
from schemas.codec import encode
from schemas.deltas import FlushEvent, Timings
from schemas.flushes import FlushRef, Lane, Trigger
from schemas.messages import decode_message
from schemas.stages import MessageRef, ModelCall
from streams.settings import KafkaSettings

NOW = datetime(2026, 1, 2, tzinfo=UTC)
BUDGET = 100


class _Place(NamedTuple):
    partition: int
    offset: int
    timestamp: int


class _Producer:
    """Acknowledges at once: records come to one partition, the first at second 1000, a second apart."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    async def send(self, _topic: str, *, key: bytes, value: bytes) -> asyncio.Future[_Place]:
        assert key
        place: asyncio.Future[_Place] = asyncio.get_running_loop().create_future()
        place.set_result(_Place(0, len(self.values), 1_000_000 + 1_000 * len(self.values)))
        self.values.append(value)
        return place


async def sent_by(*users: str) -> tuple[Sender, _Producer]:
    """Return a sender that has sent one message of each of these users, in this order."""
    producer: Any = _Producer()
    sender = Sender(producer, "messages")
    await sender.send([Message(n, f"default:{user}".encode(), b"{}") for n, user in enumerate(users)], Pace())
    return sender, producer


@dataclass(frozen=True)
class Flush:
    number: int
    last_offset: int
    trigger: Trigger
    lane: Lane = "memo"
    tokens: int = 10
    deltas: int = 1
    messages: tuple[str, ...] = ("load-0",)
    calls: tuple[ModelCall, ...] = ()

    def event(self) -> FlushEvent:
        ref = FlushRef(
            flush_id=f"flush {self.number}",
            tenant_id="default",
            user_id="anna",
            lane=self.lane,
            log_id="log",
            partition=0,
            first_offset=0,
            last_offset=self.last_offset,
            trigger=self.trigger,
            opened_at=NOW,
            closed_at=NOW,
            first_occurred_at=NOW,
            last_occurred_at=NOW,
            message_count=len(self.messages),
            token_count=self.tokens,
        )
        return FlushEvent(
            event_id=f"event {self.number}",
            flush=ref,
            outcome="applied",
            memo=(),
            tags=(),
            messages=tuple(MessageRef(message_id=one, role="user", occurred_at=NOW) for one in self.messages),
            delta_ids=tuple(f"delta {self.number}.{index}" for index in range(self.deltas)),
            first_version=1,
            last_version=1,
            calls=self.calls,
            dropped=(),
            errors={},
            timings=Timings(),
            recorded_at=NOW,
            processor="rules",
            pipeline_version="1",
        )

    def delta(self, index: int, at: float) -> ConsumerRecord:
        return record({"delta_id": f"delta {self.number}.{index}", "flush_id": f"flush {self.number}"}, at)


def record(value: object, at: float) -> ConsumerRecord:
    data = encode(value)
    return ConsumerRecord(
        topic="t", partition=0, offset=0, timestamp=round(at * 1000), timestamp_type=0, key=b"k", value=data,
        checksum=None, serialized_key_size=1, serialized_value_size=len(data), headers=(),
    )  # fmt: skip


async def followed(users: Sequence[str], flush: Flush, *deltas_at: float) -> Follower:
    sender, _ = await sent_by(*users)
    follower = Follower(KafkaSettings(), 1, sender, BUDGET)
    follower.take_events([record(flush.event(), 2_000.0)])
    follower.take_deltas([flush.delta(index, at) for index, at in enumerate(deltas_at)])
    return follower


@pytest.mark.parametrize(
    ("flush", "seconds"),
    [
        (Flush(1, last_offset=2, trigger="messages"), 8.0),  # closed by its last message, of second 1002
        (Flush(1, last_offset=2, trigger="signal", lane="facts"), 8.0),
        (Flush(1, last_offset=0, trigger="tokens"), 8.0),  # by the user's next message, which is at offset 2
        (Flush(1, last_offset=0, trigger="tokens", tokens=BUDGET), 10.0),  # full to the last token: by its last message
    ],
)
async def test_latency_begins_with_the_message_that_closed_the_window(flush: Flush, seconds: float) -> None:
    follower = await followed(["anna", "bob", "anna"], flush, 1_010.0)
    (latency,) = follower.measured()
    assert (latency.lane, latency.at, latency.seconds) == (flush.lane, 1_010.0, seconds)
    assert latency.added == seconds


@pytest.mark.parametrize("trigger", ["idle", "age", "flush", "horizon"])
async def test_windows_that_no_message_closed_have_no_latency(trigger: Trigger) -> None:
    follower = await followed(["anna"], Flush(1, last_offset=0, trigger=trigger), 1_010.0)
    assert follower.measured() == []
    assert follower.seen.flushes["memo", trigger] == 1


async def test_the_last_delta_of_a_flush_ends_it_and_an_end_waits_for_its_deltas() -> None:
    follower = await followed(["anna"], Flush(1, last_offset=0, trigger="messages", deltas=2), 1_003.0)
    assert (follower.measured(), follower.deltas_missing) == ([], 1)
    follower.take_deltas([Flush(1, last_offset=0, trigger="messages").delta(1, 1_007.0)])
    (latency,) = follower.measured()
    assert (latency.seconds, follower.deltas_missing) == (7.0, 0)


async def test_the_models_time_is_taken_off() -> None:
    calls = tuple(
        ModelCall(stage=stage, model="m", outcome="ok", duration_ms=1_500.0, attempts=2)
        for stage in ("summary", "extract")
    )
    follower = await followed(["anna"], Flush(1, last_offset=0, trigger="messages", calls=calls), 1_004.0)
    (latency,) = follower.measured()
    assert (latency.seconds, latency.model, latency.added) == (4.0, 3.0, 1.0)
    assert (follower.seen.requests, dict(follower.seen.calls)) == (4, {"summary": 1, "extract": 1})


async def test_a_record_that_comes_again_counts_as_a_repeat_and_nothing_else() -> None:
    flush = Flush(1, last_offset=0, trigger="messages", messages=("load-0", "load-1", "someone else's"))
    follower = await followed(["anna"], flush, 1_004.0)
    follower.take_events([record(flush.event(), 2_001.0)])
    follower.take_deltas([flush.delta(0, 2_001.0)])
    seen = follower.seen
    assert (seen.events, seen.deltas, seen.repeats, seen.ended, seen.strays) == (1, 1, 2, 3, 1)
    assert dict(seen.messages) == {0: 1, 1: 1}
    assert len(follower.measured()) == 1


async def test_messages_of_the_facts_lane_are_not_counted_again() -> None:
    follower = await followed(["anna"], Flush(1, last_offset=0, trigger="signal", lane="facts"), 1_004.0)
    assert (follower.seen.ended, follower.seen.of_lane("facts"), follower.seen.of_lane("memo")) == (0, 1, 0)


async def test_the_sender_knows_when_each_message_was_sent_and_which_one_follows() -> None:
    sender, producer = await sent_by("anna", "bob", "anna")
    assert [sender.sent_at(0, offset) for offset in range(4)] == [1_000.0, 1_001.0, 1_002.0, None]
    assert [sender.following(0, offset) for offset in range(4)] == [2, None, None, None]
    assert sender.sent_at(1, 0) is None
    await sender.close_windows()
    assert (sender.acknowledged, sender.users) == (3, 2)
    closing = [decode_message(value) for value in producer.values[3:]]
    assert [(event.user_id, event.type) for event in closing] == [("anna", "flush"), ("bob", "flush")]
