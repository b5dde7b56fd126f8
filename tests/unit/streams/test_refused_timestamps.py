"""Timestamps of dead letters: that of the record, also where the topic refuses it or the record is sent again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from aiokafka.errors import InvalidTimestampError

from schemas.dead_letters import TIMESTAMP_HEADER, DeadLetterReason
from streams.dead_letters import DeadLetters
from streams.errors import DependencyDown, RecordFailed
from streams.sender import TIMESTAMP_REFUSED, Outgoing, delivered
from tests.support.fakes import FakeSender, FakeSource

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FAR_AHEAD = 253_402_300_799.123
REFUSED = RecordFailed(TIMESTAMP_REFUSED, "the broker does not take it")


class Topic(FakeSender):
    """Takes no record with a timestamp."""

    async def send(self, *records: Outgoing) -> None:
        if any(record.timestamp is not None for record in records):
            raise REFUSED
        await super().send(*records)


async def test_no_other_try_is_made_with_a_timestamp_that_was_refused() -> None:
    async def send() -> None:
        raise InvalidTimestampError

    with pytest.raises(RecordFailed) as raised:
        await delivered(send, "a record")
    assert raised.value.reason == TIMESTAMP_REFUSED


async def test_a_letter_has_the_present_time_where_the_topic_refuses_that_of_its_record() -> None:
    topic = Topic()
    event = FakeSource().event(3, key=b"k", value=b"{", timestamp=FAR_AHEAD, headers=[("own", b"1")])
    await DeadLetters(topic, "dead", lambda: NOW).park(event, "window", RecordFailed("invalid_record", "no JSON"))
    (letter,) = topic.sent
    assert (letter.key, letter.value, letter.timestamp) == (b"k", b"{", None)
    assert letter.headers[0] == ("own", b"1")
    assert dict(letter.headers)[TIMESTAMP_HEADER] == b"253402300799123"
    assert DeadLetterReason.from_headers(letter.headers).offset == 3


async def test_a_letter_keeps_its_timestamp_where_the_topic_takes_it() -> None:
    topic = FakeSender()
    event = FakeSource().event(3, timestamp=FAR_AHEAD)
    await DeadLetters(topic, "dead", lambda: NOW).park(event, "window", RecordFailed("invalid_record", "no JSON"))
    (letter,) = topic.sent
    assert letter.timestamp == FAR_AHEAD
    assert dict(letter.headers)[TIMESTAMP_HEADER] == b"253402300799123"


@pytest.mark.parametrize(("timestamp", "header"), [(12.345, b"12345"), (0.0, b"0"), (-0.001, b"0")])
async def test_a_record_that_fails_again_keeps_the_timestamp_of_the_first_time(timestamp: float, header: bytes) -> None:
    topic = FakeSender()
    letters = DeadLetters(topic, "dead", lambda: NOW)
    failure = RecordFailed("invalid_record", "no JSON")
    await letters.park(FakeSource().event(3, timestamp=timestamp), "window", failure)
    again = FakeSource().event(9, timestamp=99.0, headers=topic.sent[0].headers)
    await letters.park(again, "window", failure)
    assert [value for name, value in topic.sent[1].headers if name == TIMESTAMP_HEADER] == [header]


async def test_other_refusals_are_none_of_the_timestamp() -> None:
    topic = FakeSender()
    topic.faults.append(DependencyDown("away"))
    with pytest.raises(DependencyDown):
        await DeadLetters(topic, "dead", lambda: NOW).park(
            FakeSource().event(3), "window", RecordFailed("invalid_record", "no JSON")
        )
