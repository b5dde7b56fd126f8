"""`PreferenceMerge`: how strong a preference is after it was observed again, and what its opposite does to it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from schemas.deltas import PreferenceDetail
from schemas.facts import MAX_QUOTES
from schemas.ids import preference_id
from tests.support.fact_lane import FactLane, Meanings, Relations, fact, preference
from tests.support.records import SAID

SHORT, BRIEF, LONG = "偏好简短的回复", "偏好简洁的回复风格", "偏好详细的回复"
NEAR = {SHORT: 1.0, BRIEF: 0.75, LONG: 0.85}


def lane(*relations, **limits) -> FactLane:
    return FactLane(Relations(*relations), Meanings(NEAR), **limits)


async def test_a_first_observation_is_created() -> None:
    told = lane(AssertionError("asked"))
    (delta,) = await told.say(preference(SHORT, 0.8, quote="简短点"))
    assert (delta.kind, delta.op, delta.topic, delta.after) == ("preference", "add", "communication_style", SHORT)
    assert delta.item_id == preference_id(told.state.event.flush.flush_id, 0)
    assert delta.preference == PreferenceDetail(strength=0.8, strength_before=None, quotes=("简短点",))
    assert delta.assertion == "said"
    (kept,) = told.preferences
    assert (kept.text, kept.strength, kept.quotes, kept.times_observed) == (SHORT, 0.8, ("简短点",), 1)


async def test_a_second_observation_weighs_one_and_a_half_times() -> None:
    told = lane("duplicate")
    await told.say(preference(SHORT, 0.6))
    (delta,) = await told.say(preference(BRIEF, 0.9))
    assert (delta.op, delta.before, delta.after) == ("confirm", SHORT, SHORT)
    (kept,) = told.preferences
    assert kept.strength == pytest.approx((0.6 * 1 + 0.9 * 1.5) / 2.5)
    assert kept.times_observed == 2
    await told.say(preference(BRIEF, 0.3))
    assert told.preferences[0].strength == pytest.approx((0.78 * 2 + 0.3 * 1.5) / 3.5)
    assert told.preferences[0].times_observed == 3
    assert (kept.first_seen, told.preferences[0].last_confirmed) == (
        SAID + timedelta(days=1),
        SAID + timedelta(days=3),
    )


async def test_strength_never_exceeds_one() -> None:
    told = lane("duplicate")
    for _ in range(5):
        await told.say(preference(SHORT, 1.0))
    assert told.preferences[0].strength == 1.0


async def test_the_same_words_need_no_question() -> None:
    told = lane(AssertionError("asked"))
    await told.say(preference("Prefers lists"))
    await told.say(preference("prefers lists."))
    assert told.preferences[0].times_observed == 2


async def test_quotes_are_kept_once_and_the_newest_five() -> None:
    told = lane(AssertionError("asked"))
    for quote in ["a", "b", "a", "c", "d", "e", "f", ""]:
        await told.say(preference(SHORT, quote=quote))
    assert told.preferences[0].quotes == ("b", "c", "d", "e", "f")
    assert len(told.preferences[0].quotes) == MAX_QUOTES


async def test_another_category_is_another_preference() -> None:
    told = lane(AssertionError("asked"))
    await told.say(preference(SHORT))
    await told.say(preference(BRIEF, category="format"))
    assert [each.text for each in told.preferences] == [SHORT, BRIEF]


@pytest.mark.parametrize(("similarity", "count"), [(0.75, 1), (0.76, 2)])
async def test_from_the_similarity_on_it_is_the_same(similarity: float, count: int) -> None:
    told = FactLane(Relations("duplicate"), Meanings({SHORT: 1.0, BRIEF: 0.7501}), preference_similarity=similarity)
    await told.say(preference(SHORT))
    await told.say(preference(BRIEF))
    assert len(told.preferences) == count


@pytest.mark.parametrize(("relation", "count"), [("different", 2), (None, 1), ("duplicate", 1)])
async def test_what_is_near_is_the_same_unless_it_is_said_to_differ(relation, count: int) -> None:
    told = lane(relation)
    await told.say(preference(SHORT))
    await told.say(preference(BRIEF))
    assert len(told.preferences) == count


@pytest.mark.parametrize("relation", ["conflict", "update"])
async def test_an_opposite_that_is_said_outright_replaces(relation) -> None:
    told = lane(relation)
    for _ in range(4):
        await told.say(preference(SHORT, 0.9))
    (standing,) = told.preferences
    (delta,) = await told.say(preference(LONG, 0.8, quote="详细点"))
    assert (delta.op, delta.before, delta.after) == ("update", SHORT, LONG)
    (kept,) = told.preferences
    assert kept.preference_id == standing.preference_id
    assert (kept.text, kept.strength, kept.quotes, kept.times_observed) == (LONG, 0.8, ("详细点",), 1)


async def test_an_opposite_that_is_inferred_weakens_and_at_last_replaces() -> None:
    told = lane("conflict")
    for _ in range(3):
        await told.say(preference(SHORT, 0.9))
    (delta,) = await told.say(preference(LONG, 0.5))
    assert (delta.op, delta.after, delta.assertion) == ("confirm", SHORT, "inferred")
    assert told.preferences[0].strength == pytest.approx((0.9 * 3 - 0.5 * 1.5) / 4.5)
    assert delta.preference.strength_before == pytest.approx(0.9)
    assert told.preferences[0].times_observed == 4
    await told.say(preference(LONG, 0.5))
    (kept,) = told.preferences
    assert (kept.text, kept.strength) == (LONG, 0.5)


async def test_an_opposite_that_the_processor_saw_needs_no_question() -> None:
    told = FactLane(Relations(AssertionError("asked")), Meanings())
    await told.say(preference("Prefers mornings", category="time"))
    await told.say(preference("Prefers evenings", category="time", opposes=told.preferences[0].preference_id))
    assert [each.text for each in told.preferences] == ["Prefers evenings"]


async def test_the_weakest_gives_way() -> None:
    told = FactLane(Relations("different"), Meanings(), max_preferences=2)
    await told.say(preference("Prefers lists", 0.4), preference("Prefers Python", 0.9))
    gone, added = await told.say(preference("Prefers mornings", 0.5))
    assert (gone.op, gone.before, added.op) == ("delete", "Prefers lists", "add")
    assert [each.text for each in told.preferences] == ["Prefers Python", "Prefers mornings"]


async def test_facts_come_before_preferences_and_versions_have_no_gaps() -> None:
    told = lane("different")
    deltas = await told.say(preference(SHORT), fact("用户在杭州工作"), fact("用户的老板姓张", category="relationship"))
    assert [(delta.kind, delta.version, delta.index) for delta in deltas] == [
        ("fact", 1, 0),
        ("fact", 2, 1),
        ("preference", 3, 2),
    ]
