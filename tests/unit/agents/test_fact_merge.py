"""`merge_facts`: what becomes of a fact, by what is known and how the two relate."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agents.policy import MergePolicy
from agents.processor import StageFailed, StageUnavailable
from schemas.deltas import FactDetail
from schemas.folding import MAX_REPLACED_FACTS
from schemas.ids import delta_id, fact_id
from schemas.pipeline import FactsConfig
from streams.errors import DependencyDown
from tests.support.fact_lane import RELATION_CALL, FactLane, Meanings, Relations, fact
from tests.support.records import CLOSED, SAID

OSLO, BERGEN = "User lives in Oslo", "User lives in Bergen"
NEAR = {OSLO: 1.0, BERGEN: 0.8}


def lane(*relations, **limits) -> FactLane:
    return FactLane(Relations(*relations), Meanings(NEAR), **limits)


async def test_a_fact_that_is_near_to_nothing_is_created() -> None:
    told = lane(AssertionError("asked"))
    (delta,) = await told.say(fact(OSLO, 0.7), session="s")
    flush = told.state.event.flush.flush_id
    assert (delta.kind, delta.op, delta.topic, delta.sub_topic) == ("fact", "add", "location", "")
    assert (delta.before, delta.after, delta.added) == (None, OSLO, OSLO)
    assert (delta.delta_id, delta.item_id) == (delta_id(flush, 0), fact_id(flush, 0))
    assert delta.fact == FactDetail(confidence=0.7, importance=0.7, session_id="s")
    (kept,) = told.facts
    assert (kept.text, kept.category, kept.confidence, kept.importance) == (OSLO, "location", 0.7, 0.7)
    assert (kept.source_session, kept.times_mentioned, kept.replaced) == ("s", 1, None)
    assert kept.first_seen == kept.last_confirmed == SAID + timedelta(days=1)
    assert (kept.evidence, kept.version, kept.recorded_at) == (("m",), 1, CLOSED)
    assert told.state.event.outcome == "applied"
    assert told.state.event.added[0].kind == "fact"


async def test_a_duplicate_is_counted_and_grows_more_important() -> None:
    told = lane("duplicate")
    await told.say(fact(OSLO, 0.9), session="first")
    (delta,) = await told.say(fact(BERGEN, 0.4), session="second")
    assert (delta.op, delta.before, delta.after, delta.added) == ("confirm", OSLO, OSLO, None)
    assert told.relations.asked == [("fact", OSLO, BERGEN)]
    (kept,) = told.facts
    assert (kept.text, kept.times_mentioned, kept.confidence) == (OSLO, 2, 0.9)
    assert kept.importance == pytest.approx(0.95)
    assert kept.source_session == "first"
    assert (kept.first_seen, kept.last_confirmed) == (SAID + timedelta(days=1), SAID + timedelta(days=2))
    assert told.state.event.calls == (RELATION_CALL,)


async def test_the_same_fact_in_ten_sessions_is_one_fact_mentioned_ten_times_and_no_model_is_asked() -> None:
    told = lane(AssertionError("asked"))
    for number in range(10):
        await told.say(fact("用户住在杭州" + "。" * (number % 2)), session=f"s{number}")
    (kept,) = told.facts
    assert (kept.text, kept.times_mentioned, kept.importance) == ("用户住在杭州", 10, 1.0)
    assert [delta.op for delta in told.history] == ["add"] + ["confirm"] * 9
    assert [delta.version for delta in told.history] == list(range(1, 11))


async def test_a_repeat_that_the_processor_recognised_is_one_however_it_is_worded() -> None:
    told = lane(AssertionError("asked"))
    await told.say(fact(OSLO))
    await told.say(fact("User is at home in Norway's capital", repeats=told.facts[0].fact_id))
    assert [(each.text, each.times_mentioned) for each in told.facts] == [(OSLO, 2)]


async def test_an_update_replaces_the_text_and_keeps_the_history_in_the_delta() -> None:
    told = lane("update")
    await told.say(fact(OSLO, 0.9), session="first")
    (before,) = told.facts
    (delta,) = await told.say(fact(BERGEN, 0.6, category="other"), session="second")
    assert (delta.op, delta.before, delta.after, delta.item_id) == ("update", OSLO, BERGEN, before.fact_id)
    (kept,) = told.facts
    assert (kept.fact_id, kept.text, kept.category) == (before.fact_id, BERGEN, "other")
    assert (kept.confidence, kept.importance, kept.source_session) == (0.6, 0.9, "second")
    assert kept.times_mentioned == 1


async def test_a_conflict_makes_the_old_fact_invalid_and_the_new_one_stands() -> None:
    told = lane("conflict")
    await told.say(fact(OSLO))
    invalid, added = await told.say(fact(BERGEN))
    assert (invalid.op, invalid.before, invalid.after) == ("invalidate", OSLO, None)
    assert (added.op, added.after, added.version) == ("add", BERGEN, 3)
    assert invalid.fact.replaced_by == added.item_id
    assert [each.text for each in told.facts] == [BERGEN]
    (old,) = told.state.profile.replaced_facts
    assert old.text == OSLO
    assert (old.replaced.by, old.replaced.reason) == (added.item_id, f"contradicted by: {BERGEN}")
    assert (old.replaced.said_at, old.replaced.recorded_at) == (SAID + timedelta(days=2), CLOSED)


@pytest.mark.parametrize("relation", ["different", None])
async def test_what_is_different_or_unreadable_stands_beside(relation) -> None:
    told = lane(relation)
    await told.say(fact(OSLO))
    (delta,) = await told.say(fact(BERGEN))
    assert delta.op == "add"
    assert [each.text for each in told.facts] == [OSLO, BERGEN]


async def test_below_the_similarity_nothing_is_compared() -> None:
    told = lane(AssertionError("asked"), similarity=0.81)
    await told.say(fact(OSLO))
    await told.say(fact(BERGEN))
    assert len(told.facts) == 2


async def test_the_nearest_are_compared_one_after_the_other_until_one_is_not_different() -> None:
    trondheim, narvik = "User lives in Trondheim", "User lives in Narvik"
    told = FactLane(Relations("different"), Meanings({OSLO: 1.0, BERGEN: 0.9, trondheim: 0.8, narvik: 0.82}))
    await told.say(fact(OSLO), fact(BERGEN), fact(trondheim))
    told.relations = Relations("different", "update")
    (delta,) = await told.say(fact(narvik))
    assert told.relations.asked == [("fact", trondheim, narvik), ("fact", BERGEN, narvik)]
    assert (delta.op, delta.before) == ("update", BERGEN)


@pytest.mark.parametrize(("nearest", "asked"), [(1, 1), (2, 2), (3, 2)])
async def test_no_more_are_compared_than_the_setting_says(nearest: int, asked: int) -> None:
    told = FactLane(Relations("different"), Meanings({OSLO: 1.0, BERGEN: 0.9, "User is in Norway": 0.95}))
    told.policy = MergePolicy(pipeline_version="v", facts=FactsConfig(nearest=nearest))
    await told.say(fact(OSLO), fact(BERGEN))
    told.relations.asked.clear()
    await told.say(fact("User is in Norway"))
    assert len(told.relations.asked) == asked


async def test_after_an_answer_that_cannot_be_read_nothing_more_is_asked() -> None:
    told = FactLane(Relations(None), Meanings({OSLO: 1.0, BERGEN: 0.9, "User is in Norway": 0.95}))
    await told.say(fact(OSLO), fact(BERGEN))
    told.relations.asked.clear()
    (delta,) = await told.say(fact("User is in Norway"))
    assert (len(told.relations.asked), delta.op) == (1, "add")


async def test_a_contradiction_that_the_processor_saw_is_compared_however_far_apart_the_words_are() -> None:
    told = FactLane(Relations("update"), Meanings())
    await told.say(fact("User lives in Hangzhou"))
    await told.say(fact("User moved to Shenzhen", conflicts_with=told.facts[0].fact_id))
    assert [each.text for each in told.facts] == ["User moved to Shenzhen"]


async def test_a_contradiction_of_a_fact_that_is_gone_is_compared_with_what_is_near() -> None:
    told = lane("duplicate")
    await told.say(fact(OSLO))
    await told.say(fact(BERGEN, conflicts_with="no such fact"))
    assert told.facts[0].times_mentioned == 2


async def test_someone_who_moves_back_lives_there_again() -> None:
    told = lane("conflict")
    for city in (OSLO, BERGEN, OSLO):
        await told.say(fact(city))
    assert [each.text for each in told.facts] == [OSLO]
    assert [each.text for each in told.state.profile.replaced_facts] == [OSLO, BERGEN]
    assert len({each.fact_id for each in (*told.facts, *told.state.profile.replaced_facts)}) == 3


async def test_while_no_vectors_can_be_had_the_spelling_decides() -> None:
    async def down(_texts: object) -> list[list[float]]:
        raise DependencyDown("no embedder")

    told = FactLane(Relations("update"))
    told.nearest._embed = down
    await told.say(fact("User lives in Hangzhou"))
    await told.say(fact("User lives in Hangzhou."))
    await told.say(fact("User lives in Guangzhou"))
    await told.say(fact("User plays the violin"))
    assert [each.text for each in told.facts] == ["User lives in Guangzhou", "User plays the violin"]
    assert told.nearest.by_spelling > 0


async def test_the_least_important_fact_gives_way_and_the_delta_says_so() -> None:
    told = lane("different", max_facts=2)
    await told.say(fact("User has a dog", 0.9))
    await told.say(fact("User has a cat", 0.5))
    gone, added = await told.say(fact("User has a horse", 0.7))
    assert (gone.op, gone.before, gone.after) == ("delete", "User has a cat", None)
    assert gone.reason == "the least important of 2 facts gives way"
    assert added.op == "add"
    assert [each.text for each in told.facts] == ["User has a dog", "User has a horse"]
    assert told.state.profile.replaced_facts == ()


async def test_replaced_facts_are_kept_up_to_a_number() -> None:
    told = FactLane(Relations("conflict"), Meanings({f"User is {age} years old": 0.9 for age in range(100)}))
    for age in range(60):
        await told.say(fact(f"User is {age} years old"))
    kept = told.state.profile.replaced_facts
    assert len(kept) == MAX_REPLACED_FACTS
    assert kept[-1].text == "User is 58 years old"


@pytest.mark.parametrize("error", [StageFailed("no", "no"), StageUnavailable("busy", "429")])
async def test_a_comparison_that_fails_changes_nothing(error: Exception) -> None:
    told = lane(error)
    await told.say(fact(OSLO))
    before = told.state
    with pytest.raises(type(error)):
        await told.say(fact("User has a dog"), fact(BERGEN))
    assert told.state is before


async def test_a_message_that_says_nothing_ends_as_empty() -> None:
    told = lane("different")
    assert await told.say() == ()
    assert (told.state.event.outcome, told.state.applied["facts"].last_offset) == ("empty", 1)
    assert told.state.event.messages[0].message_id == "m"
