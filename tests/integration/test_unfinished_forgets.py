"""The start after everything stopped in the middle of a forget, on the embedded ClickHouse and Qdrant."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
import pytest

from schemas.dead_letters import ArchivedLetter, DeadLetterReason
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.places import Place
from schemas.profiles import Profile
from schemas.stages import MemoBullet, MessageRef
from sinks.clickhouse import ClickHouseArchive
from sinks.errors import SinkUnavailable
from sinks.vectors import ALL_KINDS, VectorIndex
from streams.embedded.clickhouse_faults import Fault
from streams.unfinished_forgets import finish_forgets
from tests.integration.clickhouse_records import NOON, make_delta, make_event, make_forget, make_tag, rows

if TYPE_CHECKING:
    from tests.integration.clickhouse_fixtures import LocalClickHouse

pytest_plugins = ["tests.integration.clickhouse_fixtures", "tests.integration.vector_fixtures"]

NOTHING = {"deltas": 0, "events": 0, "tag_hits": 0}
AT = NOON + timedelta(hours=1)
FORGET = msgspec.structs.replace(
    make_forget(4), reason="the user is to be forgotten", added=None, recorded_at=AT, evidence=("asked",)
)
FORGOTTEN = make_event(
    9,
    lane="forget",
    outcome="forgotten",
    recorded_at=AT,
    delta_ids=(FORGET.delta_id,),
    first_version=4,
    last_version=4,
    messages=(MessageRef(message_id="asked", role="user", occurred_at=FORGET.said_at),),
)
FORGOTTEN = msgspec.structs.replace(
    FORGOTTEN,
    flush=msgspec.structs.replace(FORGOTTEN.flush, flush_id=FORGET.flush_id, last_occurred_at=FORGET.said_at),
)


def known(user: str = "u", first: int = 1) -> list[ProfileDelta]:
    """Two slots and a tag."""
    at = AT + timedelta(seconds=first - 4)
    return [
        make_delta(first, user, sub_topic="city", after="Oslo", recorded_at=at),
        make_delta(first + 1, user, sub_topic="job", after="baker", recorded_at=at),
        make_tag(first + 2, user=user, recorded_at=at),
    ]


def talked(user: str = "u", offset: int = 1) -> FlushEvent:
    """An event with a gist."""
    at = AT + timedelta(seconds=offset - 9)
    return make_event(offset, user, outcome="applied", recorded_at=at, memo=(MemoBullet(text="Oslo", evidence=("m",)),))


def letter(user: str) -> ArchivedLetter:
    why = DeadLetterReason(
        stage="extract", reason="broken", detail="d", topic="x", partition=0, offset=1, attempts=1, failed_at=NOON
    )
    place = Place(topic="dead", partition=0, offset=0)
    return ArchivedLetter(letter_id=f"letter of {user}", tenant_id="t", user_id=user, why=why, place=place)


@pytest.fixture
async def stores(archive: ClickHouseArchive, index: VectorIndex) -> tuple[ClickHouseArchive, VectorIndex]:
    """Both hold the same of two users."""
    for user in ("u", "v"):
        await archive.write_deltas(known(user))
        await archive.write_events([talked(user)])
        await archive.write_letters([letter(user)])
        await index.apply(known(user))
        await index.apply_events([talked(user)])
        # Two slots, a gist, and the user's own.
        assert await index.count("t", user, kinds=ALL_KINDS) == 4
    return archive, index


async def until(clickhouse: LocalClickHouse, statement: str, write: Awaitable[None]) -> None:
    """Write, and be cut short at a statement."""
    clickhouse.faults.add(Fault(kind="status", match=statement))
    with pytest.raises(SinkUnavailable):
        await write


async def assert_forgotten(archive: ClickHouseArchive, index: VectorIndex) -> None:
    """Nothing is left of the one user, and all of the other."""
    assert await archive.count_user("t", "u") == NOTHING
    assert await archive.profile("t", "u") == Profile(tenant_id="t", user_id="u", version=4)
    assert await archive.history("t", "u") == [FORGET]
    assert [event.outcome for event in await archive.events("t", "u")] == ["forgotten"]
    for table in ("event_gists", "dead_letters", "slot_states"):
        users = await rows(archive, f"SELECT DISTINCT user_id FROM {table}")
        assert users == [("v",)], table
    assert await index.count("t", "u", kinds=ALL_KINDS) == 0

    assert await archive.history("t", "v") == known("v")
    assert await archive.events("t", "v") == [talked("v")]
    assert await index.count("t", "v", kinds=ALL_KINDS) == 4


@pytest.mark.parametrize("written", ["both", "delta", "event"])
@pytest.mark.parametrize("removed", [True, False])
async def test_what_is_on_record_is_finished_in_both_stores(
    clickhouse: LocalClickHouse, stores: tuple[ClickHouseArchive, VectorIndex], written: str, removed: bool
) -> None:
    archive, index = stores
    writes = {"delta": archive.write_deltas([FORGET]), "event": archive.write_events([FORGOTTEN])}
    for name, write in writes.items():
        if written not in ("both", name):
            write.close()
        elif removed:
            await write
        else:
            await until(clickhouse, "DELETE FROM", write)

    await finish_forgets(archive, index)
    await assert_forgotten(archive, index)
    if written != "delta":
        assert await archive.events("t", "u") == [FORGOTTEN]

    on_record = await archive.all_forgotten()
    await finish_forgets(archive, index)
    await assert_forgotten(archive, index)
    assert await archive.all_forgotten() == on_record


@pytest.mark.parametrize("cut", ["DELETE FROM slot_states", "DELETE FROM event_gists", "INSERT INTO `flush_events`"])
async def test_a_start_that_is_cut_short_is_finished_by_the_next(
    clickhouse: LocalClickHouse, stores: tuple[ClickHouseArchive, VectorIndex], cut: str
) -> None:
    archive, index = stores
    await until(clickhouse, "DELETE FROM", archive.write_deltas([FORGET]))
    await until(clickhouse, cut, finish_forgets(archive, index))
    await finish_forgets(archive, index)
    await assert_forgotten(archive, index)


async def test_what_came_after_it_stays(stores: tuple[ClickHouseArchive, VectorIndex]) -> None:
    archive, index = stores
    await archive.write_deltas([FORGET, *known(first=5)])
    await archive.write_events([FORGOTTEN, talked(offset=12)])
    await index.apply([FORGET, *known(first=5)])
    await index.apply_events([FORGOTTEN, talked(offset=12)])
    await finish_forgets(archive, index)
    assert await archive.history("t", "u") == [FORGET, *known(first=5)]
    assert await archive.events("t", "u") == [FORGOTTEN, talked(offset=12)]
    assert await archive.count_user("t", "u") == {"deltas": 3, "events": 1, "tag_hits": 1}
    assert await index.count("t", "u", kinds=ALL_KINDS) == 4


async def test_a_profile_that_went_on_without_the_delta_is_left_alone(
    stores: tuple[ClickHouseArchive, VectorIndex],
) -> None:
    """Its versions are those of another life: what the event tells of would remove them."""
    archive, index = stores
    await archive.write_events([FORGOTTEN])
    later = [msgspec.structs.replace(delta, recorded_at=AT + timedelta(days=1)) for delta in known()]
    await archive.write_deltas(later)
    await finish_forgets(archive, index)
    assert await archive.count_user("t", "u") == {"deltas": 3, "events": 0, "tag_hits": 1}
    assert len((await archive.profile("t", "u")).slots) == 2


async def test_many_users_with_the_longest_ids_are_finished(archive: ClickHouseArchive, index: VectorIndex) -> None:
    users = [f"{number:06}" + "長" * 250 for number in range(250)]
    await index.apply([delta for user in users for delta in known(user)[:1]])
    await archive.write_deltas([make_forget(4, user) for user in users])
    # Late, from before: as if it had never been removed.
    await archive.write_deltas([delta for user in users for delta in known(user)])
    await finish_forgets(archive, index)
    assert await rows(archive, "SELECT count() FROM profile_deltas WHERE op != 'forget'") == [(0,)]
    assert await rows(archive, "SELECT count() FROM tag_hits") == [(0,)]
    assert await archive.counts() == {"deltas": 250, "events": 250, "users": 250}
    assert await index.count() == 0


async def test_where_nobody_was_forgotten_nothing_happens(stores: tuple[ClickHouseArchive, VectorIndex]) -> None:
    archive, index = stores
    await finish_forgets(archive, index)
    for user in ("u", "v"):
        assert await archive.history("t", user) == known(user)
        assert await archive.events("t", user) == [talked(user)]
        assert await index.count("t", user, kinds=ALL_KINDS) == 4
