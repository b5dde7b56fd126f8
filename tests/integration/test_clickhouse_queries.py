"""The ready queries, against what a small history says when it is worked out by hand."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from schemas.dead_letters import ArchivedDecision, ArchivedLetter, DeadLetterReason, Decision, Resolution
from schemas.deltas import FlushEvent
from schemas.places import Place
from schemas.stages import Dropped, EventTag, MemoBullet, MessageRef, ModelCall
from sinks.clickhouse import ClickHouseArchive
from sinks.clickhouse.ready import ready_queries
from sinks.errors import SinkRejected
from tests.integration.clickhouse_records import (
    make_delta,
    make_event,
    make_fact,
    make_forget,
    make_preference,
    make_redriven,
    make_tag,
    rows,
)

if TYPE_CHECKING:
    from tests.integration.clickhouse_fixtures import LocalClickHouse

pytest_plugins = ["tests.integration.clickhouse_fixtures"]

ODD = "😀 مرحبا ‮abc 你好 '; DROP TABLE profile_deltas; --"
LONG = "長" * 33_000  # 99 kB


def day(number: int, hour: int = 12) -> datetime:
    return datetime(2026, 3, number, hour, tzinfo=UTC)


def at(said: int, recorded: int) -> dict[str, datetime]:
    """Times of a change: days of March on which it was said and recorded."""
    return {"said_at": day(said), "recorded_at": day(recorded)}


ADA: dict[str, Any] = {"user": "ada", "tenant": "acme"}
HISTORY = [
    make_delta(1, sub_topic="city", after="Oslo", op="add", **ADA, **at(1, 1)),
    make_delta(2, sub_topic="job", after="nurse", op="add", **ADA, **at(2, 2)),
    make_delta(3, sub_topic="city", after="Rome", before="Oslo", op="update", **ADA, **at(5, 5)),
    # Said on the third, and read in only on the tenth.
    make_delta(4, sub_topic="pet", after=ODD, op="add", **ADA, **at(3, 10)),
    make_delta(5, sub_topic="job", after=None, before="nurse", op="delete", **ADA, **at(11, 11)),
    make_delta(6, sub_topic="city", after="Rome", before="Rome", added="Bonn", op="overtaken", **ADA, **at(4, 12)),
    make_fact(7, "f1", "Has a cat", topic="other", **ADA, **at(6, 12)),
    make_preference(8, "p1", "Likes tea", topic="content", **ADA, **at(7, 12)),
    make_tag(9, "coffee", 1, **ADA, **at(8, 12)),
    make_tag(10, "coffee", 2, **ADA, **at(9, 13)),
]
OTHERS = [
    make_delta(1, sub_topic="city", after="Bergen", op="add", user="bea", tenant="acme", **at(2, 2)),
    make_delta(2, sub_topic="text", after=LONG, op="add", user="bea", tenant="acme", **at(2, 2)),
    make_tag(3, "coffee", 1, user="bea", tenant="acme", **at(9, 9)),
    # Another tenant's user of the same name.
    make_delta(1, sub_topic="city", after="SECRET", op="add", user="ada", tenant="other", **at(1, 1)),
    make_tag(2, "coffee", 1, user="ada", tenant="other", **at(9, 9)),
]


def call(stage: str, prompt: int, completion: int, outcome: str = "ok") -> ModelCall:
    return ModelCall(
        stage=stage, model="m1", outcome=outcome, prompt_tokens=prompt, completion_tokens=completion, duration_ms=5.0
    )


def talk(offset: int, user: str, tenant: str, recorded: int, **changes: Any) -> FlushEvent:
    return make_event(offset, user=user, tenant=tenant, recorded_at=day(recorded), **changes)


EVENTS = [
    talk(
        *(1, "ada", "acme", 5),
        memo=(MemoBullet(text="Ada moved to Rome", evidence=("m1",)), MemoBullet(text=ODD, evidence=("m2", "m1"))),
        messages=(
            MessageRef(message_id="m1", role="user", occurred_at=day(3)),
            MessageRef(message_id="m2", role="user", occurred_at=day(4)),
        ),
        tags=(EventTag(tag="emotion", value="happy"), EventTag(tag="trip", value="")),
        calls=(call("summary", 100, 10), call("extract", 300, 30), call("extract", 7, 0, "timeout")),
        dropped=(Dropped(stage="extract", reason="no_evidence", detail="x"),) * 2,
    ),
    talk(
        *(2, "ada", "acme", 6),
        memo=(MemoBullet(text="Talked about CHESS", evidence=("m3",)),),
        messages=(MessageRef(message_id="m3", role="user", occurred_at=day(6)),),
        calls=(call("summary", 1_000_000, 0),),
        dropped=(Dropped(stage="extract", reason="no_evidence", detail="x"),),
    ),
    talk(
        *(3, "ada", "other", 6),
        memo=(MemoBullet(text="SECRET", evidence=()),),
        calls=(call("summary", 1, 1),),
        dropped=(Dropped(stage="tag", reason="unknown_tag", detail="y"),),
    ),
]


def letter(number: int, user: str, stage: str = "extract", tenant: str = "acme", failed: int = 5) -> ArchivedLetter:
    why = DeadLetterReason(
        stage=stage, reason="model_timeout", detail="no answer", topic="chat.memos.v1", partition=1, offset=number,
        attempts=3, failed_at=day(failed),
    )  # fmt: skip
    place = Place("dead.letters.v1", 1, number)
    return ArchivedLetter(letter_id=f"letter-{number}", tenant_id=tenant, user_id=user, why=why, place=place)


def decided(number: int, decision: Decision, when: int) -> ArchivedDecision:
    resolution = Resolution(letter_id=f"letter-{number}", decision=decision, reason="r", resolved_at=day(when))
    return ArchivedDecision(resolution=resolution, place=Place("dead.letters.v1", 1, 100 + when))


@pytest_asyncio.fixture
async def filled(archive: ClickHouseArchive) -> ClickHouseArchive:
    """The history, all of it written twice, the second time in blocks cut differently."""
    await archive.write_deltas([*HISTORY, *OTHERS])
    await archive.write_deltas(HISTORY[:3])
    await archive.write_deltas([*HISTORY[3:], *OTHERS])
    for _ in range(2):
        await archive.write_events(EVENTS)
    return archive


async def ask(archive: ClickHouseArchive, name: str, **parameters: str) -> list[dict[str, Any]]:
    return await archive.query(ready_queries()[name], parameters)


async def known(archive: ClickHouseArchive, when: datetime | str, clock: str = "recorded", user: str = "ada") -> list:
    moment = when if isinstance(when, str) else when.isoformat()
    found = await ask(archive, "profile_as_of", tenant="acme", user=user, clock=clock, at=moment)
    return [(row["sub_topic"] or row["item_id"], row["value"]) for row in found]


async def test_a_profile_as_it_was_recorded(filled: ClickHouseArchive):
    assert await known(filled, day(1, 11)) == []
    assert await known(filled, day(1)) == [("city", "Oslo")]
    assert await known(filled, day(4)) == [("city", "Oslo"), ("job", "nurse")]
    assert await known(filled, day(9)) == [("city", "Rome"), ("job", "nurse")]
    assert await known(filled, day(10)) == [("city", "Rome"), ("job", "nurse"), ("pet", ODD)]
    everything = [("city", "Rome"), ("pet", ODD), ("f1", "Has a cat"), ("p1", "Likes tea"), ("coffee", "2")]
    assert await known(filled, "now") == everything
    assert await known(filled, "2026-03-13T13:00:00+01:00") == everything
    assert await known(filled, "2026-03-12") == [("city", "Rome"), ("pet", ODD)]


async def test_a_profile_as_it_had_been_said(filled: ClickHouseArchive):
    assert await known(filled, day(2), "said") == [("city", "Oslo"), ("job", "nurse")]
    assert await known(filled, day(4), "said") == [("city", "Oslo"), ("job", "nurse"), ("pet", ODD)]
    assert await known(filled, day(6), "said") == [
        ("city", "Rome"),
        ("job", "nurse"),
        ("pet", ODD),
        ("f1", "Has a cat"),
    ]
    assert ("coffee", "1") in await known(filled, day(8), "said")
    assert await known(filled, "now", "said") == await known(filled, "now")


async def test_the_present_profile_is_that_of_now(filled: ClickHouseArchive):
    profile = await filled.profile("acme", "ada")
    slots = {(slot.sub_topic, slot.value) for slot in profile.slots}
    assert slots | {("f1", "Has a cat"), ("p1", "Likes tea"), ("coffee", "2")} == set(await known(filled, "now"))


async def test_a_user_of_whom_nothing_is_known(filled: ClickHouseArchive):
    assert await known(filled, "now", user="nobody") == []
    assert await ask(filled, "user_events", tenant="acme", user="nobody") == []
    assert await ask(filled, "slot_history", tenant="acme", user="nobody", topic="basic_info", sub_topic="city") == []


async def test_every_value_of_a_slot(filled: ClickHouseArchive):
    found = await ask(filled, "slot_history", tenant="acme", user="ada", topic="basic_info", sub_topic="city")
    assert [(row["version"], row["op"], row["before"], row["after"], row["evidence"]) for row in found] == [
        (1, "add", None, "Oslo", ["m1"]),
        (3, "update", "Oslo", "Rome", ["m3"]),
        (6, "overtaken", "Rome", "Rome", ["m6"]),
    ]


async def test_what_changed_between_two_times(filled: ClickHouseArchive):
    found = await ask(filled, "changes", tenant="acme", since="2026-03-02", until="2026-03-06")
    assert [(row["user_id"], row["version"]) for row in found] == [("ada", 2), ("bea", 1), ("bea", 2), ("ada", 3)]
    assert found[2]["after"] == LONG
    assert len(await ask(filled, "changes", tenant="acme", limit="2")) == 2


async def test_the_first_changes_of_many_at_one_moment_and_of_none(filled: ClickHouseArchive):
    await filled.write_deltas([make_delta(n, user="cy", tenant="acme", **at(1, 1)) for n in range(1, 20)])
    found = await ask(filled, "changes", tenant="acme", limit="5")
    assert [(row["user_id"], row["version"]) for row in found] == [("ada", 1), *(("cy", n) for n in range(1, 5))]
    found = await ask(filled, "changes", tenant="acme", limit="21")
    assert [(row["user_id"], row["version"]) for row in found[-2:]] == [("cy", 19), ("ada", 2)]
    assert await ask(filled, "changes", tenant="acme", since="2027-01-01") == []
    assert await ask(filled, "changes", tenant="nobody") == []


async def events_of(archive: ClickHouseArchive, **wanted: str) -> list[str]:
    return [row["text"] for row in await ask(archive, "user_events", tenant="acme", user="ada", **wanted)]


async def test_events_by_time_tag_and_words(filled: ClickHouseArchive):
    assert await events_of(filled) == ["Talked about CHESS", ODD, "Ada moved to Rome"]
    # Each bullet has the time of the newest message that it cites.
    assert await events_of(filled, since="2026-03-04", until="2026-03-06") == [ODD]
    assert (
        await events_of(filled, tag="emotion")
        == await events_of(filled, tag="emotion=happy")
        == [ODD, "Ada moved to Rome"]
    )
    assert await events_of(filled, tag="emotion=sad") == await events_of(filled, tag="chess") == []
    assert await events_of(filled, text="chess") == ["Talked about CHESS"]
    assert await events_of(filled, text="'; DROP") == await events_of(filled, text="你好") == [ODD]
    assert await events_of(filled, limit="1") == ["Talked about CHESS"]


async def test_a_bullet_without_messages_is_of_the_time_of_its_flush(filled: ClickHouseArchive):
    (row,) = await ask(filled, "user_events", tenant="other", user="ada")
    assert (row["text"], row["occurred_at"]) == ("SECRET", EVENTS[2].flush.last_occurred_at)


async def test_who_has_a_slot(filled: ClickHouseArchive):
    found = await ask(filled, "slot_holders", tenant="acme", topic="basic_info", sub_topic="city")
    assert [(row["user_id"], row["value"]) for row in found] == [("ada", "Rome"), ("bea", "Bergen")]
    assert await ask(filled, "slot_holders", tenant="acme", topic="basic_info", sub_topic="job") == []


async def test_how_many_have_each_slot(filled: ClickHouseArchive):
    found = await ask(filled, "fill_rates", tenant="acme")
    assert [(row["sub_topic"], row["users"], row["share"]) for row in found] == [
        ("city", 2, 1.0),
        ("pet", 1, 0.5),
        ("text", 1, 0.5),
    ]


async def test_tags_by_day(filled: ClickHouseArchive):
    found = await ask(filled, "tag_trends", tenant="acme")
    assert [(row["day"], row["tag"], row["hits"], row["users"]) for row in found] == [
        (date(2026, 3, 8), "coffee", 1, 1),
        (date(2026, 3, 9), "coffee", 2, 2),
    ]
    assert len(await ask(filled, "tag_trends", tenant="acme", since="2026-03-09")) == 1


async def test_slots_that_change_most(filled: ClickHouseArchive):
    found = await ask(filled, "changing_slots", tenant="acme")
    assert [(row["sub_topic"], row["changes"], row["users"]) for row in found] == [("city", 1, 1), ("job", 1, 1)]


async def test_what_was_dropped(filled: ClickHouseArchive):
    found = await ask(filled, "dropped", tenant="acme")
    assert [(row["day"], row["stage"], row["reason"], row["items"]) for row in found] == [
        (date(2026, 3, 5), "extract", "no_evidence", 2),
        (date(2026, 3, 6), "extract", "no_evidence", 1),
    ]


async def test_what_the_model_was_used_for_and_cost(filled: ClickHouseArchive):
    names = ("day", "tenant_id", "stage", "calls", "failed", "prompt_tokens", "completion_tokens", "cost")
    found = await ask(filled, "model_usage", prompt_price="2", completion_price="10")
    assert [tuple(row[name] for name in names) for row in found] == [
        (date(2026, 3, 5), "acme", "extract", 2, 1, 307, 30, 0.000914),
        (date(2026, 3, 5), "acme", "summary", 1, 0, 100, 10, 0.0003),
        (date(2026, 3, 6), "acme", "summary", 1, 0, 1_000_000, 0, 2.0),
        (date(2026, 3, 6), "other", "summary", 1, 0, 1, 1, 0.000012),
    ]
    assert {row["tenant_id"] for row in await ask(filled, "model_usage", tenant="other")} == {"other"}


async def test_dead_letters_and_what_became_of_them(archive: ClickHouseArchive):
    for _ in range(2):
        await archive.write_letters([letter(1, "ada"), letter(2, "ada"), letter(3, "bea"), letter(4, "", "window", "")])
        await archive.write_decisions(
            [decided(1, "redriving", 6), decided(1, "redriven", 7), decided(2, "redriving", 6)]
        )
    await archive.write_decisions([decided(1, "discarded", 8)])  # comes after it was sent again
    found = await ask(archive, "dead_letters_by_reason")
    assert [(row["stage"], row["state"], row["letters"], row["users"]) for row in found] == [
        ("extract", "open", 2, 2),
        ("extract", "redriven", 1, 1),
        ("window", "open", 1, 1),
    ]
    assert len(await ask(archive, "dead_letters_by_reason", tenant="acme")) == 2
    await archive.write_decisions([decided(1, "forgotten", 9)])
    states = await rows(archive, "SELECT letter_id, state FROM dead_letters_current WHERE state != 'open'")
    assert states == [("letter-1", "forgotten")]


GISTS = "SELECT text FROM event_gists FINAL ORDER BY text"
CALLS = "SELECT user_id, stage FROM model_calls FINAL ORDER BY tenant_id, stage, prompt_tokens"
LETTERS = "SELECT letter_id FROM dead_letters FINAL ORDER BY letter_id"


async def test_nothing_is_left_of_a_user_who_is_forgotten(filled: ClickHouseArchive):
    await filled.write_letters([letter(1, "ada"), letter(2, "bea"), letter(3, "ada", tenant="other")])
    forgotten = make_event(9, user="ada", tenant="acme", lane="forget", outcome="forgotten", recorded_at=day(20))
    for _ in range(2):
        await filled.write_deltas([make_forget(11, "ada", "acme")])
        await filled.write_events([forgotten])
        # What was late: an event and a letter of before.
        await filled.write_events([EVENTS[0], forgotten])
        await filled.write_letters([letter(4, "ada", failed=19), letter(5, "ada", failed=21)])
    assert await rows(filled, GISTS) == [("SECRET",)]
    assert await rows(filled, CALLS) == [("ada", "summary")]
    assert await rows(filled, LETTERS) == [("letter-2",), ("letter-3",), ("letter-5",)]
    assert await known(filled, "now") == []
    assert [
        row["user_id"] for row in await ask(filled, "slot_holders", tenant="acme", topic="basic_info", sub_topic="city")
    ] == ["bea"]


async def test_rows_say_where_their_records_lie(archive: ClickHouseArchive):
    places = [Place("profile.deltas.v1", 2, offset) for offset in (7, 8)]
    await archive.write_deltas(HISTORY[:2], places)
    await archive.write_events(EVENTS[:1], [Place("profile.events.v1", 0, 3)])
    columns = "kafka_topic, kafka_partition, kafka_offset"
    assert await rows(archive, f"SELECT version, {columns} FROM profile_deltas ORDER BY version") == [
        (1, "profile.deltas.v1", 2, 7),
        (2, "profile.deltas.v1", 2, 8),
    ]
    assert await rows(archive, f"SELECT {columns} FROM flush_events") == [("profile.events.v1", 0, 3)]


async def test_rows_of_earlier_releases_are_in_the_new_tables(clickhouse: LocalClickHouse, database: str):
    archive = ClickHouseArchive(url=clickhouse.url, database=database)
    await archive.migrate()
    # As a release without the tables leaves them.
    for name in ("event_gists", "model_calls", "slot_states"):
        await archive._client.command(f"DROP VIEW {name}_feed")
        await archive._client.command(f"DROP TABLE {name}")
    await archive._client.command("DELETE FROM schema_migrations WHERE version IN (12, 13, 16)")
    await archive.write_deltas(HISTORY)
    await archive.write_events([*EVENTS, make_redriven(4, 1, ("extract",), letters_of=("extract",))])
    assert await archive.migrate() == [12, 13, 16]
    await archive.write_events(EVENTS)
    assert len(await rows(archive, GISTS)) == 4
    assert len(await rows(archive, CALLS)) == 5
    await archive.write_deltas(HISTORY)
    assert [row["changes"] for row in await ask(archive, "changing_slots", tenant="acme")] == [1, 1]
    await archive.close()


async def test_what_cannot_be_read_is_refused(archive: ClickHouseArchive):
    with pytest.raises(SinkRejected, match=r"Code: (6|38|41|457)\."):
        await known(archive, "yesterday evening")
    with pytest.raises(ValueError, match="needs user: give --param user="):
        await ask(archive, "profile_as_of")
    with pytest.raises(ValueError, match="has no parameter 'usr'; it has tenant, user, "):
        await ask(archive, "profile_as_of", usr="ada")


@pytest.mark.parametrize("query", ready_queries().values(), ids=lambda query: query.name)
def test_each_query_says_what_it_tells_and_what_it_wants(query):
    used = set(re.findall(r"\{(\w+):\w+\}", query.sql))
    assert used == {parameter.name for parameter in query.parameters}
    assert re.fullmatch(r"[A-Z].+\.", query.summary)
    assert query.sql.startswith(("SELECT", "WITH"))


async def test_a_user_with_thousands_of_slots(archive: ClickHouseArchive):
    many = [
        make_delta(n, sub_topic=f"s{n}", after=str(n), **ADA, recorded_at=day(1) + timedelta(seconds=n))
        for n in range(1, 5001)
    ]
    await archive.write_deltas(many)
    assert len(await known(archive, "now")) == 5000
    assert len(await known(archive, day(1) + timedelta(seconds=123))) == 123
