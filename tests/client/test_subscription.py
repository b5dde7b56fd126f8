"""`Client.subscribe`: what is chosen, from where it is told, in order, once, and with what is missing named."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete
from aiokafka.errors import OffsetOutOfRangeError, TopicAuthorizationFailedError
from profilestream_client import (
    Client,
    ClientError,
    Gap,
    KafkaUnavailable,
    Position,
    PositionLost,
    Subscription,
    TopicMissing,
)
from profilestream_client.subscription import partition_for

from schemas.messages import user_key
from streams import partitioning
from streams.kafka import admin
from streams.settings import KafkaSettings
from streams.tail import tail
from streams.topics import Topics, ensure_topics
from tests.client.support import connection_to, read, send, some, versions, written
from tests.support.brokers import KafkaSettingsByName, apache_kafka


def there_is(client: Client, **choice) -> Subscription:
    """Return a subscription to what there is now."""
    return client.subscribe(**({"follow": False} | choice))


async def all_of(subscription: Subscription) -> list[int]:
    return versions([delta async for delta in subscription])


@pytest.mark.parametrize("partitions", [1, 4, 7, 64])
@pytest.mark.parametrize("user", ["ada", "bo", "安娜", "a:b", "🦊"])
def test_a_users_partition_is_the_one_that_the_worker_writes_to(user: str, partitions: int) -> None:
    key = user_key("acme", user)
    assert partition_for(key, partitions) == partitioning.partition_for(key, partitions)


async def test_deltas_are_given_out_as_they_were_written(kafka: KafkaSettings) -> None:
    deltas = [written(1), written(2, op="update", before="tea 1"), written(3, op="delete", after=None, added=None)]
    await send(kafka, *deltas)
    async with Client(connection_to(kafka)) as client:
        assert [delta async for delta in there_is(client)] == [read(delta) for delta in deltas]


async def test_a_delta_carries_the_headers_of_a_cloud_event(kafka: KafkaSettings) -> None:
    await send(kafka, written(1))
    (record,) = [record async for record in tail(kafka, Topics.of(kafka).deltas)]
    headers = dict(record.headers)
    assert headers["ce_id"].decode() == written(1).delta_id
    assert headers["ce_subject"] == record.key


async def test_deltas_are_chosen(kafka: KafkaSettings) -> None:
    await send(
        kafka,
        written(1),
        written(1, "bo"),
        written(1, tenant="acme"),
        written(2, kind="fact", topic="location", item_id="f", after="lives in Lyon"),
        written(3, topic="basic_info"),
        written(1, "ada2", kind="mood"),
    )
    chosen = {
        "everything": ({}, 6),
        "a tenant": ({"tenant": "acme"}, 1),
        "a user of the default tenant": ({"user": "ada"}, 3),
        "a user of a tenant": ({"user": "ada", "tenant": "acme"}, 1),
        "a kind": ({"kind": "fact"}, 1),
        "a kind of a later release": ({"kind": "mood"}, 1),
        "a topic": ({"topic": "Basic Info"}, 1),
        "a topic of a user": ({"topic": "interest", "user": "ada"}, 1),
        "nobody": ({"user": "nobody"}, 0),
    }
    async with Client(connection_to(kafka)) as client:
        found = {name: len(await all_of(there_is(client, **choice))) for name, (choice, _) in chosen.items()}
    assert found == {name: count for name, (_, count) in chosen.items()}


async def test_no_gap_is_seen_in_what_is_left_out_by_choice(kafka: KafkaSettings) -> None:
    await send(kafka, written(1), written(2, kind="tag", topic="tag"), written(3))
    gaps: list[Gap] = []
    async with Client(connection_to(kafka)) as client:
        assert await all_of(there_is(client, kind="slot", on_gap=gaps.append)) == [1, 3]
    assert gaps == []


async def test_following_goes_on_with_what_is_written(kafka: KafkaSettings) -> None:
    await send(kafka, written(1))
    async with Client(connection_to(kafka)) as client, client.subscribe(user="ada") as deltas:
        assert versions(await some(deltas, 1)) == [1]
        waiting = asyncio.ensure_future(anext(deltas))
        await send(kafka, written(2), written(1, "bo"), written(3))
        assert (await waiting).version == 2
        assert versions(await some(deltas, 1)) == [3]


async def test_without_following_it_ends_where_the_topic_did(kafka: KafkaSettings) -> None:
    await send(kafka, written(1), written(1, "bo"), written(2))
    async with Client(connection_to(kafka)) as client:
        async with there_is(client) as deltas:
            await send(kafka, written(3), written(2, "bo"))
            found = [(delta.user_id, delta.version) async for delta in deltas]
            position = deltas.position
        assert sorted(found) == [("ada", 1), ("ada", 2), ("bo", 1)]
        rest = [(delta.user_id, delta.version) async for delta in there_is(client, start_at=position)]
    assert sorted(rest) == [("ada", 3), ("bo", 2)]


async def test_from_the_end_only_what_is_written_after_it_was_opened(kafka: KafkaSettings) -> None:
    await send(kafka, written(1), written(2))
    async with Client(connection_to(kafka)) as client, client.subscribe(start_at="end") as deltas:
        await send(kafka, written(3))
        assert versions(await some(deltas, 1)) == [3]


async def test_from_a_time(kafka: KafkaSettings) -> None:
    await send(kafka, written(1), written(2), written(3))
    records = [record async for record in tail(kafka, Topics.of(kafka).deltas)]
    second = datetime.fromtimestamp(records[1].timestamp / 1000, UTC)
    async with Client(connection_to(kafka)) as client:
        found = await all_of(there_is(client, start_at=second))
        assert found[-2:] == [2, 3]
        if not kafka.single_record_batches:  # the embedded broker may name the record before
            assert len(found) == sum(record.timestamp >= records[1].timestamp for record in records)
        assert await all_of(there_is(client, start_at=second - timedelta(hours=1))) == [1, 2, 3]
        async with client.subscribe(start_at=datetime.now(UTC) + timedelta(hours=1)) as deltas:
            await send(kafka, written(4))
            assert versions(await some(deltas, 1)) == [4]


async def test_from_a_position_exactly_the_rest(kafka: KafkaSettings) -> None:
    users = ["ada", "bo", "cy", "dee", "eve"]
    await send(kafka, *(written(version, user) for version in (1, 2, 3) for user in users))
    given_out: list[tuple[str, int]] = []
    async with Client(connection_to(kafka)) as client:
        stored: Position | None = None
        while True:
            async with there_is(client, start_at=stored or "beginning") as deltas:
                batch = [delta async for delta, _ in zip_async(deltas, range(4))]
                stored = Position.load(deltas.position.dump())
            given_out += [(delta.user_id, delta.version) for delta in batch]
            if not batch:
                break
    assert sorted(given_out) == [(user, version) for user in users for version in (1, 2, 3)]
    assert len(stored.offsets) == 4


async def zip_async(subscription: Subscription, numbers: range):
    for number in numbers:
        try:
            yield await anext(subscription), number
        except StopAsyncIteration:
            return


async def test_the_position_moves_past_what_is_not_chosen(kafka: KafkaSettings) -> None:
    await send(kafka, written(1), written(2, kind="tag"), written(3, kind="tag"))
    async with Client(connection_to(kafka)) as client:
        async with there_is(client, user="ada", kind="slot") as deltas:
            before = deltas.position
            assert (await anext(deltas)).version == 1
            assert sum(deltas.position.offsets.values()) == 1
            with pytest.raises(StopAsyncIteration):
                await anext(deltas)
            after = deltas.position
        assert sum(before.offsets.values()) == 0
        assert sum(after.offsets.values()) == 3
        await send(kafka, written(4))
        assert await all_of(there_is(client, user="ada", start_at=after)) == [4]


async def test_a_position_of_one_user_says_nothing_of_the_others(kafka: KafkaSettings) -> None:
    users = ["ada", "bo", "cy", "dee", "eve"]
    await send(kafka, *(written(1, user) for user in users))
    async with Client(connection_to(kafka)) as client:
        async with there_is(client, user="ada") as deltas:
            await some(deltas, 1)
            position = deltas.position
        found = {delta.user_id async for delta in there_is(client, start_at=position)}
    partitions = {user: partition_for(user_key("default", user), 4) for user in users}
    assert found >= {user for user in users if partitions[user] != partitions["ada"]}
    assert "ada" not in found


async def test_a_position_that_the_topic_does_not_hold_is_lost(kafka: KafkaSettings) -> None:
    await send(kafka, written(1))
    async with Client(connection_to(kafka)) as client:
        async with client.subscribe() as deltas:
            position = deltas.position
        for changes, problem in (
            ({"log_id": "another"}, "the Kafka cluster another"),
            ({"topic": "another"}, "the position is one of another"),
            ({"offsets": {0: 1_000}}, "and the position is at 1000"),
            ({"offsets": {0: -1}}, "and the position is at -1"),
        ):
            with pytest.raises(PositionLost, match=problem):
                await anext(client.subscribe(start_at=msgspec.structs.replace(position, **changes)))


async def test_a_position_whose_records_are_removed_is_lost(on_apache_kafka: KafkaSettingsByName) -> None:
    kafka = KafkaSettings.model_validate(on_apache_kafka)
    await send(kafka, written(1), written(2), written(3))
    async with Client(connection_to(kafka)) as client:
        async with there_is(client, user="ada") as deltas:
            await some(deltas, 1)
            position = deltas.position
        place = TopicPartition(Topics.of(kafka).deltas, partition_for(user_key("default", "ada"), 4))
        async with admin(kafka) as broker:
            await broker.delete_records({place: RecordsToDelete(before_offset=2)})
        with pytest.raises(PositionLost, match="holds offsets 2 to 3, and the position is at 1"):
            await anext(there_is(client, user="ada", start_at=position))
        gaps: list[Gap] = []
        assert await all_of(there_is(client, on_gap=gaps.append)) == [3]
        assert gaps == [Gap("default", "ada", expected=1, found=3)]


@pytest.mark.parametrize(
    ("failure", "error"),
    [(OffsetOutOfRangeError({}), PositionLost), (TopicAuthorizationFailedError(), KafkaUnavailable)],
)
async def test_what_fails_while_reading_is_an_error_of_the_client(
    kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch, failure: Exception, error: type[ClientError]
) -> None:
    await send(kafka, written(1))

    async def failing(**_: object) -> None:
        raise failure

    async with Client(connection_to(kafka)) as client, client.subscribe() as deltas:
        monkeypatch.setattr(deltas._consumer, "getmany", failing)
        with pytest.raises(error):
            await anext(deltas)


async def test_a_broker_that_goes_silent_before_the_end_is_said(
    kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(kafka, written(1))

    async def silent(**_: object) -> dict[TopicPartition, list[object]]:
        return {}

    async with Client(connection_to(kafka)) as client, there_is(client) as deltas:
        monkeypatch.setattr(deltas._consumer, "getmany", silent)
        with pytest.raises(KafkaUnavailable, match="no answer in time"):
            await anext(deltas)


@pytest.mark.timeout(180)
async def test_following_goes_on_after_the_broker_was_gone(tmp_path: Path) -> None:
    async with apache_kafka(tmp_path / "kafka") as broker:
        kafka = KafkaSettings.model_validate(broker.settings())
        await send(kafka, written(1))
        async with Client(connection_to(kafka)) as client, client.subscribe() as deltas:
            assert versions(await some(deltas, 1)) == [1]
            waiting = asyncio.ensure_future(anext(deltas))
            await broker.restart()
            await send(kafka, written(2))
            async with asyncio.timeout(60):
                assert (await waiting).version == 2


@pytest.mark.parametrize("text", ["", "{}", "7", '{"log_id": "l", "topic": "t", "offsets": {"a": 1}}'])
def test_text_that_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a position"):
        Position.load(text)


async def test_what_is_sent_again_is_given_out_once(kafka: KafkaSettings) -> None:
    deltas = [written(version) for version in (1, 2, 3)]
    await send(kafka, *deltas[:2], *deltas, *deltas, written(4))
    gaps: list[Gap] = []
    async with Client(connection_to(kafka)) as client:
        assert await all_of(there_is(client, on_gap=gaps.append)) == [1, 2, 3, 4]
    assert gaps == []


async def test_a_gap_is_told_before_the_delta_behind_it(kafka: KafkaSettings) -> None:
    await send(kafka, written(1), written(4), written(9, op="forget", kind="profile", after=None), written(10))
    told: list[object] = []

    async def on_gap(gap: Gap) -> None:
        await asyncio.sleep(0)
        told.append(gap)

    async with Client(connection_to(kafka)) as client:
        async for delta in there_is(client, on_gap=on_gap):
            told.append(delta.version)
    assert told == [1, Gap("default", "ada", expected=2, found=4), 4, 9, 10]


async def test_a_gap_that_nobody_asks_for_is_logged(kafka: KafkaSettings, caplog: pytest.LogCaptureFixture) -> None:
    await send(kafka, written(1), written(3))
    with caplog.at_level(logging.WARNING, "profilestream_client"):
        async with Client(connection_to(kafka)) as client:
            assert await all_of(there_is(client)) == [1, 3]
    assert "default:ada do not follow on each other: version 2 was expected, 3 came" in caplog.text


async def test_a_delta_whose_gap_is_being_told_is_not_lost_when_that_is_cancelled(kafka: KafkaSettings) -> None:
    await send(kafka, written(1), written(3))
    telling = asyncio.Event()
    calls: list[Gap] = []

    async def on_gap(gap: Gap) -> None:
        calls.append(gap)
        telling.set()
        if len(calls) == 1:
            await asyncio.Event().wait()

    async with Client(connection_to(kafka)) as client, client.subscribe(on_gap=on_gap) as deltas:
        await some(deltas, 1)
        waiting = asyncio.ensure_future(anext(deltas))
        await telling.wait()
        waiting.cancel()
        assert await asyncio.gather(waiting, return_exceptions=True)
        assert versions(await some(deltas, 1)) == [3]
        assert len(calls) == 2


async def test_what_is_no_delta_is_counted_and_passed_over(
    kafka: KafkaSettings, caplog: pytest.LogCaptureFixture
) -> None:
    await send(kafka, written(1), b"rubbish", None, written(2))
    async with Client(connection_to(kafka)) as client:
        deltas = there_is(client)
        with caplog.at_level(logging.WARNING, "profilestream_client"):
            assert await all_of(deltas) == [1, 2]
    assert deltas.unreadable == 2
    assert caplog.text.count("holds no delta") == 2
    assert sum(deltas.position.offsets.values()) == 4


async def test_closing_the_client_ends_what_waits(kafka: KafkaSettings) -> None:
    await send(kafka, written(1))
    client = Client(connection_to(kafka))
    deltas = client.subscribe()
    await some(deltas, 1)
    waiting = asyncio.ensure_future(all_of(deltas))
    await asyncio.sleep(0)
    await client.aclose()
    async with asyncio.timeout(10):
        assert await waiting == []
    with pytest.raises(StopAsyncIteration):
        await anext(deltas)
    assert sum(deltas.position.offsets.values()) == 1


async def test_a_topic_that_is_missing_is_said(kafka: KafkaSettings) -> None:
    async with Client(connection_to(kafka)) as client:
        with pytest.raises(TopicMissing, match=r"profile\.deltas\.v1: the worker makes it"):
            await anext(client.subscribe())


async def test_an_empty_topic_has_nothing(kafka: KafkaSettings) -> None:
    await ensure_topics(kafka)
    async with Client(connection_to(kafka)) as client:
        assert await all_of(there_is(client)) == []


def test_before_it_is_opened_there_is_no_position() -> None:
    with pytest.raises(RuntimeError, match="not open yet"):
        Client("127.0.0.1:1").subscribe().position  # noqa: B018


def test_a_time_without_an_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="offset from UTC"):
        Client("127.0.0.1:1").subscribe(start_at=datetime(2026, 3, 1))
