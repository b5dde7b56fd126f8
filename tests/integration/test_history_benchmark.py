"""The archive's benchmark, small: what it makes is coherent, and every ready query tells of it what is there."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import pytest_asyncio

from benchmarks.history import fill, questions, report
from benchmarks.history_data import (
    COPIES,
    DAYS,
    SLOTS,
    START,
    TENANT,
    copied_delta,
    copied_event,
    dead_letters,
    model_user,
    user_name,
)
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.profiles import Profile, apply_deltas
from sinks.clickhouse import ClickHouseArchive
from sinks.clickhouse.ready import ready_queries
from tests.integration.clickhouse_records import rows

if TYPE_CHECKING:
    from tests.integration.clickhouse_fixtures import LocalClickHouse

pytest_plugins = ["tests.integration.clickhouse_fixtures"]
pytestmark = [pytest.mark.long, pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]

USERS, DELTAS = 1_000, 50_000
DAY = timedelta(days=1)
MIDDLE = START + timedelta(days=DAYS // 2)


@dataclass
class Made:
    """The archive that the benchmark filled, and what the generator knows of it."""

    archive: ClickHouseArchive
    deltas: dict[str, list[ProfileDelta]]
    events: dict[str, list[FlushEvent]]

    @property
    def all_deltas(self) -> list[ProfileDelta]:
        return [delta for deltas in self.deltas.values() for delta in deltas]

    @property
    def all_events(self) -> list[FlushEvent]:
        return [event for events in self.events.values() for event in events]

    async def ask(self, name: str, **parameters: str) -> list[dict[str, Any]]:
        return await self.archive.query(ready_queries()[name], parameters)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def made(clickhouse_server: LocalClickHouse) -> AsyncIterator[Made]:
    archive, rates = await fill(clickhouse_server.url, "test_history_benchmark", DELTAS, USERS, os.getpid())
    assert set(rates) == {1_000, 10_000}
    found = Made(archive, {}, {})
    for number in range(USERS // COPIES):
        model = model_user(number, DELTAS // USERS)
        for copy in range(COPIES):
            name = user_name(number, copy)
            found.deltas[name] = [copied_delta(each, number, copy) for each in model.deltas]
            found.events[name] = [copied_event(each, number, copy) for each in model.events]
    yield found
    await archive.close()


def folded(deltas: list[ProfileDelta]) -> Profile:
    return apply_deltas(Profile(tenant_id=TENANT, user_id=deltas[0].user_id), deltas)


async def test_every_profile_is_the_fold_of_its_deltas(made: Made):
    profiles = [state.profile async for state in made.archive.profiles()]
    assert [profile.user_id for profile in profiles] == sorted(made.deltas)
    for profile in profiles:
        assert profile == folded(made.deltas[profile.user_id])
    assert {kind for profile in profiles for kind in ("slots", "facts", "replaced_facts", "preferences", "tags")
            if getattr(profile, kind)} == {"slots", "facts", "replaced_facts", "preferences", "tags"}  # fmt: skip
    assert await made.archive.counts() == {"deltas": DELTAS, "events": len(made.all_events), "users": USERS}


async def test_rows_made_by_sql_are_those_of_the_generator(made: Made):
    for name in (user_name(0, 0), user_name(3, 41), user_name(9, 99)):
        assert await made.archive.history(TENANT, name, limit=1000) == made.deltas[name]
        assert await made.archive.events(TENANT, name, limit=1000) == made.events[name]
    cited = {delta_id for event in made.all_events for delta_id in event.delta_ids}
    assert cited == {delta.delta_id for delta in made.all_deltas}
    assert len(cited) == DELTAS


@pytest.mark.parametrize("clock", ["recorded", "said"])
async def test_a_profile_as_it_was(made: Made, clock: str):
    name = user_name(4, 7)
    known = [
        delta
        for delta in made.deltas[name]
        if (delta.said_at if clock == "said" else delta.recorded_at) <= MIDDLE and delta.op != "overtaken"
    ]
    newest = {(delta.kind, delta.item_id or (delta.topic, delta.sub_topic)): delta for delta in known}
    expected = sorted((each.kind, each.version, each.after) for each in newest.values() if each.after is not None)
    found = await made.ask("profile_as_of", user=name, at=MIDDLE.isoformat(), clock=clock)
    assert sorted((row["kind"], row["version"], row["value"]) for row in found) == expected
    assert len({kind for kind, _, _ in expected}) == 4


async def test_the_history_of_a_slot(made: Made):
    for name in (user_name(1, 3), user_name(8, 60)):
        slots = Counter((delta.topic, delta.sub_topic) for delta in made.deltas[name] if delta.kind == "slot")
        topic, sub_topic = max(slots, key=lambda slot: slots[slot])
        found = await made.ask("slot_history", user=name, topic=topic, sub_topic=sub_topic)
        assert [(row["version"], row["op"], row["before"], row["after"]) for row in found] == [
            (d.version, d.op, d.before, d.after)
            for d in made.deltas[name]
            if (d.topic, d.sub_topic) == (topic, sub_topic)
        ]
        assert len(found) > 1


async def test_the_events_of_a_user(made: Made):
    name = user_name(2, 50)
    bullets = []
    for event in made.events[name]:
        times = {message.message_id: message.occurred_at for message in event.messages}
        bullets += [(times[bullet.evidence[0]], bullet.text, event) for bullet in event.memo]
    bullets.sort(key=lambda each: each[0], reverse=True)
    assert bullets

    async def texts(**wanted: str) -> list[str]:
        return [row["text"] for row in await made.ask("user_events", user=name, limit="1000", **wanted)]

    assert await texts() == [text for _, text, _ in bullets]
    assert await texts(since=MIDDLE.isoformat()) == [text for moment, text, _ in bullets if moment >= MIDDLE]
    happy = [text for _, text, event in bullets if any(tag.value == "happy" for tag in event.tags)]
    assert await texts(tag="emotion=happy") == happy
    assert await texts(text="CHESS") == [text for _, text, _ in bullets if "chess" in text]


async def test_what_changed(made: Made):
    order = sorted(made.all_deltas, key=lambda delta: (delta.recorded_at, delta.user_id, delta.version))

    def shown(deltas: list[ProfileDelta]) -> list[tuple[str, int, str | None]]:
        return [(delta.user_id, delta.version, delta.after) for delta in deltas]

    async def changes(**wanted: str) -> list[tuple[str, int, str | None]]:
        return [(row["user_id"], row["version"], row["after"]) for row in await made.ask("changes", **wanted)]

    assert await changes() == shown(order[:1000])
    day = [delta for delta in order if MIDDLE <= delta.recorded_at < MIDDLE + DAY]
    assert await changes(since=MIDDLE.isoformat(), until=(MIDDLE + DAY).isoformat(), limit="5000") == shown(day)
    assert len(day) > 100


async def test_slots_that_change_most(made: Made):
    changed = [each for each in made.all_deltas if each.kind == "slot" and each.op in ("update", "delete")]
    changes = Counter((delta.topic, delta.sub_topic) for delta in changed)
    users = Counter({(delta.topic, delta.sub_topic, delta.user_id) for delta in changed})
    expected = [
        (*slot, count, sum(each[:2] == slot for each in users))
        for slot, count in sorted(changes.items(), key=lambda each: (-each[1], each[0]))
    ]
    found = await made.ask("changing_slots")
    assert [(row["topic"], row["sub_topic"], row["changes"], row["users"]) for row in found] == expected[:50]


async def test_how_many_have_each_slot(made: Made):
    filled = Counter(slot.key for deltas in made.deltas.values() for slot in folded(deltas).slots)
    expected = [(*slot, count, count / USERS) for slot, count in sorted(filled.items(), key=lambda x: (-x[1], x[0]))]
    found = await made.ask("fill_rates")
    assert [(row["topic"], row["sub_topic"], row["users"], row["share"]) for row in found] == expected


async def test_who_has_a_slot(made: Made):
    for topic, sub_topic in (SLOTS[0], SLOTS[-1]):
        holders = {
            name: (slot.value, slot.version)
            for name, deltas in made.deltas.items()
            if (slot := folded(deltas).slot(topic, sub_topic)) is not None
        }
        said: dict[str, datetime] = {}
        for delta in made.all_deltas:
            if (delta.kind, delta.topic, delta.sub_topic) == ("slot", topic, sub_topic) and delta.op != "overtaken":
                said[delta.user_id] = max(said.get(delta.user_id, delta.said_at), delta.said_at)
        order = sorted(holders, key=lambda name: (-said[name].timestamp(), name))
        found = await made.ask("slot_holders", topic=topic, sub_topic=sub_topic)
        assert [(row["user_id"], row["value"], row["last_said_at"]) for row in found] == [
            (name, holders[name][0], said[name]) for name in order
        ]


async def test_tags_by_day(made: Made):
    hits = [(each.said_at.date(), each.sub_topic, each.user_id) for each in made.all_deltas if each.kind == "tag"]
    count = Counter(hit[:2] for hit in hits)
    users: dict[tuple[date, str], set[str]] = defaultdict(set)
    for day, tag, user in hits:
        users[day, tag].add(user)
    found = await made.ask("tag_trends")
    assert {(row["day"], row["tag"]): (row["hits"], row["users"]) for row in found} == {
        key: (number, len(users[key])) for key, number in count.items()
    }


async def test_what_was_dropped(made: Made):
    expected = Counter(
        (event.recorded_at.date(), each.stage, each.reason) for event in made.all_events for each in event.dropped
    )
    found = await made.ask("dropped")
    assert {(row["day"], row["stage"], row["reason"]): row["items"] for row in found} == expected


async def test_what_the_model_was_used_for(made: Made):
    calls = [(event.recorded_at.date(), call) for event in made.all_events for call in event.calls]
    tokens: Counter[tuple[date, str, str]] = Counter()
    for day, call in calls:
        tokens[day, call.stage, call.model] += call.prompt_tokens
    found = await made.ask("model_usage", prompt_price="1000000")
    assert {(row["day"], row["stage"], row["model"]): row["prompt_tokens"] for row in found} == tokens
    assert sum(row["calls"] for row in found) == len(calls)
    assert sum(row["failed"] for row in found) == sum(call.outcome != "ok" for _, call in calls)
    assert sum(row["cost"] for row in found) == sum(tokens.values())


async def test_dead_letters(made: Made):
    letters, decisions = dead_letters(USERS)
    redriven = {each.resolution.letter_id for each in decisions}
    expected = Counter(
        (each.why.stage, "redriven" if each.letter_id in redriven else "open") for each in letters
    )  # fmt: skip
    found = await made.ask("dead_letters_by_reason")
    assert {(row["stage"], row["state"]): row["letters"] for row in found} == expected


async def test_rows_written_again_change_no_answer(made: Made):
    """A worker that died reads its last records again; every question asked before and after."""
    archive = made.archive

    async def answers() -> dict[str, list[dict[str, Any]]]:
        given = {"user": user_name(9, 99), "topic": SLOTS[0][0], "sub_topic": SLOTS[0][1], "at": MIDDLE.isoformat()}
        found = {}
        for query in ready_queries().values():
            names = {parameter.name for parameter in query.parameters}
            found[query.name] = await archive.query(query, {k: v for k, v in given.items() if k in names})
            for row in found[query.name]:
                row.pop("example", None)
        return found

    before = await answers()
    await archive.write_deltas(made.deltas[user_name(9, 99)])
    await archive.write_deltas([deltas[0] for deltas in made.deltas.values()])
    await archive.write_events([events[0] for events in made.events.values()])
    assert await answers() == before


async def test_the_report_names_every_question(made: Made, capsys: pytest.CaptureFixture[str]):
    await report(made.archive, os.getpid(), USERS, 2)
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if line.startswith("| `")]
    assert len(lines) == len(questions()) >= len(ready_queries())
    assert not [row for row in lines if row.split("|")[3].strip() == "0"], "a question that finds nothing tells nothing"
    for row in lines:
        assert ("missed" in row) == (f"\n{row.split('`')[1]}\n" in out)


async def test_a_user_who_is_forgotten_is_in_no_answer(made: Made):
    name = user_name(9, 99)
    newest = made.deltas[name][-1]
    forget = {"delta_id": "d", "version": newest.version + 1, "kind": "profile", "op": "forget", "item_id": ""}
    nothing = {"topic": "", "sub_topic": "", "before": None, "after": None, "added": None}
    nothing |= {"fact": None, "preference": None}
    await made.archive.write_deltas([msgspec.structs.replace(newest, **forget, **nothing)])
    others = {user: deltas for user, deltas in made.deltas.items() if user != name}

    filled = Counter(slot.key for deltas in others.values() for slot in folded(deltas).slots)
    rates = await made.ask("fill_rates")
    assert {(row["topic"], row["sub_topic"]): row["users"] for row in rates} == filled
    assert {row["share"] for row in rates} == {count / len(others) for count in filled.values()}
    assert name not in {row["user_id"] for row in await made.ask("changes", limit="1000000") if row["op"] != "forget"}
    for topic, sub_topic in SLOTS[:3]:
        holders = await made.ask("slot_holders", topic=topic, sub_topic=sub_topic)
        assert len(holders) == filled[topic, sub_topic]
    assert await made.ask("profile_as_of", user=name) == []
    for view in ("profile_current", "facts_current", "facts_replaced", "preferences_current", "tags_current"):
        assert await rows(made.archive, f"SELECT user_id FROM {view} WHERE user_id = '{name}'") == []


async def test_a_model_user_is_the_same_each_time():
    assert msgspec.json.encode(model_user(3, 40).deltas) == msgspec.json.encode(model_user(3, 40).deltas)
    assert model_user(3, 40).deltas != model_user(4, 40).deltas
