"""`DeadLetters`: a record is parked as it came, with where and why beside it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from schemas.dead_letters import DeadLetterReason
from streams.dead_letters import NULL_HEADER, OMITTED_HEADER, DeadLetters
from streams.errors import DependencyDown, RecordFailed
from tests.support.fakes import FakeSender, FakeSource

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FAILURE = RecordFailed("invalid_record", "`role` is missing")


@pytest.fixture
def sender() -> FakeSender:
    return FakeSender()


@pytest.fixture
def dead_letters(sender: FakeSender) -> DeadLetters:
    return DeadLetters(sender, "dead", lambda: NOW)


async def test_a_record_is_parked_untouched_with_the_reason(dead_letters: DeadLetters, sender: FakeSender) -> None:
    event = FakeSource().event(
        17, key=b"\xff", value=b"\x00not JSON", partition=3, topic="chat", timestamp=5.5, headers={"trace": b"t"}
    )
    await dead_letters.park(event, "window", FAILURE, attempts=4)
    (parked,) = sender.sent
    assert (parked.topic, parked.partition, parked.key, parked.value) == ("dead", 3, b"\xff", b"\x00not JSON")
    assert parked.timestamp == 5.5
    assert parked.headers[0] == ("trace", b"t")
    assert DeadLetterReason.from_headers(parked.headers) == DeadLetterReason(
        stage="window",
        reason="invalid_record",
        detail="`role` is missing",
        topic="chat",
        partition=3,
        offset=17,
        attempts=4,
        failed_at=NOW,
    )


@pytest.mark.parametrize(("key", "value"), [(None, b""), (None, b"x"), (b"", None), (b"k", None), (b"", b"")])
async def test_a_record_without_value_or_key_is_parked_like_any_other(
    dead_letters: DeadLetters, sender: FakeSender, key: bytes | None, value: bytes | None
) -> None:
    await dead_letters.park(FakeSource().event(0, key=key, value=value), "merge", FAILURE)
    assert (sender.sent[0].key, sender.sent[0].value) == (key, value)


async def test_a_record_with_neither_key_nor_value_is_parked_as_an_empty_one_that_says_so(
    dead_letters: DeadLetters, sender: FakeSender
) -> None:
    await dead_letters.park(FakeSource().event(0, key=None, value=None), "window", FAILURE)
    (parked,) = sender.sent
    assert (parked.key, parked.value) == (None, b"")
    assert parked.headers[-1] == (NULL_HEADER, b"key and value")
    assert DeadLetterReason.from_headers(parked.headers).reason == "invalid_record"


async def test_a_record_that_is_too_large_to_be_parked_leaves_a_letter_that_says_where_it_lies(
    dead_letters: DeadLetters, sender: FakeSender
) -> None:
    sender.faults.append(RecordFailed("record_too_large", "9 MB"))
    event = FakeSource().event(17, key=b"k", value=b"x" * 900, partition=3, topic="chat", headers=[("own", b"1")])
    await dead_letters.park(event, "window", FAILURE)
    (letter,) = sender.sent
    assert (letter.topic, letter.partition, letter.key, letter.value) == ("dead", 3, None, b"")
    assert letter.headers[-1] == (OMITTED_HEADER, b"900")
    assert "own" not in dict(letter.headers)
    reason = DeadLetterReason.from_headers(letter.headers)
    assert (reason.topic, reason.partition, reason.offset, reason.reason) == ("chat", 3, 17, "invalid_record")


@pytest.mark.parametrize("as_mapping", [False, True])
async def test_a_record_that_was_parked_before_carries_only_the_last_reason(
    dead_letters: DeadLetters, sender: FakeSender, as_mapping: bool
) -> None:
    source = FakeSource()
    await dead_letters.park(source.event(1, headers=[("own", b"1")]), "window", RecordFailed("first", "first"))
    headers = dict(sender.sent[0].headers) if as_mapping else sender.sent[0].headers
    await dead_letters.park(source.event(2, headers=headers), "window", FAILURE)
    names = [name for name, _ in sender.sent[1].headers]
    assert len(names) == len(set(names)) == 9
    assert DeadLetterReason.from_headers(sender.sent[1].headers).reason == "invalid_record"


async def test_repeated_headers_are_kept(dead_letters: DeadLetters, sender: FakeSender) -> None:
    await dead_letters.park(FakeSource().event(1, headers=[("tag", b"a"), ("tag", b"b")]), "index", FAILURE)
    assert list(sender.sent[0].headers[:2]) == [("tag", b"a"), ("tag", b"b")]


async def test_a_broker_that_is_down_is_the_callers_to_retry(dead_letters: DeadLetters, sender: FakeSender) -> None:
    sender.faults.append(DependencyDown("down"))
    with pytest.raises(DependencyDown):
        await dead_letters.park(FakeSource().event(1), "index", FAILURE)
    assert sender.sent == []
