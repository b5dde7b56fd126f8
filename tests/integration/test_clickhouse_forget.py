"""A forgotten user in ClickHouse: nothing is left, nobody else is touched, whatever is cut short or repeated."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
import pytest

from schemas import ids
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.profiles import AppliedMark, Profile, ProfileState, apply_deltas
from sinks.clickhouse import ClickHouseArchive
from sinks.errors import SinkUnavailable
from streams.embedded.clickhouse_faults import Fault
from tests.integration.clickhouse_records import (
    EARLIEST,
    LATEST,
    NOON,
    ODD_TEXTS,
    collect,
    make_delta,
    make_event,
    make_fact,
    make_forget,
    make_preference,
    make_redriven,
    make_tag,
    random_history,
    rows,
)

if TYPE_CHECKING:
    from tests.integration.clickhouse_fixtures import LocalClickHouse

pytest_plugins = ["tests.integration.clickhouse_fixtures"]

OF_DELTAS = ("profile_deltas", "tag_hits")
VIEWS = ("profile_current", "item_changes", "facts_current", "facts_replaced", "preferences_current", "tags_current")
NOTHING = {"deltas": 0, "events": 0, "tag_hits": 0}


def make_forgotten(offset: int = 1, **changes) -> FlushEvent:
    """The event that says that its user is forgotten."""
    return make_event(offset, lane="forget", outcome="forgotten", **changes)


def all_kinds(user: str, tenant: str, first: int = 1) -> list[ProfileDelta]:
    """One change of each kind, and a fact that was replaced: something in every table and view."""
    of = {"user": user, "tenant": tenant}
    return [
        make_delta(first, **of),
        make_tag(first + 1, **of),
        make_fact(first + 2, "kept", **of),
        make_fact(first + 3, "old", **of),
        make_fact(first + 4, "old", None, replaced_by="kept", **of),
        make_preference(first + 5, **of),
    ]


async def everything(archive: ClickHouseArchive, tables: Sequence[str] = (*OF_DELTAS, *VIEWS, "flush_events")) -> dict:
    """All rows of tables and views, repeats included only where a view counts them."""
    final = {"profile_deltas", "tag_hits", "flush_events"}
    return {
        name: sorted(await rows(archive, f"SELECT * FROM {name}{' FINAL' if name in final else ''}"), key=repr)
        for name in tables
    }


async def users_in(archive: ClickHouseArchive, table: str) -> set[tuple[str, str]]:
    """The users of a table or view, superseded rows included."""
    return set(await rows(archive, f"SELECT DISTINCT tenant_id, user_id FROM {table}"))


@pytest.mark.parametrize(
    "user",
    [pytest.param(text, marks=pytest.mark.long if number % 3 else ()) for number, text in enumerate(ODD_TEXTS)],
    ids=lambda text: repr(text)[:20],
)
async def test_nothing_of_the_user_is_left_and_nobody_else_is_touched(archive: ClickHouseArchive, user: str):
    others = [(user, "other tenant"), (user, ""), ("x", "t"), (f"{user}'", "t"), (f"{user}\\", "t")]
    for name, tenant in others:
        await archive.write_deltas(all_kinds(name, tenant))
        await archive.write_events([make_event(1, name, tenant), make_event(2, name, tenant, lane="facts")])
    before = await everything(archive)

    await archive.write_deltas(all_kinds(user, "t"))
    await archive.write_events([make_event(1, user), make_event(2, user, lane="facts"), make_redriven(1, 1, user=user)])
    for table in (*OF_DELTAS, *VIEWS, "flush_events"):
        assert ("t", user) in await users_in(archive, table)
    assert await archive.count_user("t", user) == {"deltas": 6, "events": 3, "tag_hits": 1}

    forget, forgotten = make_forget(7, user=user), make_forgotten(3, user=user)
    await archive.write_deltas([forget])
    await archive.write_events([forgotten])

    assert await archive.history("t", user) == [forget]
    assert await archive.events("t", user) == [forgotten]
    assert await archive.count_user("t", user) == NOTHING
    assert await archive.profile("t", user) == Profile(tenant_id="t", user_id=user, version=7)
    for table in ("tag_hits", *VIEWS):
        assert ("t", user) not in await users_in(archive, table)
    after = await everything(archive)
    assert {name: len(after[name]) - len(before[name]) for name in after if after[name] != before[name]} == {
        "profile_deltas": 1,
        "flush_events": 1,
    }
    assert all(set(map(repr, before[name])) <= set(map(repr, after[name])) for name in before)


async def test_what_comes_after_it_follows_on(archive: ClickHouseArchive):
    await archive.write_deltas([*all_kinds("u", "t"), make_forget(7)])
    later = [make_delta(8, after="again"), make_tag(9), make_fact(10, "kept")]
    await archive.write_deltas(later)
    assert await archive.history("t", "u") == [make_forget(7), *later]
    profile = await archive.profile("t", "u")
    assert profile == apply_deltas(Profile(tenant_id="t", user_id="u", version=7), later)
    assert [slot.value for slot in profile.slots] == ["again"]
    assert (await collect(archive))["t", "u"].profile == profile
    assert await archive.count_user("t", "u") == {"deltas": 3, "events": 0, "tag_hits": 1}
    assert await rows(archive, "SELECT value, last_version FROM profile_current") == [("again", 8)]
    assert await rows(archive, "SELECT fact_id, times_mentioned, first_version FROM facts_current") == [("kept", 1, 10)]
    assert await rows(archive, "SELECT hits, last_version FROM tags_current") == [(1, 9)]


async def test_of_one_batch_only_what_comes_after_it_is_written(archive: ClickHouseArchive):
    batch = [
        *all_kinds("u", "t"),
        make_forget(7),
        *all_kinds("v", "t"),
        *all_kinds("u", "t", 8),
        *all_kinds("u", "other"),
        make_forget(7, user="v"),
        make_forget(14),
        *all_kinds("u", "t", 15),
    ]
    await archive.write_deltas(batch)
    assert await archive.history("t", "u") == [make_forget(14), *all_kinds("u", "t", 15)]
    assert await archive.history("t", "v") == [make_forget(7, user="v")]
    assert await archive.history("other", "u") == all_kinds("u", "other")
    assert sorted(await rows(archive, "SELECT tenant_id, user_id, version FROM tag_hits")) == [
        ("other", "u", 2),
        ("t", "u", 16),
    ]
    assert await rows(archive, "SELECT count() FROM profile_deltas") == [(14,)], "rows were written and then removed"


async def test_many_users_are_forgotten_at_once_each_from_a_version_of_their_own(archive: ClickHouseArchive):
    users = [f"it's {number}" for number in range(250)]
    await archive.write_deltas([make_tag(n, user=user) for user in users for n in (1, 3, 5, 7)])
    await archive.write_events([make_event(n, user) for user in users for n in (1, 3, 5, 7)])
    await archive.write_deltas([make_forget(2 + 2 * (n % 4), user=user) for n, user in enumerate(users)])
    await archive.write_events([make_forgotten(8 - 2 * (n % 4), user=user) for n, user in enumerate(users)])
    left = [await archive.count_user("t", user) for user in (*users[:8], users[-1])]
    assert left == [
        {"deltas": 3 - number, "tag_hits": 3 - number, "events": number} for number in (0, 1, 2, 3, 0, 1, 2, 3, 1)
    ]


FORGOTTEN = [*all_kinds("u", "t"), make_forget(7), *all_kinds("u", "t", 8)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
async def test_batches_that_are_read_again_end_clean(archive: ClickHouseArchive, seed: int):
    """A worker dies and reads from further back, again and again, and cuts other batches each time."""
    chance = random.Random(seed)
    stream = [*random_history(seed, 30), make_forget(31, user=f"user {seed:03}")]
    stream += [
        make_tag(32, user=f"user {seed:03}"),
        *all_kinds("neighbour", "t"),
        make_delta(33, user=f"user {seed:03}"),
    ]
    place = 0
    while place < len(stream):
        taken = stream[place : place + chance.randrange(1, 9)]
        await archive.write_deltas(taken)
        place = max(0, place + len(taken) - chance.choice([0, 0, 0, 5, 15, 25]))
    assert await archive.history("t", f"user {seed:03}") == [stream[30], stream[31], stream[-1]]
    assert await archive.count_user("t", f"user {seed:03}") == {"deltas": 2, "events": 0, "tag_hits": 1}
    assert await archive.history("t", "neighbour") == all_kinds("neighbour", "t")
    assert await archive.count_user("t", "neighbour") == {"deltas": 6, "events": 0, "tag_hits": 1}


@pytest.mark.parametrize("kind", ["status", "drop_before", "drop_after"])
@pytest.mark.parametrize("cut", ["DELETE FROM tag_hits", "DELETE FROM profile_deltas", "INSERT INTO `profile_deltas`"])
async def test_cut_short_anywhere_and_written_again_it_ends_clean(
    clickhouse: LocalClickHouse, archive: ClickHouseArchive, cut: str, kind
):
    await archive.write_deltas(FORGOTTEN[:6])
    # The driver sends once more by itself when the connection breaks.
    clickhouse.faults.add(Fault(kind=kind, match=cut, times=2))
    while clickhouse.faults.pending:
        with pytest.raises(SinkUnavailable):
            await archive.write_deltas(FORGOTTEN[4:])
    await archive.write_deltas(FORGOTTEN[4:])
    assert await archive.history("t", "u") == FORGOTTEN[6:]
    assert await archive.count_user("t", "u") == {"deltas": 6, "events": 0, "tag_hits": 1}


async def test_cut_short_before_anything_is_removed_it_is_on_record_and_can_be_finished(
    clickhouse: LocalClickHouse, archive: ClickHouseArchive
):
    """Whoever writes may end for good here: what is on record must say what is left to do."""
    await archive.write_deltas(FORGOTTEN[:6])
    await archive.write_events([make_event(1), make_event(2)])
    clickhouse.faults.add(Fault(kind="status", match="DELETE FROM", times=1))
    with pytest.raises(SinkUnavailable):
        await archive.write_deltas(FORGOTTEN[6:7])
    clickhouse.faults.add(Fault(kind="status", match="DELETE FROM", times=1))
    with pytest.raises(SinkUnavailable):
        await archive.write_events([make_forgotten(3)])
    assert await archive.count_user("t", "u") == {"deltas": 6, "events": 2, "tag_hits": 1}
    assert await archive.profile("t", "u") == Profile(tenant_id="t", user_id="u", version=7)
    assert (await collect(archive))["t", "u"].profile.version == 7
    assert await archive.history("t", "u") == [make_forget(7)]
    assert await archive.history("t", "u", kind="fact") == []
    assert await archive.events("t", "u") == [make_forgotten(3)]

    on_record = await archive.all_forgotten()
    assert on_record == ([make_forget(7)], [make_forgotten(3)])
    for _ in range(2):
        await archive.finish_forgetting(*on_record)
        assert await archive.history("t", "u") == [make_forget(7)]
        assert await archive.events("t", "u") == [make_forgotten(3)]
        assert await archive.count_user("t", "u") == NOTHING


async def test_a_hit_whose_delta_was_never_written_is_removed_too(archive: ClickHouseArchive):
    """An insert may end between the two tables, and the forgetting find only the second."""
    await archive.write_deltas([make_tag(1), make_tag(2)])
    await archive._client.command("ALTER TABLE profile_deltas DELETE WHERE 1 SETTINGS mutations_sync = 2")
    await archive.write_deltas([make_tag(1), make_tag(2), make_forget(3)])
    assert await archive.count_user("t", "u") == NOTHING


async def test_what_is_written_late_from_before_changes_no_profile(archive: ClickHouseArchive):
    """A worker that lost its partition without noticing may write its last batch when all is over."""
    await archive.write_deltas(FORGOTTEN)
    await archive.write_deltas(FORGOTTEN[2:4])
    expected = apply_deltas(Profile(tenant_id="t", user_id="u", version=7), FORGOTTEN[7:])
    assert await archive.profile("t", "u") == expected
    assert (await collect(archive))["t", "u"].profile == expected


async def test_events_are_told_apart_by_offset_in_the_log_and_by_the_clock_in_another(archive: ClickHouseArchive):
    moment = NOON + timedelta(hours=1)
    gone = [
        make_event(99, recorded_at=LATEST),
        make_event(99, lane="facts", outcome="failed", recorded_at=moment + timedelta(days=1)),
        make_redriven(98, 1, ("tag",), recorded_at=LATEST),
        make_event(2**62, log="rebuilt", recorded_at=moment),
        make_event(100, partition=1, recorded_at=moment - timedelta(microseconds=1)),
        make_event(7, log="rebuilt", recorded_at=EARLIEST),
        make_forgotten(40, recorded_at=moment - timedelta(days=1)),
    ]
    kept = [
        make_event(101, recorded_at=EARLIEST),
        make_event(1, log="rebuilt", recorded_at=moment + timedelta(microseconds=1)),
        make_event(2, partition=1, recorded_at=LATEST),
    ]
    elsewhere = [make_event(50, tenant="other"), make_event(50, user="v")]
    forgotten = make_forgotten(100, recorded_at=moment)
    expected = sorted([*kept, forgotten], key=lambda event: (event.recorded_at, event.event_id))

    await archive.write_events([*gone, *kept, *elsewhere])
    for batch in ([forgotten], [*gone, forgotten, *kept], [*gone, *kept], [forgotten], [*kept, *gone, forgotten]):
        await archive.write_events(batch)
        if forgotten in batch:
            assert await archive.events("t", "u") == expected
    assert await archive.count_user("t", "u") == {"deltas": 0, "events": 3, "tag_hits": 0}
    assert await archive.events("other", "u") == elsewhere[:1]
    assert await archive.events("t", "v") == elsewhere[1:]


@pytest.mark.parametrize("kind", ["status", "drop_before", "drop_after"])
@pytest.mark.parametrize("cut", ["DELETE FROM flush_events", "INSERT INTO `flush_events`"])
async def test_events_cut_short_anywhere_and_written_again_end_clean(
    clickhouse: LocalClickHouse, archive: ClickHouseArchive, cut: str, kind
):
    batch = [make_event(1), make_event(2), make_forgotten(3), make_event(4)]
    await archive.write_events(batch[:1])
    clickhouse.faults.add(Fault(kind=kind, match=cut, times=2))
    while clickhouse.faults.pending:
        with pytest.raises(SinkUnavailable):
            await archive.write_events(batch)
    await archive.write_events(batch)
    assert set(map(_id, await archive.events("t", "u"))) == set(map(_id, batch[2:]))


def _id(event: FlushEvent) -> str:
    return event.event_id


async def test_a_restore_knows_that_a_user_was_forgotten(archive: ClickHouseArchive):
    await archive.write_deltas([*all_kinds("u", "t"), make_forget(7), *all_kinds("v", "t")])
    await archive.write_events([make_event(5), make_event(5, "v"), make_redriven(2, 1), make_forgotten(9)])
    late = make_event(8).flush
    states = await collect(archive)
    assert states["t", "u"] == ProfileState(
        profile=Profile(tenant_id="t", user_id="u", version=7),
        applied={"forget": AppliedMark(log_id="log", partition=0, last_offset=9)},
    )
    assert states["t", "u"].has_applied(late)
    assert not states["t", "v"].has_applied(msgspec.structs.replace(late, user_id="v"))

    await archive.write_deltas([make_delta(8)])
    await archive.write_events([make_event(12)])
    state = (await collect(archive))["t", "u"]
    assert state.profile == apply_deltas(Profile(tenant_id="t", user_id="u", version=7), [make_delta(8)])
    assert {lane: mark.last_offset for lane, mark in state.applied.items()} == {"forget": 9, "memo": 12}


async def test_a_user_who_never_was_can_be_forgotten(archive: ClickHouseArchive):
    forget = msgspec.structs.replace(make_forget(1), delta_id=ids.delta_id("flush", 0))
    await archive.write_deltas([forget])
    await archive.write_events([make_forgotten(1)])
    assert await archive.history("t", "u") == [forget]
    assert await archive.count_user("t", "u") == NOTHING
    assert await archive.count_user("t", "nobody") == NOTHING
