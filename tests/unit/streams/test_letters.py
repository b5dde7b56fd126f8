"""`Letters`: what the records of the dead-letter topic come to."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import pytest

from schemas.codec import encode
from schemas.dead_letters import NULL_HEADER, OMITTED_HEADER, TIMESTAMP_HEADER, Decision
from schemas.ids import letter_id
from schemas.messages import user_key
from streams.letters import Letter, State, read_content
from tests.support.letters import FAILED, StoredRecord, decided, id_of, parked, read, why

FIRST, SECOND = why(), why("extract", 7, failed_at=FAILED + timedelta(seconds=1))


def only(*records: StoredRecord) -> Letter:
    (letter,) = read(*records).all()
    return letter


def test_letters_come_in_the_order_of_their_failure() -> None:
    letters = read(parked(SECOND, offset=0), parked(FIRST, offset=1)).all()
    assert [letter.letter_id for letter in letters] == [id_of(FIRST), id_of(SECOND)]
    assert [letter.why for letter in letters] == [FIRST, SECOND]
    assert {letter.state for letter in letters} == {"open"}


def test_a_record_that_was_parked_twice_is_one_letter() -> None:
    again = why(failed_at=FAILED + timedelta(minutes=1), attempts=3)
    letter = only(parked(FIRST, offset=4), parked(again, offset=5))
    assert (letter.offset, letter.why) == (4, FIRST)


def test_the_same_record_of_two_stages_is_two_letters() -> None:
    assert len(read(parked(why("extract", 7)), parked(why("tag", 7))).all()) == 2


@pytest.mark.parametrize(
    ("decisions", "state"),
    [
        ((), "open"),
        (("redriving",), "open"),
        (("redriven",), "redriven"),
        (("discarded",), "discarded"),
        (("redriving", "redriven"), "redriven"),
        (("redriven", "redriving"), "redriven"),
        (("discarded", "redriven"), "discarded"),
        (("redriven", "forgotten"), "forgotten"),
        (("forgotten", "redriven"), "forgotten"),
    ],
)
def test_the_state_of_a_letter_is_what_was_decided(decisions: tuple[Decision, ...], state: State) -> None:
    records = [decided(FIRST, decision) for decision in decisions]
    assert only(parked(FIRST), *records).state == state
    # What belongs to others is written again when a user is forgotten: behind what was decided.
    assert only(*records, parked(FIRST)).state == state


def test_a_letter_of_an_older_log_keeps_its_id() -> None:
    carried = why(log_id="an older log")
    older, now = read(parked(carried), parked(FIRST)).all()
    assert older.why == carried
    assert older.letter_id == letter_id("an older log", carried.topic, carried.partition, carried.offset, "window")
    assert now.letter_id == id_of(FIRST) != older.letter_id


def test_where_a_redrive_began_first_is_where_to_look() -> None:
    first, second = (decided(FIRST, "redriving", sent_from=offset) for offset in (5, 9))
    assert only(parked(FIRST), first, second).sent_from == 5
    assert only(parked(FIRST)).sent_from is None


def test_a_decision_about_one_letter_leaves_the_others() -> None:
    for records in permutations([parked(FIRST), parked(SECOND), decided(SECOND, "discarded")]):
        assert [letter.state for letter in read(*records).all()] == ["open", "discarded"]


def test_headers_of_the_records_own_make_no_decision() -> None:
    forged = [*decided(FIRST, "discarded").headers]
    letters = read(parked(FIRST), parked(SECOND, *forged)).all()
    assert [letter.state for letter in letters] == ["open", "open"]


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ([], "it has no header profilestream-"),
        ([("profilestream-resolves", b"x")], "it has no header profilestream-resol"),
        ([*FIRST.headers()[1:], ("profilestream-stage", b"breakfast")], "'breakfast' is no stage"),
        ([*FIRST.headers()[:-1], ("profilestream-failed-at", b"2026-03-01")], "has no offset from UTC"),
        ([*FIRST.headers()[:-1], ("profilestream-failed-at", b"\xff")], "utf-8"),
        ([*decided(FIRST, "discarded").headers, ("profilestream-resolution", b"burnt")], "'burnt' is no decision"),
    ],
)
def test_what_is_neither_letter_nor_decision_is_named(headers: list[tuple[str, bytes]], said: str) -> None:
    letters = read(StoredRecord(headers, partition=3, offset=8))
    assert letters.all() == []
    ((partition, offset, reason),) = letters.unreadable
    assert (partition, offset) == (3, 8)
    assert said in reason


ODD = "a:b\x1b\n"


@pytest.mark.parametrize(
    ("stage", "key", "value", "user"),
    [
        ("extract", user_key("t", ODD), b"", ("t", ODD)),
        ("extract", user_key("t", "u"), encode({"user_id": "other"}), ("t", "u")),
        ("window", user_key("t", "u"), b"not JSON", ("t", "u")),
        ("window", b"k", encode({"user_id": ODD, "role": 5}), ("default", ODD)),
        ("window", user_key("t", "u"), encode({"user_id": "v", "tenant_id": "w"}), ("w", "v")),
        ("window", user_key("t", "u"), None, ("t", "u")),
        ("window", b"\xff", b"\xff", None),
        ("window", None, b"[1]", None),
    ],
)
def test_whose_record_it_is(stage: str, key: bytes | None, value: bytes | None, user: tuple[str, str] | None) -> None:
    assert only(parked(why(stage), key=key, value=value)).user == user


def test_the_record_in_a_letter_is_as_it_came() -> None:
    record = parked(FIRST, ("own", b"\xff"), ("own", b"2"), key=b"\x00", value=None, timestamp=77)
    content = read_content(record)
    assert content == (b"\x00", None, [("own", b"\xff"), ("own", b"2")], 77, None)


@pytest.mark.parametrize(
    ("written", "timestamp"),
    [(b"99", 99), (b"253402300799123", 253402300799123), (b"", 77), (b"-5", 77), (b"1e3", 77), (b"9" * 5000, 77)],
)
def test_its_timestamp_is_the_first_one_where_a_header_has_it(written: bytes, timestamp: int) -> None:
    assert read_content(parked(FIRST, (TIMESTAMP_HEADER, written), timestamp=77)).timestamp == timestamp


@pytest.mark.parametrize(
    ("header", "missing"),
    [((OMITTED_HEADER, b"900"), "900 bytes were more"), ((NULL_HEADER, b"key and value"), "neither key nor value")],
)
def test_a_letter_without_its_record_says_so(header: tuple[str, bytes], missing: str) -> None:
    content = read_content(parked(FIRST, header, value=b""))
    assert content.missing is not None
    assert missing in content.missing
    assert content.headers == []
