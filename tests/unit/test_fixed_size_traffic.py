"""Messages of one size, of users who write equally many."""

from __future__ import annotations

from collections import Counter

import pytest

from agents.signals import SignalDetector
from benchmarks.fixed_size import FixedSize
from schemas.messages import ChatMessage, decode_message


def decoded(traffic: FixedSize) -> list[ChatMessage]:
    return [decode_message(record.value) for record in traffic.records()]


def test_every_record_has_the_size_and_the_key_of_its_user() -> None:
    records = list(FixedSize(messages=2_000, users=120, size=200).records())
    assert {len(record.value) for record in records} == {200}
    assert all(record.key == decode_message(record.value).key for record in records)


def test_all_users_write_equally_many_and_nobody_twice_before_all_have_written() -> None:
    users = [message.user_id for message in decoded(FixedSize(messages=500, users=50))]
    assert set(Counter(users).values()) == {10}
    assert all(len(set(users[start : start + 50])) == 50 for start in range(0, 500, 50))
    assert users[:50] != users[50:100]


def test_a_seed_decides_every_byte() -> None:
    again = [list(FixedSize(messages=100, users=7, telling=0.5, seed=seed).records()) for seed in (3, 3, 4)]
    assert again[0] == again[1] != again[2]


@pytest.mark.parametrize(("telling", "least", "most"), [(0.0, 0.0, 0.0), (0.3, 0.25, 0.35), (1.0, 1.0, 1.0)])
def test_the_share_of_users_messages_with_a_signal_is_that_of_telling(
    telling: float, least: float, most: float
) -> None:
    detect = SignalDetector(()).detect
    own = [one for one in decoded(FixedSize(messages=4_000, users=20, telling=telling)) if one.role == "user"]
    assert 1_800 < len(own) < 2_200
    assert least <= sum(bool(detect(one.content)) for one in own) / len(own) <= most


def test_closing_events_are_of_every_user_once() -> None:
    traffic = FixedSize(messages=20, users=5)
    closings = [decode_message(record.value) for record in traffic.closings()]
    assert [one.type for one in closings] == ["flush"] * 5
    assert {one.key for one in closings} == {record.key for record in traffic.records()}


def test_a_size_without_room_for_a_text_is_refused() -> None:
    with pytest.raises(ValueError, match="60 bytes are too few"):
        FixedSize(messages=10, users=2, size=60)
