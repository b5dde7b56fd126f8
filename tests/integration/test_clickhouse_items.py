"""Facts, preferences and tags in ClickHouse: the views and a restore give what the deltas fold to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from schemas.deltas import ProfileDelta
from schemas.facts import Fact
from schemas.folding import MAX_REPLACED_FACTS
from schemas.profiles import AppliedMark, Profile, ProfileState, apply_deltas
from sinks.clickhouse import ClickHouseArchive
from tests.integration.clickhouse_records import (
    collect,
    make_event,
    make_fact,
    make_preference,
    make_tag,
    random_history,
    rows,
)

pytest_plugins = ["tests.integration.clickhouse_fixtures"]

SEEDS = range(40)


def folded(deltas: Sequence[ProfileDelta]) -> Profile:
    return apply_deltas(Profile(tenant_id=deltas[0].tenant_id, user_id=deltas[0].user_id), deltas)


def shown_fact(fact: Fact) -> tuple[Any, ...]:
    return (
        fact.fact_id, fact.text, fact.category, fact.confidence, fact.importance, fact.source_session, fact.first_seen,
        fact.last_confirmed, fact.times_mentioned, list(fact.evidence), fact.recorded_at,
    )  # fmt: skip


@pytest.fixture
async def profiles(archive: ClickHouseArchive) -> list[Profile]:
    """Profiles whose deltas are in the archive, half of them twice, in blocks cut anyhow."""
    histories = [random_history(seed) for seed in SEEDS]
    deltas = [delta for history in histories for delta in history]
    for start in range(0, len(deltas), 500):
        await archive.write_deltas(deltas[start : start + 500])
    await archive.write_deltas(deltas[::2])
    return [folded(history) for history in histories]


class TestViews:
    """Of everybody at once, so that users and items that share ids are told apart."""

    async def test_facts_that_hold(self, archive: ClickHouseArchive, profiles: list[Profile]):
        shown = await rows(
            archive,
            """SELECT tenant_id, user_id, fact_id, text, category, confidence, importance, source_session, first_seen,
            last_confirmed, times_mentioned, evidence, last_recorded_at, last_version
            FROM facts_current ORDER BY tenant_id, user_id, first_version""",
        )
        expected = [("t", each.user_id, *shown_fact(fact), fact.version) for each in profiles for fact in each.facts]
        assert shown == expected
        assert len(shown) > 50

    async def test_facts_that_were_replaced(self, archive: ClickHouseArchive, profiles: list[Profile]):
        shown = await rows(
            archive,
            """SELECT tenant_id, user_id, fact_id, text, category, confidence, importance, source_session, first_seen,
            last_confirmed, times_mentioned, evidence, last_recorded_at, last_version,
            replaced_by, replaced_reason, replaced_said_at, replaced_recorded_at
            FROM facts_replaced ORDER BY tenant_id, user_id, last_version""",
        )
        expected = [
            ("t", each.user_id, *shown_fact(fact), fact.version, why.by, why.reason, why.said_at, why.recorded_at)
            for each in profiles
            for fact in each.replaced_facts
            if (why := fact.replaced)
        ]
        assert shown == expected
        assert len(shown) > 50

    async def test_preferences(self, archive: ClickHouseArchive, profiles: list[Profile]):
        shown = await rows(
            archive,
            """SELECT tenant_id, user_id, preference_id, text, category, strength, quotes, first_seen, last_confirmed,
            times_observed, evidence, last_recorded_at, last_version
            FROM preferences_current ORDER BY tenant_id, user_id, first_version""",
        )
        expected = [
            (
                "t", profile.user_id, each.preference_id, each.text, each.category, each.strength, list(each.quotes),
                each.first_seen, each.last_confirmed, each.times_observed, list(each.evidence), each.recorded_at,
                each.version,
            )
            for profile in profiles
            for each in profile.preferences
        ]  # fmt: skip
        assert shown == expected
        assert len(shown) > 50

    async def test_tags(self, archive: ClickHouseArchive, profiles: list[Profile]):
        shown = await rows(
            archive,
            """SELECT tenant_id, user_id, tag, hits, first_seen, last_seen, last_version
            FROM tags_current ORDER BY tenant_id, user_id, tag""",
        )
        expected = [
            ("t", each.user_id, tag.name, tag.count, tag.first_seen, tag.last_seen, tag.version)
            for each in profiles
            for tag in each.tags
        ]
        assert shown == expected
        assert len(shown) > 50

    async def test_slots_are_as_they_were_without_the_others(self, archive: ClickHouseArchive, profiles: list[Profile]):
        shown = await rows(
            archive,
            """SELECT user_id, topic, sub_topic, value, last_version FROM profile_current
            ORDER BY user_id, topic, sub_topic""",
        )
        assert shown == [
            (each.user_id, slot.topic, slot.sub_topic, slot.value, slot.version)
            for each in profiles
            for slot in each.slots
        ]

    async def test_all_replaced_facts_are_shown_where_a_profile_keeps_the_newest(self, archive: ClickHouseArchive):
        ended = MAX_REPLACED_FACTS + 10
        deltas = [
            delta
            for n in range(ended)
            for delta in (
                make_fact(2 * n + 1, f"f{n:02}", f"text {n}"),
                make_fact(2 * n + 2, f"f{n:02}", None, replaced_by="x"),
            )
        ]
        await archive.write_deltas(deltas)
        shown = await rows(archive, "SELECT fact_id, replaced_by FROM facts_replaced ORDER BY last_version")
        assert shown == [(f"f{n:02}", "x") for n in range(ended)]
        kept = (await archive.profile("t", "u")).replaced_facts
        assert [(fact.fact_id, "x") for fact in kept] == shown[10:]

    @pytest.mark.parametrize("view", ["facts_current", "facts_replaced", "preferences_current", "tags_current"])
    async def test_one_users_rows_are_found_by_the_key(self, archive: ClickHouseArchive, view: str):
        """A profile is read while people wait: that must not take a scan of everyone's deltas."""
        kinds = {"preferences_current": make_preference, "tags_current": make_tag}
        make = kinds.get(view, make_fact)
        await archive.write_deltas([make(1, user=f"user {n:05}") for n in range(20_000)])
        plan = await rows(archive, f"EXPLAIN indexes = 1 SELECT * FROM {view} WHERE tenant_id = 't' AND user_id = 'u'")
        granules = [line.split("Granules: ")[1] for (line,) in plan if "Granules: " in line and "/" in line]
        read, all_of_them = map(int, granules[0].split("/"))
        assert read <= 1 < all_of_them


async def test_a_restore_has_all_kinds_and_the_marks_of_both_lanes(archive: ClickHouseArchive):
    histories = [random_history(seed, length=30) for seed in range(5)]
    await archive.write_deltas([delta for history in histories for delta in history])
    await archive.write_events(
        [
            make_event(70, user="user 000", lane="facts", outcome="applied"),
            make_event(64, user="user 000", lane="facts"),
            make_event(68, user="user 000", lane="memo"),
            make_event(5, user="user 001", lane="facts"),
        ]
    )
    states = await collect(archive)

    def mark(offset: int) -> AppliedMark:
        return AppliedMark(log_id="log", partition=0, last_offset=offset)

    marks = {"user 000": {"facts": mark(70), "memo": mark(68)}, "user 001": {"facts": mark(5)}}
    assert states == {
        ("t", history[0].user_id): ProfileState(profile=folded(history), applied=marks.get(history[0].user_id, {}))
        for history in histories
    }
    for kind in ("slots", "facts", "replaced_facts", "preferences", "tags"):
        assert any(getattr(state.profile, kind) for state in states.values())
