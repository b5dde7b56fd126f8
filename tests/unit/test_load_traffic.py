"""What the load generator sends: the same for a seed, and in the shares that were asked for."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from agents.signals import SignalDetector
from benchmarks.load.pace import Pace
from benchmarks.load.spread import Spread
from benchmarks.load.texts import user_text
from benchmarks.load.traffic import Message, Traffic, number_of
from schemas.messages import ChatMessage, decode_message
from schemas.pipeline import PipelineConfig

START = datetime(2026, 1, 2, 3, tzinfo=UTC)


def records(traffic: Traffic) -> list[Message]:
    return list(traffic.records(START))


def decoded(traffic: Traffic) -> list[ChatMessage]:
    return [decode_message(record.value) for record in records(traffic)]


def test_a_seed_decides_every_byte() -> None:
    traffic = Traffic(seed=7, messages=500, users=20, zipf=1.0, late=0.2, duplicates=0.2, length=Spread(80, 400))
    assert records(traffic) == records(traffic)
    assert records(traffic) != records(Traffic(seed=8, messages=500, users=20))


def test_the_first_message_of_a_seed() -> None:
    first = decoded(Traffic(seed=1, messages=1, users=3, chinese=0.0))[0]
    assert (first.message_id, first.session_id, first.occurred_at) == ("load-0", "session 0", None)
    assert first.user_id in {"load-0", "load-1", "load-2"}


def test_messages_are_numbered_and_keyed_by_their_user() -> None:
    sent = records(Traffic(messages=200, users=10))
    assert [record.number for record in sent] == list(range(200))
    for record in sent:
        message = decode_message(record.value)
        assert record.key == message.key
        assert number_of(message.message_id or "") == record.number


@pytest.mark.parametrize("stranger", ["", "load-", "load-x", "7", "message-7"])
def test_ids_of_others_are_not_taken_for_ours(stranger: str) -> None:
    assert number_of(stranger) is None


def test_without_skew_all_users_write_alike() -> None:
    counts = Counter(record.key for record in records(Traffic(messages=20_000, users=10)))
    assert len(counts) == 10
    assert min(counts.values()) > 1_800
    assert max(counts.values()) < 2_200


def test_zipf_makes_the_first_user_write_twice_as_much_as_the_second() -> None:
    counts = Counter(
        decode_message(record.value).user_id for record in records(Traffic(messages=20_000, users=50, zipf=1.0))
    )
    # Of 50 users the first has 1 / (1 + 1/2 + ... + 1/50) = 22.2 % of the messages.
    assert counts["load-0"] / 20_000 == pytest.approx(0.222, abs=0.015)
    assert counts["load-0"] / counts["load-1"] == pytest.approx(2.0, abs=0.2)
    assert counts["load-0"] / counts["load-9"] == pytest.approx(10.0, abs=2.0)


def test_a_share_of_messages_is_sent_twice_with_the_same_bytes() -> None:
    sent = records(Traffic(messages=10_000, users=50, duplicates=0.1))
    counts = Counter(record.number for record in sent)
    assert len(sent) == 10_000
    assert set(counts.values()) == {1, 2}
    twice = sum(count == 2 for count in counts.values())
    assert twice / len(counts) == pytest.approx(0.1, abs=0.015)
    assert len({record.value for record in sent}) == len(counts)


def test_no_duplicates_unless_they_are_asked_for() -> None:
    assert len({record.number for record in records(Traffic(messages=2_000, users=5))}) == 2_000


def test_late_messages_were_written_an_hour_to_a_week_before() -> None:
    sent = decoded(Traffic(messages=5_000, users=50, late=0.2))
    late = [START - message.occurred_at for message in sent if message.occurred_at is not None]
    assert len(late) / 5_000 == pytest.approx(0.2, abs=0.03)
    assert min(late) >= timedelta(hours=1)
    assert max(late) <= timedelta(days=7)


@pytest.mark.parametrize(("share", "chinese_users"), [(0.0, 0), (1.0, 40), (0.5, 20)])
def test_each_user_has_one_language(share: float, chinese_users: int) -> None:
    sent = decoded(Traffic(messages=3_000, users=40, chinese=share))
    languages: dict[str, set[bool]] = {}
    for message in sent:
        languages.setdefault(message.user_id, set()).add(any(character >= "\u4e00" for character in message.content))
    assert all(len(found) == 1 for found in languages.values())
    assert sum(True in found for found in languages.values()) == pytest.approx(chinese_users, abs=8 * (0 < share < 1))


@pytest.mark.parametrize("chinese", [0.0, 1.0])
def test_the_detector_finds_signals_where_users_tell_of_themselves_and_nowhere_else(chinese: float) -> None:
    detector = SignalDetector(PipelineConfig().facts.signals)
    told = [m for m in decoded(Traffic(messages=1_000, users=20, chinese=chinese, telling=1.0)) if m.role == "user"]
    talked = [m for m in decoded(Traffic(messages=1_000, users=20, chinese=chinese, telling=0.0)) if m.role == "user"]
    assert sum(bool(detector.detect(message.content)) for message in told) / len(told) > 0.9
    assert sum(bool(detector.detect(message.content)) for message in talked) / len(talked) < 0.1


@pytest.mark.parametrize("length", [60.0, 200.0, 1_000.0])
def test_texts_are_about_as_long_as_they_should_be(length: float) -> None:
    chance = random.Random(3)
    sizes = [len(user_text("en", length, True, chance)) for _ in range(300)]
    assert statistics.mean(sizes) == pytest.approx(length, rel=0.15)


def test_half_the_messages_are_the_users_own() -> None:
    roles = Counter(message.role for message in decoded(Traffic(messages=4_000, users=10)))
    assert set(roles) == {"user", "assistant"}
    assert roles["user"] / 4_000 == pytest.approx(0.5, abs=0.03)


def test_a_spread_has_the_percentiles_it_is_named_by() -> None:
    spread, chance = Spread.parse("0.8:2.5"), random.Random(1)
    drawn = sorted(spread.draw(chance) for _ in range(20_000))
    assert drawn[10_000] == pytest.approx(0.8, rel=0.03)
    assert drawn[19_800] == pytest.approx(2.5, rel=0.1)
    assert statistics.mean(drawn) == pytest.approx(spread.mean, rel=0.02)
    assert str(spread) == "0.8:2.5"


def test_a_spread_without_a_percentile_is_always_the_same() -> None:
    assert {Spread.parse("0.8").draw(random.Random(seed)) for seed in range(5)} == {0.8}
    assert Spread.parse("0.8").mean == 0.8


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "1:", "2:1", "1:1", "nan", "inf", "1:inf", "1:2:3"])
def test_what_is_no_spread_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"MEDIAN:P99|the median must be above 0"):
        Spread.parse(text)


def test_messages_are_due_at_their_rate() -> None:
    assert [Pace(rate=10).due(number, 100) for number in (0, 1, 50, 100)] == [0.0, 0.1, 5.0, 10.0]
    assert [Pace().due(number, 100) for number in (0, 50, 100)] == [0.0, 0.0, 0.0]


def test_a_burst_sends_everything_in_its_seconds_on_and_keeps_the_mean() -> None:
    pace = Pace(rate=10, burst=(1.0, 3.0))  # 40 messages in each four seconds, all of them in the first
    due = [pace.due(number, 120) for number in range(120)]
    assert due[0] == 0.0
    assert due[20] == pytest.approx(0.5)
    assert due[39] == pytest.approx(0.975)
    assert due[40] == pytest.approx(4.0)
    assert due[119] == pytest.approx(8.975)
    assert due == sorted(due)


def test_a_ramp_rises_evenly_to_twice_the_rate() -> None:
    pace = Pace(rate=10, ramp=True)
    due = [pace.due(number, 1_000) for number in range(1_001)]
    assert due[0] == 0.0
    assert due[1_000] == pytest.approx(100.0)
    assert due[250] == pytest.approx(50.0)  # half of the time, a quarter of the messages
    assert 1 / (due[1_000] - due[999]) == pytest.approx(20.0, rel=0.01)
