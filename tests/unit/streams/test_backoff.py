"""`Backoff`: growing waits with jitter, within a limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.backoff import Backoff


@pytest.mark.parametrize(("attempt", "longest"), [(1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 30.0), (50, 30.0)])
def test_a_wait_is_between_half_and_all_of_the_exponential_one(attempt: int, longest: float) -> None:
    waits = [Backoff(first=0.5, limit=30.0).delay(attempt) for _ in range(200)]
    assert longest / 2 <= min(waits) < max(waits) <= longest
    assert len(set(waits)) > 1


def test_what_the_service_asks_for_is_a_minimum_up_to_the_limit() -> None:
    backoff = Backoff(first=1.0, limit=30.0)
    assert backoff.delay(1, retry_after=12.0) == 12.0
    assert backoff.delay(1, retry_after=3600.0) == 30.0
    assert backoff.delay(5, retry_after=0.1) >= 8.0


@given(st.integers(1, 10**9), st.none() | st.floats(0, 1e9), st.floats(0.001, 10), st.floats(0.001, 100))
def test_no_wait_is_negative_or_beyond_the_limit(
    attempt: int, retry_after: float | None, first: float, limit: float
) -> None:
    assert 0.0 <= Backoff(first, limit).delay(attempt, retry_after) <= limit
