"""`DeadLetterReason` and `Resolution`: into Kafka headers and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from schemas.dead_letters import DeadLetterReason, Resolution

REASON = DeadLetterReason(
    stage="window",
    reason="invalid_record",
    detail="`角色` is missing: one of user, assistant",
    topic="chat.messages.v1",
    partition=3,
    offset=2**40,
    attempts=5,
    failed_at=datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC),
)


def test_the_headers_are_these() -> None:
    assert REASON.headers() == [
        ("profilestream-stage", b"window"),
        ("profilestream-reason", b"invalid_record"),
        ("profilestream-detail", "`角色` is missing: one of user, assistant".encode()),
        ("profilestream-topic", b"chat.messages.v1"),
        ("profilestream-partition", b"3"),
        ("profilestream-offset", b"1099511627776"),
        ("profilestream-attempts", b"5"),
        ("profilestream-failed-at", b"2026-03-01T12:00:00.123456+00:00"),
    ]


def test_a_reason_is_read_back_among_other_headers() -> None:
    assert DeadLetterReason.from_headers([("own", b"\xff"), *REASON.headers(), ("detail", b"x")]) == REASON


def test_a_header_of_somebody_elses_with_our_prefix_is_left_alone() -> None:
    assert DeadLetterReason.from_headers([*REASON.headers(), ("profilestream-moved-from", b"\xff")]) == REASON


def test_a_detail_that_is_no_text_is_written_all_the_same() -> None:
    quoting = msgspec.structs.replace(REASON, detail="half a pair: \ud83d")
    assert DeadLetterReason.from_headers(quoting.headers()).detail == "half a pair: \\ud83d"


def test_a_long_detail_is_cut() -> None:
    long = msgspec.structs.replace(REASON, detail="错" * 2_000)
    assert DeadLetterReason.from_headers(long.headers()).detail == "错" * 1_000


def test_the_time_is_written_in_utc() -> None:
    there = msgspec.structs.replace(REASON, failed_at=REASON.failed_at.astimezone(timezone(timedelta(hours=8))))
    assert there.headers() == REASON.headers()


@pytest.mark.parametrize("missing", range(8))
def test_a_missing_header_is_named(missing: int) -> None:
    headers = REASON.headers()
    name = headers.pop(missing)[0].removeprefix("profilestream-").replace("-", "_")
    with pytest.raises(KeyError, match=name):
        DeadLetterReason.from_headers(headers)


@pytest.mark.parametrize("name", ["stage", "partition", "offset", "attempts", "failed-at"])
def test_a_malformed_header_is_refused(name: str) -> None:
    headers = dict(REASON.headers()) | {f"profilestream-{name}": b"rubbish"}
    with pytest.raises(ValueError, match="rubbish"):
        DeadLetterReason.from_headers(headers.items())


def test_a_time_without_its_offset_is_refused() -> None:
    headers = dict(REASON.headers()) | {"profilestream-failed-at": b"2026-03-01T12:00:00"}
    with pytest.raises(ValueError, match="no offset from UTC"):
        DeadLetterReason.from_headers(headers.items())


DECISION = Resolution(
    letter_id="3f2a91bc",
    decision="redriving",
    reason="模型又好了",
    resolved_at=datetime(2026, 3, 1, 12, 0, tzinfo=UTC),
    sent_from=2**40,
)


def test_the_headers_of_a_decision_are_these() -> None:
    assert DECISION.headers() == [
        ("profilestream-resolves", b"3f2a91bc"),
        ("profilestream-resolution", b"redriving"),
        ("profilestream-reason", "模型又好了".encode()),
        ("profilestream-resolved-at", b"2026-03-01T12:00:00+00:00"),
        ("profilestream-sent-from", b"1099511627776"),
    ]


@pytest.mark.parametrize("sent_from", [None, 0, 7])
def test_a_decision_is_read_back(sent_from: int | None) -> None:
    decision = msgspec.structs.replace(DECISION, sent_from=sent_from)
    assert Resolution.from_headers([("own", b"\xff"), *decision.headers()]) == decision


def test_a_letter_is_no_decision_whatever_its_record_carried() -> None:
    assert Resolution.from_headers(REASON.headers()) is None
    assert Resolution.from_headers([*DECISION.headers(), *REASON.headers()]) is None
