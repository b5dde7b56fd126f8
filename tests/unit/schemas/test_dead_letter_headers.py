"""`DeadLetterReason`: into Kafka headers and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from schemas.dead_letters import DeadLetterReason

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


@pytest.mark.parametrize("name", ["partition", "offset", "attempts", "failed-at"])
def test_a_malformed_header_is_refused(name: str) -> None:
    headers = dict(REASON.headers()) | {f"profilestream-{name}": b"rubbish"}
    with pytest.raises(ValueError, match="rubbish"):
        DeadLetterReason.from_headers(headers.items())
