"""`Redriver` on real brokers: cut short anywhere and run again, what it sends has one effect."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

import pytest
import pytest_asyncio

from schemas.codec import decode, encode
from schemas.dead_letters import REDRIVE_HEADER, TIMESTAMP_HEADER
from schemas.deltas import FlushEvent
from schemas.flushes import FlushBatch
from schemas.messages import user_key
from schemas.places import Place
from schemas.stages import Memo
from streams.dead_letter_purge import purge
from streams.dead_letter_store import DeadLetterStore
from streams.kafka import KafkaUnavailable, producer
from streams.letters import Letter, User
from streams.redriving import Redriven, Redriver
from streams.settings import KafkaSettings
from streams.topics import Topics
from tests.integration.clickhouse_records import make_event
from tests.integration.dead_letter_support import FAILED, ODD, Cut, Park, letters_on, parking, reason, records_on
from tests.support.brokers import KafkaSettingsByName
from tests.support.records import extracted, flush_batch, flush_ref, memo

KEY = user_key("default", ODD)


@pytest.fixture(params=["apache", "embedded"])
def either(request: pytest.FixtureRequest) -> KafkaSettings:
    if request.param == "embedded":
        settings: KafkaSettings = request.getfixturevalue("kafka")
        return settings
    names: KafkaSettingsByName = request.getfixturevalue("on_apache_kafka")
    return KafkaSettings.model_validate(names)


@pytest_asyncio.fixture
async def park(either: KafkaSettings) -> AsyncIterator[Park]:
    async with parking(either) as parks:
        yield parks


async def redrive(kafka: KafkaSettings, *letters: Letter, cut_after: int | None = None) -> list[Redriven]:
    store = await DeadLetterStore.open(kafka)
    async with producer(kafka) as client:
        sender = client if cut_after is None else Cut(client, cut_after)
        return [done async for done in Redriver(store, sender, lambda: FAILED).redrive(letters)]


async def test_flushes_go_to_their_stages(either: KafkaSettings, park: Park) -> None:
    topics = Topics.of(either)
    await park(reason(either, "summary", 1, 2), KEY, encode(flush_batch()), [("own", b"\xff")])
    await park(reason(either, "extract", 2, 2), KEY, encode(memo()))
    await park(reason(either, "tag", 2, 2), KEY, encode(memo()))
    await park(reason(either, "merge", 3, 2), KEY, encode(extracted(ref=flush_ref(5, 6))))
    letters = await letters_on(either)
    done = await redrive(either, *letters)
    assert [one.refused for one in done] == [None] * 4
    assert len({one.ends for one in done}) == 4
    ((key, value, headers, _),) = await records_on(either, topics.flushes, 2)
    assert (key, dict(headers)["own"]) == (KEY, b"\xff")
    assert decode(value, FlushBatch).ref.only == ("extract", "tag")
    memos = [decode(value, Memo).flush.only for _, value, _, _ in await records_on(either, topics.memos, 2)]
    assert sorted(memos) == [("extract",), ("tag",)]
    assert len(await records_on(either, topics.candidates, 2)) == 1
    assert {letter.state for letter in await letters_on(either)} == {"redriven"}


async def test_what_a_user_said_before_being_forgotten_is_refused(either: KafkaSettings, park: Park) -> None:
    event = make_event(50, user=ODD, tenant="default", lane="forget", log="another log")
    before = round(event.flush.closed_at.timestamp() * 1000)
    body = encode({"user_id": ODD, "role": "pope"})
    for offset, written in ((1, before), (2, before + 1)):
        await park(reason(either, "window", offset), KEY, body, [(TIMESTAMP_HEADER, b"%d" % written)])
    await park(reason(either, "extract", 3), user_key("default", "a"), encode(memo()))

    async def forgotten(users: Iterable[User]) -> Sequence[FlushEvent]:
        assert set(users) == {("default", ODD), ("default", "a")}
        return [event]

    store = await DeadLetterStore.open(either)
    async with producer(either) as client:
        redriver = Redriver(store, client, lambda: FAILED, forgotten)
        done = [one async for one in redriver.redrive(await letters_on(either))]
    assert {one.letter.why.offset: one.refused for one in done} == {
        1: "its user has been forgotten since",
        2: None,
        3: None,
    }
    assert [letter.state for letter in await letters_on(either) if letter.why.offset == 1] == ["open"]


async def test_what_was_decided_already_is_not_sent(either: KafkaSettings, park: Park) -> None:
    await park(reason(either, "extract", 2), KEY, encode(memo()))
    await redrive(either, *await letters_on(either))
    (again,) = await redrive(either, *await letters_on(either))
    assert again.refused == "it was redriven before"
    assert len(await records_on(either, Topics.of(either).memos)) == 1


async def test_a_letter_that_cannot_be_sent_again_stays_open_and_does_not_hold_up_the_others(
    either: KafkaSettings, park: Park
) -> None:
    await park(reason(either, "archive", 1), KEY)
    await park(reason(either, "extract", 2), KEY, encode(memo()))
    done = await redrive(either, *await letters_on(either))
    assert {one.letter.why.stage: one.refused is None for one in done} == {"archive": False, "extract": True}
    assert {letter.why.stage: letter.state for letter in await letters_on(either)} == {
        "archive": "open",
        "extract": "redriven",
    }


async def test_a_flush_that_is_sent_twice_is_the_same_repetition(either: KafkaSettings, park: Park) -> None:
    await park(reason(either, "extract", 2), KEY, encode(memo()))
    (letter,) = await letters_on(either)
    with pytest.raises(KafkaUnavailable):
        await redrive(either, letter, cut_after=1)
    (letter,) = await letters_on(either)
    assert letter.state == "open"
    (done,) = await redrive(either, letter)
    first, second = [decode(value, Memo).flush for _, value, _, _ in await records_on(either, Topics.of(either).memos)]
    assert first == second
    assert (first.redrive, done.refused) == (1, None)


@pytest.mark.parametrize("records", [0, 1, 2])
async def test_a_message_is_sent_once_wherever_the_command_was_cut_short(
    either: KafkaSettings, park: Park, records: int
) -> None:
    body = encode({"user_id": ODD, "role": "pope"})
    await park(reason(either, "window", 3), b"k", body, [("own", b"\xff"), (TIMESTAMP_HEADER, b"1700000000000")])
    with pytest.raises(KafkaUnavailable):
        await redrive(either, *await letters_on(either), cut_after=records)
    (letter,) = await letters_on(either)
    assert letter.state == "open"
    (done,) = await redrive(either, letter)
    assert (done.refused, done.ends) == (None, None)
    assert done.message == (Place(Topics.of(either).messages, 0, 0), None)
    ((key, value, headers, timestamp),) = await records_on(either, Topics.of(either).messages)
    assert (key, value) == (b"k", body)
    first = 1_700_000_000_000
    assert sorted(headers) == [
        ("own", b"\xff"),
        (REDRIVE_HEADER, letter.letter_id.encode()),
        (TIMESTAMP_HEADER, b"%d" % first),
    ]
    if not either.single_record_batches:  # the embedded broker has times of its own
        assert timestamp == first
    (letter,) = await letters_on(either)
    assert letter.state == "redriven"


async def test_more_letters_than_are_sent_at_a_time(either: KafkaSettings, park: Park) -> None:
    for offset in range(120):
        await park(reason(either, "window", offset), KEY, b"wrong")
    done = await redrive(either, *await letters_on(either))
    assert [one.refused for one in done] == [None] * 120
    named = [dict(headers)[REDRIVE_HEADER] for _, _, headers, _ in await records_on(either, Topics.of(either).messages)]
    assert sorted(named) == sorted(letter.letter_id.encode() for letter in await letters_on(either))
    assert {letter.state for letter in await letters_on(either)} == {"redriven"}


async def test_what_the_topic_does_not_take_is_refused(on_apache_kafka: KafkaSettingsByName) -> None:
    kafka = KafkaSettings.model_validate(on_apache_kafka)
    async with parking(kafka) as park:
        await park(reason(kafka, "window", 1), KEY, b"x" * 2_000_000)
        await park(reason(kafka, "window", 2), KEY, b"x", [(TIMESTAMP_HEADER, b"9999999999999")])
        await park(reason(kafka, "window", 3), KEY, b"x")
    done = await redrive(kafka, *await letters_on(kafka))
    said = {one.letter.why.offset: one.refused for one in done}
    assert "max.message.bytes" in str(said[1])
    assert "message.timestamp.after.max.ms" in str(said[2])
    assert said[3] is None
    states = {letter.why.offset: letter.state for letter in await letters_on(kafka)}
    assert states == {1: "open", 2: "open", 3: "redriven"}


async def test_a_letter_that_is_removed_meanwhile_is_not_sent(on_apache_kafka: KafkaSettingsByName) -> None:
    kafka = KafkaSettings.model_validate(on_apache_kafka)
    async with parking(kafka) as park:
        await park(reason(kafka, "extract", 1), KEY, encode(memo()))
    letters = await letters_on(kafka)
    assert await purge(kafka, KEY) == 1
    (done,) = await redrive(kafka, *letters)
    assert done.refused == "it has been removed meanwhile"
    assert await records_on(kafka, Topics.of(kafka).memos) == []
