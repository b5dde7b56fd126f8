"""`carried_letters`: from one broker that keeps nothing to the next, letters and decisions stay what they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from schemas.codec import encode
from schemas.dead_letters import Resolution
from schemas.deltas import FlushEvent
from schemas.messages import user_key
from streams.carried_letters import FILE_NAME, carried_letters
from streams.dead_letter_store import DeadLetterStore
from streams.embedded.child import ServiceFailed
from streams.kafka import producer
from streams.letters import Letter, User
from streams.partitioning import partition_for
from streams.redriving import Redriver
from streams.settings import KafkaSettings
from streams.topics import Topics
from tests.integration.broker_fixtures import own_topics
from tests.integration.clickhouse_records import make_event
from tests.integration.dead_letter_support import FAILED, letters_on, parking, reason, records_on
from tests.support.records import memo

ADA, BEA = user_key("default", "ada"), user_key("default", "bea")


@pytest.fixture
def first(broker: str) -> KafkaSettings:
    return own_topics(broker).model_copy(update={"log_id": "first", "partitions": 4})


@pytest.fixture
def second(broker: str) -> KafkaSettings:
    return own_topics(broker).model_copy(update={"log_id": "second", "partitions": 2})


async def nobody(_users: Iterable[User]) -> Sequence[FlushEvent]:
    return []


async def decide(kafka: KafkaSettings, letter: Letter, decision: str, sent_from: int | None = None) -> None:
    store = await DeadLetterStore.open(kafka)
    resolution = Resolution(
        letter_id=letter.letter_id, decision=decision, reason="why", resolved_at=FAILED, sent_from=sent_from
    )
    async with producer(kafka) as client:
        await store.resolve(client, [(letter, resolution)])


def states(letters: Iterable[Letter]) -> dict[tuple[str, str], str]:
    return {(letter.letter_id, letter.why.stage): letter.state for letter in letters}


async def test_ids_records_and_decisions_stay_also_where_there_are_fewer_partitions(
    first: KafkaSettings, second: KafkaSettings, tmp_path: Path
) -> None:
    async with carried_letters(tmp_path, first, nobody) as carried:
        async with parking(first) as park:
            await park(reason(first, "window", 1, partition=3), ADA, b"\xff", [("own", b"\xff")])
            await park(reason(first, "extract", 2, partition=1), BEA, encode(memo()))
            await park(reason(first, "tag", 3), BEA, None)
            await park(reason(first, "merge", 4), BEA, b"secret")
        before = {letter.why.stage: letter for letter in await letters_on(first)}
        await decide(first, before["tag"], "discarded")
        await decide(first, before["merge"], "forgotten")
        await decide(first, before["window"], "redriving", sent_from=99)
    assert carried.open == 2
    assert b"c2VjcmV0" not in (tmp_path / FILE_NAME).read_bytes()

    async with carried_letters(tmp_path, second, nobody):
        letters = await letters_on(second)
        assert states(letters) == {
            (before["window"].letter_id, "window"): "open",
            (before["extract"].letter_id, "extract"): "open",
            (before["tag"].letter_id, "tag"): "discarded",
        }
        window = next(letter for letter in letters if letter.why.stage == "window")
        assert (window.why.log_id, window.sent_from) == ("first", None)
        store = await DeadLetterStore.open(second)
        async with producer(second) as client:
            (done,) = [one async for one in Redriver(store, client, lambda: FAILED).redrive([window])]
        assert done.refused is None
        ((key, value, headers, _),) = await records_on(
            second, Topics.of(second).messages, partition_for(ADA, second.partitions)
        )
        assert (key, value, headers[0]) == (ADA, b"\xff", ("own", b"\xff"))
        assert states(await letters_on(second))[window.letter_id, "window"] == "redriven"


async def test_what_the_first_log_said_of_an_offset_is_nothing_to_the_second(
    first: KafkaSettings, second: KafkaSettings, tmp_path: Path
) -> None:
    async with carried_letters(tmp_path, first, nobody), parking(first) as park:
        await park(reason(first, "window", 1), ADA)
    async with carried_letters(tmp_path, second, nobody), parking(second) as park:
        await park(reason(second, "window", 1), ADA)
        assert len({letter.letter_id for letter in await letters_on(second)}) == 2


async def test_of_a_user_who_was_forgotten_since_nothing_comes_back(
    first: KafkaSettings, second: KafkaSettings, tmp_path: Path
) -> None:
    async with carried_letters(tmp_path, first, nobody), parking(first) as park:
        for offset, key in enumerate((ADA, BEA)):
            await park(reason(first, "window", offset), key)

    async def ada(users: Iterable[User]) -> Sequence[FlushEvent]:
        assert set(users) == {("default", "ada"), ("default", "bea")}
        return [make_event(0, user="ada", tenant="default", lane="forget", log="another", recorded_at=FAILED)]

    async with carried_letters(tmp_path, second, ada):
        assert [letter.user for letter in await letters_on(second)] == [("default", "bea")]


async def test_a_block_that_fails_keeps_its_letters(first: KafkaSettings, tmp_path: Path) -> None:
    async def fail() -> None:
        async with carried_letters(tmp_path, first, nobody), parking(first) as park:
            await park(reason(first, "window", 1), ADA)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert len((tmp_path / FILE_NAME).read_bytes().splitlines()) == 1


async def test_a_file_that_cannot_be_read_is_named_and_left(first: KafkaSettings, tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"log_id"')
    with pytest.raises(ServiceFailed, match=r"dead-letters\.jsonl cannot be read .* mend the file, or move it away"):
        async with carried_letters(tmp_path, first, nobody):
            pass
    assert (tmp_path / FILE_NAME).read_text() == '{"log_id"'


async def test_a_file_that_cannot_be_written_is_told(first: KafkaSettings, tmp_path: Path) -> None:
    with pytest.raises(ServiceFailed, match="the dead letters cannot be kept in"):
        async with carried_letters(tmp_path / "gone", first, nobody):
            pass
