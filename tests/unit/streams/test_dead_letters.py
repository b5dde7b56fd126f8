"""`DeadLetters`: a record is parked as it came, with where and why beside it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from schemas.dead_letters import NULL_HEADER, OMITTED_HEADER, REDRIVE_HEADER, TIMESTAMP_HEADER, DeadLetterReason
from streams.dead_letters import DeadLetters
from streams.errors import DependencyDown, RecordFailed
from streams.letters import read_content
from streams.redrive import record_again
from tests.support.fakes import TOPICS, FakeSender, FakeSource
from tests.support.letters import StoredRecord, read

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
    assert len(names) == len(set(names)) == 10 + 8  # those of the first letter are the record's own, and put aside
    assert DeadLetterReason.from_headers(sender.sent[1].headers).reason == "invalid_record"


async def test_own_headers_with_the_names_of_a_letters_are_put_aside_and_come_back(
    dead_letters: DeadLetters, sender: FakeSender
) -> None:
    own = [
        ("own", b"1"),
        (OMITTED_HEADER, b"9"),
        (NULL_HEADER, b"key"),
        ("profilestream-stage", b"index"),
        ("profilestream-own-stage", b"\xff"),
        ("profilestream-of-mine", b""),
        (TIMESTAMP_HEADER, b"yesterday"),
    ]
    await dead_letters.park(FakeSource().event(1, headers=own), "window", FAILURE)
    letter = sender.sent[0]
    names = [name for name, _ in letter.headers]
    assert len(names) == len(set(names))
    assert names[:4] == ["own", "profilestream-own-omitted", "profilestream-own-null", "profilestream-own-stage"]
    assert not {OMITTED_HEADER, NULL_HEADER} & set(names)
    assert DeadLetterReason.from_headers(letter.headers).stage == "window"
    stored = StoredRecord(list(letter.headers), letter.key, letter.value)
    content = read_content(stored)
    assert (content.headers, content.missing) == (own, None)
    (parked,) = read(stored).all()
    assert [each for each in record_again(parked, content, TOPICS).headers if each in own] == own


async def test_the_time_of_a_message_that_was_sent_again_is_not_put_aside(
    dead_letters: DeadLetters, sender: FakeSender
) -> None:
    headers = [(TIMESTAMP_HEADER, b"1700000000000"), (REDRIVE_HEADER, b"a letter")]
    await dead_letters.park(FakeSource().event(1, headers=headers), "window", FAILURE)
    names = [name for name, _ in sender.sent[0].headers]
    assert names.count(TIMESTAMP_HEADER) == 1
    assert not [name for name in names if name.startswith("profilestream-own-")]


async def test_repeated_headers_are_kept(dead_letters: DeadLetters, sender: FakeSender) -> None:
    await dead_letters.park(FakeSource().event(1, headers=[("tag", b"a"), ("tag", b"b")]), "index", FAILURE)
    assert list(sender.sent[0].headers[:2]) == [("tag", b"a"), ("tag", b"b")]


async def test_a_broker_that_is_down_is_the_callers_to_retry(dead_letters: DeadLetters, sender: FakeSender) -> None:
    sender.faults.append(DependencyDown("down"))
    with pytest.raises(DependencyDown):
        await dead_letters.park(FakeSource().event(1), "index", FAILURE)
    assert sender.sent == []
