"""Dead letters of a user who is forgotten: whatever is interrupted or comes late, none is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from aiokafka import TopicPartition

from agents.archive import LetterWriter
from schemas.codec import encode
from schemas.dead_letters import REDRIVE_HEADER, TIMESTAMP_HEADER
from schemas.deltas import FlushEvent
from schemas.messages import user_key
from sinks.clickhouse import ClickHouseArchive
from sinks.errors import SinkUnavailable
from streams import dead_letter_purge
from streams.app import ArchiveSink
from streams.dead_letter_purge import _Purge, purge
from streams.errors import DependencyDown
from streams.kafka import KafkaUnavailable, cluster_id
from streams.ledger import Entry
from streams.settings import KafkaSettings
from streams.spans import span
from streams.topics import Topics
from tests.integration.clickhouse_records import make_event, rows
from tests.integration.dead_letter_support import Park, letters_on, parking, reason
from tests.support.brokers import KafkaSettingsByName
from tests.support.fakes import FakeSource
from tests.support.records import flush_batch, flush_ref

if TYPE_CHECKING:
    from collections.abc import Collection

pytest_plugins = ["tests.integration.clickhouse_fixtures"]
pytestmark = pytest.mark.timeout(240)

ADA, BEA = user_key("default", "ada"), user_key("default", "bea")
NOW = datetime(2026, 3, 2, tzinfo=UTC)
ROWS = "SELECT user_id, `offset` FROM dead_letters FINAL ORDER BY user_id, `offset`"


@pytest.fixture
def apache(on_apache_kafka: KafkaSettingsByName) -> KafkaSettings:
    return KafkaSettings.model_validate({**on_apache_kafka, "partitions": 1})


@pytest_asyncio.fixture
async def park(apache: KafkaSettings) -> AsyncIterator[Park]:
    async with parking(apache) as parks:
        yield parks


@pytest.fixture
def sink(archive: ClickHouseArchive, apache: KafkaSettings) -> ArchiveSink:
    return ArchiveSink(archive, apache)


async def forgotten(kafka: KafkaSettings, user: str = "ada", offset: int = 50) -> FlushEvent:
    """Return the event that says that a user is forgotten, asked for at an offset."""
    log = await cluster_id(kafka)
    event = make_event(offset, user=user, tenant="default", lane="forget", log=log, recorded_at=NOW)
    return FlushEvent(**{name: getattr(event, name) for name in event.__struct_fields__} | {"outcome": "forgotten"})


async def archive_letters(kafka: KafkaSettings, sink: ArchiveSink) -> None:
    """Have what lies on the dead-letter topic read by the archive, as a worker does."""
    source = FakeSource()
    async with span(kafka, TopicPartition(Topics.of(kafka).dead_letters, 0)) as found:
        batch = [
            Entry(
                source.event(
                    one.offset, key=one.key, value=one.value, topic=one.topic, headers=[(k, v) for k, v in one.headers]
                ),
                epoch=0,
            )
            async for one in found.records()
        ]
    await LetterWriter(await cluster_id(kafka), sink)(batch)


async def left(kafka: KafkaSettings) -> list[tuple[str, int]]:
    return sorted((letter.user[1], letter.why.offset) for letter in await letters_on(kafka) if letter.user is not None)


async def down(*_arguments: Any) -> Any:
    raise KafkaUnavailable("down")


async def store_down(*_arguments: Any) -> Any:
    raise SinkUnavailable("down")


STEPS = [
    (ClickHouseArchive, "write_events", store_down),
    (dead_letter_purge, "ensure_topics", down),
    (_Purge, "_find", down),
    (ClickHouseArchive, "remove_letters", store_down),
    (_Purge, "_may_delete", down),
    (_Purge, "_write_again", down),
    (_Purge, "_begins_at", down),
    (_Purge, "_delete", down),
]


@pytest.mark.parametrize(("owner", "step", "fault"), STEPS, ids=[step for _, step, _ in STEPS])
async def test_interrupted_at_any_step_it_is_not_acknowledged_and_the_next_try_completes_it(
    apache: KafkaSettings,
    park: Park,
    sink: ArchiveSink,
    archive: ClickHouseArchive,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    step: str,
    fault: Callable[..., Awaitable[Any]],
) -> None:
    for offset, key in enumerate((ADA, BEA, ADA, BEA)):
        await park(reason(apache, "window", offset), key)
    await archive_letters(apache, sink)
    event, place = await forgotten(apache), ()
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, fault)
        with pytest.raises(DependencyDown):
            await sink.write_events([event], place)
    await sink.write_events([event], place)
    assert await left(apache) == [("bea", 1), ("bea", 3)]
    assert await rows(archive, ROWS) == [("bea", 1), ("bea", 3)]


async def test_what_failed_only_after_its_user_was_forgotten_goes_too(
    apache: KafkaSettings, park: Park, sink: ArchiveSink, archive: ClickHouseArchive
) -> None:
    event = await forgotten(apache)
    await sink.write_events([event], ())
    log, late = event.flush.log_id, NOW + timedelta(minutes=5)
    for offset in (49, 51):
        batch = flush_batch(flush_ref(offset, offset, log_id=log))
        await park(reason(apache, "summary", offset, failed_at=late), ADA, encode(batch))
    await park(reason(apache, "summary", 48, failed_at=late), BEA)
    await archive_letters(apache, sink)
    assert await left(apache) == [("ada", 51), ("bea", 48)]
    assert await rows(archive, ROWS) == [("ada", 51), ("bea", 48)]
    await archive_letters(apache, sink)
    assert await left(apache) == [("ada", 51), ("bea", 48)]


async def test_what_a_killed_purge_has_written_back_of_another_forgotten_user_goes_again(
    apache: KafkaSettings, park: Park, sink: ArchiveSink, archive: ClickHouseArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    await park(reason(apache, "window", 1), BEA, b"secret")
    await park(reason(apache, "window", 2), ADA)
    await archive_letters(apache, sink)
    ends = [await forgotten(apache, "bea"), await forgotten(apache, "ada")]
    send, begun = dead_letter_purge._send, []

    async def the_other_purge_first(*arguments: Any) -> Any:
        if not begun:
            begun.append(True)
            await sink.write_events(ends[:1], ())
        return await send(*arguments)

    async def killed(*_: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(dead_letter_purge, "_send", the_other_purge_first)
        patch.setattr(_Purge, "_begins_at", _until_the_other_has_ended(killed, begun))
        with pytest.raises(asyncio.CancelledError):
            await sink.write_events(ends[1:], ())
    await sink.write_events(ends[1:], ())
    await archive_letters(apache, sink)
    assert await left(apache) == []
    assert await rows(archive, ROWS) == []


def _until_the_other_has_ended(killed: Callable[..., Awaitable[Any]], begun: Collection[bool]) -> Any:
    """Return `_Purge._begins_at` for the purge of bea's letters, and what kills the one of ada's."""
    begins_at = _Purge._begins_at

    async def of_whom(purging: _Purge, offset: int) -> bool:
        assert begun
        if purging._key == ADA:
            await killed()
        return await begins_at(purging, offset)

    return of_whom


async def test_a_message_that_was_sent_again_behind_the_forgetting_is_of_before_it(
    apache: KafkaSettings, park: Park
) -> None:
    event = await forgotten(apache)
    before = round(event.flush.closed_at.timestamp() * 1000)
    for offset, written in ((51, before), (52, before + 1)):
        headers = [(REDRIVE_HEADER, b"a letter"), (TIMESTAMP_HEADER, b"%d" % written)]
        await park(reason(apache, "window", offset), ADA, b"{", headers)
    await park(reason(apache, "window", 53), ADA, b"{", [(TIMESTAMP_HEADER, b"%d" % before)])
    assert await purge(apache, ADA, event.flush) == 1
    assert await left(apache) == [("ada", 52), ("ada", 53)]
