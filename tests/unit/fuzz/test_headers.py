"""Headers that anybody may write: those of the dead letters, of messages that were moved, and a model server's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.llm.client import retry_after
from agents.moved import MOVED_HEADER, Origin, origin_of
from schemas.dead_letters import HEADER_PREFIX, DeadLetterReason, Decision, Resolution
from tests.unit.fuzz.mutations import Mutator, long_texts, within

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
REASON = DeadLetterReason(
    stage="window", reason="invalid_record", detail="`role` is missing", topic="chat.messages.v1", partition=3,
    offset=17, attempts=4, failed_at=NOW,
)  # fmt: skip
RESOLUTIONS = [
    Resolution(letter_id="1b9d", decision=decision, reason="mended", resolved_at=NOW, sent_from=7)
    for decision in get_args(Decision)
]
NAMES = sorted({name for record in (REASON, *RESOLUTIONS) for name, _ in record.headers()})
HEADERS = st.lists(
    st.tuples(
        st.sampled_from([*NAMES, MOVED_HEADER, HEADER_PREFIX, "other"]),
        st.none() | st.binary(max_size=30) | st.sampled_from([value for _, value in REASON.headers()]),
    ),
    max_size=14,
)


def assert_stable(record: DeadLetterReason | Resolution | None) -> None:
    """Check that what was read is read again from its own headers; long details are cut."""
    if record is not None:
        again = type(record).from_headers(record.headers())
        assert again is not None
        assert again.headers() == record.headers()


@settings(max_examples=300)
@given(HEADERS)
def test_headers_are_a_reason_a_decision_or_neither(headers: list[tuple[str, bytes]]) -> None:
    for kind in (DeadLetterReason, Resolution):
        try:
            record = kind.from_headers(headers)
        except (KeyError, ValueError):
            continue
        assert_stable(record)


@pytest.mark.parametrize("record", [REASON, *RESOLUTIONS], ids=lambda record: type(record).__name__)
def test_one_header_with_something_wrong(record: DeadLetterReason | Resolution) -> None:
    headers = dict(record.headers())
    for name, valid in headers.items():
        for value in Mutator([valid], seed=3).draw(100):
            changed = list((headers | {name: value}).items())
            with within(1, value):
                try:
                    read = type(record).from_headers(changed)
                except (KeyError, ValueError):
                    continue
            assert_stable(read)


def test_what_was_moved_is_said_by_a_place_or_not_at_all() -> None:
    name, value = Origin("log:id", 3, 2**40).header()
    for changed in Mutator([value], seed=4).draw(1_000):
        origin = origin_of([(name, changed)])
        assert origin is None or origin_of([origin.header()]) == origin
    for text in long_texts(500_000):
        with within(1, text):
            origin_of([(name, text.encode())])


DATES = [b"Wed, 21 Oct 2026 07:28:00 GMT", b"Wed, 21 Oct 2026 07:28:00 +0200", b"120", b"0.5", b"1e3", b"inf", b"nan"]


def test_the_time_to_wait_is_a_number_of_seconds_or_none() -> None:
    for value in Mutator(DATES, seed=5).draw(3_000):
        with within(1, value):
            seconds = retry_after({"retry-after": value.decode("latin-1")})
        assert seconds is None or 0 <= seconds < float("inf")


@given(st.text(max_size=40))
def test_any_text_is_a_time_to_wait_or_none(value: str) -> None:
    seconds = retry_after({"retry-after": value})
    assert seconds is None or 0 <= seconds < float("inf")


@pytest.mark.parametrize(
    "value", ["Wed, 21 Oct 0001 07:28:00 +2359", "Wed, 31 Dec 9999 23:59:59 -2359", "Wed, 21 Oct 2026 07:28:00 +9999"]
)
def test_dates_at_the_end_of_the_calendar(value: str) -> None:
    seconds = retry_after({"retry-after": value})
    assert seconds is None or 0 <= seconds < float("inf")
