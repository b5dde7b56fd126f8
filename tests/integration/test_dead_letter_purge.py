"""`purge`: the dead letters of one user go, physically where the broker can, and those of everyone else stay."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError

from schemas.codec import InvalidRecord, encode
from schemas.dead_letters import Resolution
from schemas.messages import user_key
from streams import dead_letter_purge
from streams.dead_letter_purge import _Purge, purge
from streams.dead_letter_store import DeadLetterStore
from streams.kafka import KafkaUnavailable, cluster_id, producer
from streams.letters import Letter
from streams.settings import KafkaSettings
from streams.topics import Topics
from tests.integration.dead_letter_support import FAILED, ODD, Park, letters_on, parking, reason, records_on
from tests.support.brokers import KafkaSettingsByName
from tests.support.records import flush_batch, flush_ref

THEIRS = user_key("default", ODD)
OTHER = user_key("default", "a")
THIRD = user_key("t", "a")


@pytest.fixture
def apache(on_apache_kafka: KafkaSettingsByName) -> KafkaSettings:
    return KafkaSettings.model_validate({**on_apache_kafka, "partitions": 2})


def places(letters: list[Letter]) -> list[tuple[str, int, str]]:
    return [(letter.why.stage, letter.why.offset, letter.state) for letter in letters]


async def discard(kafka: KafkaSettings, letter: Letter) -> None:
    store = await DeadLetterStore.open(kafka)
    async with producer(kafka) as client:
        decision = Resolution(letter_id=letter.letter_id, decision="discarded", reason="no", resolved_at=FAILED)
        await store.resolve(client, [(letter, decision)])


@pytest_asyncio.fixture
async def park(apache: KafkaSettings) -> AsyncIterator[Park]:
    async with parking(apache) as parks:
        yield parks


async def test_letters_and_decisions_of_others_stay_as_they_were(apache: KafkaSettings, park: Park) -> None:
    topic = Topics.of(apache).dead_letters
    await park(reason(apache, "extract", 1), THEIRS, b"secret 1")
    await park(reason(apache, "extract", 2), OTHER, b"\xffkept", [("own", b"\xff"), ("own", b"")])
    await park(reason(apache, "tag", 3), THEIRS, b"secret 2")
    await park(reason(apache, "window", 4), OTHER, None, timestamp=5)
    await park(reason(apache, "extract", 5), OTHER)
    before = await letters_on(apache)
    await discard(apache, before[0])
    await discard(apache, before[-1])
    async with producer(apache) as client:
        await client.send_and_wait(topic, b"no letter", key=OTHER, partition=0)
        await client.send_and_wait(topic, b"secret 3", key=THEIRS, partition=0)
    records = await records_on(apache, topic)

    assert await purge(apache, THEIRS) == 2

    left = await records_on(apache, topic)
    assert left == [record for record in records if record[0] != THEIRS]
    assert places(await letters_on(apache)) == [
        ("extract", 2, "open"),
        ("window", 4, "open"),
        ("extract", 5, "discarded"),
    ]
    assert len(left) == 5
    assert await purge(apache, THEIRS) == 0
    assert await records_on(apache, topic) == left


async def test_a_message_is_its_users_under_whatever_key_and_wherever_it_lies(
    apache: KafkaSettings, park: Park
) -> None:
    theirs = encode({"user_id": ODD, "content": "secret"})
    await park(reason(apache, "window", 1, partition=1), None, theirs)
    await park(reason(apache, "window", 2, partition=0), OTHER, theirs)
    await park(reason(apache, "window", 3, partition=1), THEIRS, encode({"user_id": "a"}))
    assert await purge(apache, THEIRS) == 2
    assert places(await letters_on(apache)) == [("window", 3, "open")]


async def test_what_was_said_after_the_forgetting_stays(apache: KafkaSettings, park: Park) -> None:
    log = await cluster_id(apache)
    forget = flush_ref(50, 50, lane="forget", trigger="forget", log_id=log)

    async def park_flush(offset: int, **changes) -> None:
        batch = flush_batch(flush_ref(offset, offset, **{"log_id": log, **changes}))
        await park(reason(apache, "summary", offset), THEIRS, encode(batch))

    await park_flush(49)
    await park_flush(51)
    await park_flush(52, log_id="an older log")
    await park(reason(apache, "window", 49), THEIRS)
    await park(reason(apache, "window", 51), THEIRS)
    moment = round(forget.closed_at.timestamp() * 1000)
    theirs = encode({"user_id": ODD})
    await park(reason(apache, "window", 60, partition=1), None, theirs, timestamp=moment)
    await park(reason(apache, "window", 61, partition=1), None, theirs, timestamp=moment + 1)
    assert await purge(apache, THEIRS, forget) == 4
    assert sorted(places(await letters_on(apache))) == [
        ("summary", 51, "open"),
        ("window", 51, "open"),
        ("window", 61, "open"),
    ]


async def test_ended_before_the_deletion_letters_are_there_twice_and_count_once(
    apache: KafkaSettings, park: Park, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topics.of(apache).dead_letters
    for offset in range(3):
        await park(reason(apache, "extract", offset), OTHER)
    await park(reason(apache, "extract", 3), THEIRS)
    await discard(apache, (await letters_on(apache))[0])
    before = places((await letters_on(apache))[:3])

    async def killed(*_: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(_Purge, "_delete", killed)
        with pytest.raises(asyncio.CancelledError):
            await purge(apache, THEIRS)
    assert len(await records_on(apache, topic)) == 5 + 4
    assert places((await letters_on(apache))[:3]) == before

    assert await purge(apache, THEIRS) == 1
    assert places(await letters_on(apache)) == before
    assert len(await records_on(apache, topic)) == 4


async def test_letters_that_are_parked_meanwhile_stay(apache: KafkaSettings, park: Park) -> None:
    for offset in range(200):
        await park(reason(apache, "extract", offset), THEIRS if offset % 2 else OTHER)
    working = asyncio.create_task(purge(apache, THEIRS))
    parked = 200
    while not working.done():
        await park(reason(apache, "extract", parked), OTHER)
        parked += 1
    assert await working == 100
    assert parked > 201
    offsets = [letter.why.offset for letter in await letters_on(apache)]
    assert sorted(offsets) == [*range(0, 200, 2), *range(200, parked)]


async def test_of_two_purges_at_once_neither_writes_back_what_the_other_has_removed(
    apache: KafkaSettings, park: Park, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topics.of(apache).dead_letters
    await park(reason(apache, "extract", 1), OTHER, b"secret 1")
    await park(reason(apache, "extract", 2), THEIRS, b"secret 2")
    await park(reason(apache, "extract", 3), THIRD, b"kept")
    async with producer(apache) as client:
        await client.send_and_wait(topic, b"no letter", key=OTHER, partition=0)
        await client.send_and_wait(topic, b"no letter either", key=THIRD, partition=0)
    send, counts = dead_letter_purge._send, []

    async def second_purge_first(*arguments: Any) -> Any:
        """Let the other purge do all its work after a letter of its user was read, and before that is written again."""
        if not counts:
            counts.append(0)
            counts.append(await purge(apache, OTHER))
        return await send(*arguments)

    monkeypatch.setattr(dead_letter_purge, "_send", second_purge_first)
    assert await purge(apache, THEIRS) == 1
    assert counts == [0, 1]
    assert {value for _, value, _, _ in await records_on(apache, topic)} == {b"kept", b"no letter either"}


async def test_two_purges_at_once_leave_what_belongs_to_a_third(apache: KafkaSettings, park: Park) -> None:
    keys = (THEIRS, OTHER, THIRD)
    for offset in range(60):
        await park(reason(apache, "extract", offset), keys[offset % 3], b"%d" % offset)
    assert await asyncio.gather(purge(apache, THEIRS), purge(apache, OTHER)) == [20, 20]
    left = await records_on(apache, Topics.of(apache).dead_letters)
    assert {int(value) for _, value, _, _ in left} == set(range(2, 60, 3))


async def test_a_partition_that_others_never_leave_alone_is_tried_again_later(
    apache: KafkaSettings, park: Park, monkeypatch: pytest.MonkeyPatch
) -> None:
    await park(reason(apache, "extract", 1), THEIRS)
    await park(reason(apache, "extract", 2), OTHER)
    delete = _Purge._delete

    async def parked_again(purging: _Purge, end: int) -> None:
        await delete(purging, end)
        await park(reason(apache, "extract", 1), THEIRS)

    with monkeypatch.context() as patch:
        patch.setattr(_Purge, "_delete", parked_again)
        patch.setattr(dead_letter_purge, "_PATIENCE", 0.0)
        with pytest.raises(KafkaUnavailable, match="all the time"):
            await purge(apache, THEIRS)
    assert await purge(apache, THEIRS) == 1
    assert places(await letters_on(apache)) == [("extract", 2, "open")]


async def test_it_goes_on_for_as_long_as_its_patience_lasts_however_often_others_come_between(
    apache: KafkaSettings, park: Park, monkeypatch: pytest.MonkeyPatch
) -> None:
    await park(reason(apache, "extract", 0), THEIRS)
    await park(reason(apache, "extract", 100), OTHER)
    begins_at, rounds = _Purge._begins_at, 0

    async def found_elsewhere_at_first(purging: _Purge, offset: int) -> bool:
        nonlocal rounds
        rounds += 1
        return rounds > 20 and await begins_at(purging, offset)

    async def nothing(*_: object) -> set[bytes]:
        return set()

    monkeypatch.setattr(_Purge, "_begins_at", found_elsewhere_at_first)
    monkeypatch.setattr(_Purge, "_only_in", nothing)
    monkeypatch.setattr(dead_letter_purge, "_PAUSE", 0.01)
    monkeypatch.setattr(dead_letter_purge, "_LONGEST_PAUSE", 0.02)
    assert await purge(apache, THEIRS) == 1
    assert rounds == 21
    assert places(await letters_on(apache)) == [("extract", 100, "open")]


async def test_a_broker_that_deletes_nothing_gets_them_marked(
    kafka: KafkaSettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "streams.dead_letter_purge")
    topic = Topics.of(kafka).dead_letters
    async with parking(kafka) as park:
        await park(reason(kafka, "extract", 1), THEIRS)
        await park(reason(kafka, "extract", 2), OTHER)
        await discard(kafka, (await letters_on(kafka))[0])
        assert await purge(kafka, THEIRS) == 1
        assert places(await letters_on(kafka)) == [("extract", 1, "forgotten"), ("extract", 2, "open")]
        records = await records_on(kafka, topic)
        assert len(records) == 4
        assert await purge(kafka, THEIRS) == 1
        assert await records_on(kafka, topic) == records
        await park(reason(kafka, "tag", 1), THEIRS)
        assert await purge(kafka, THEIRS) == 2
    assert sorted(places(await letters_on(kafka))) == [
        ("extract", 1, "forgotten"),
        ("extract", 2, "open"),
        ("tag", 1, "forgotten"),
    ]
    told = [record.levelname for record in caplog.records if "deletes no records" in record.message]
    assert told == ["INFO"]


async def test_a_client_that_may_not_delete_marks_them(
    apache: KafkaSettings, park: Park, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> None:
        raise TopicAuthorizationFailedError

    await park(reason(apache, "extract", 1), THEIRS)
    await park(reason(apache, "extract", 2), OTHER)
    with monkeypatch.context() as patch:
        patch.setattr(AIOKafkaAdminClient, "delete_records", refused)
        assert await purge(apache, THEIRS) == 1
    assert places(await letters_on(apache)) == [("extract", 1, "forgotten"), ("extract", 2, "open")]
    assert len(await records_on(apache, Topics.of(apache).dead_letters)) == 3
    # The permission that was missing makes good what was only marked.
    assert await purge(apache, THEIRS) == 1
    assert places(await letters_on(apache)) == [("extract", 2, "open")]


async def test_a_broker_that_hangs_up_and_does_not_come_back_is_down(
    apache: KafkaSettings, park: Park, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hung_up(*_: object) -> None:
        raise KafkaConnectionError

    apache = apache.model_copy(update={"log_id": "log"})
    await park(reason(apache, "extract", 1), THEIRS)
    monkeypatch.setattr(AIOKafkaAdminClient, "delete_records", hung_up)
    monkeypatch.setattr(AIOKafkaAdminClient, "describe_cluster", hung_up)
    with pytest.raises(KafkaUnavailable):
        await purge(apache, THEIRS)
    assert places(await letters_on(apache)) == [("extract", 1, "open")]


async def test_a_key_of_no_user_is_refused(apache: KafkaSettings) -> None:
    with pytest.raises(InvalidRecord):
        await purge(apache, b"nobody")
