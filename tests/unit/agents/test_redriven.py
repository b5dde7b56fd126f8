"""A flush that is sent again from the dead letters: applied once, as of its own time."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from schemas.codec import encode
from schemas.stages import TagHit
from tests.support.fact_lane import FactLane, Meanings, Relations, fact, preference
from tests.support.records import SAID, candidate, described, extracted, flush_ref, memo, tagged
from tests.unit.agents.test_merge_agent import StageFailed, Worker, World

WEEK = timedelta(days=7)


def again(ref, *branches: str, number: int = 1):
    return replace(ref, redrive=number, only=branches)


async def test_a_failed_flush_is_applied_when_it_is_sent_again_and_once_only() -> None:
    world = World()
    (e0, t0), (e1, t1) = world.flush(0), world.flush(1)
    world.publish(e0, t0, e1, t1)
    world.judge.failures = [StageFailed("no_json", "prose")]
    worker = Worker(world)
    await worker.read()
    assert [event.outcome for event in world.events()] == ["applied", "failed"]
    redriven = replace(e1, flush=again(e1.flush, "extract"))
    for _ in range(2):
        world.log.append(type(world.log[0])(len(world.log), encode(redriven)))
        await worker.read()
    assert [event.outcome for event in world.events()][:3] == ["applied", "failed", "applied"]
    assert len({event.event_id for event in world.events()}) == 3
    assert [delta.version for delta in {delta.delta_id: delta for delta in world.deltas()}.values()] == [1, 2]
    assert world.state.applied["memo"].last_offset == e1.flush.last_offset
    assert list(world.state.redriven.values()) == [1]
    assert worker.acked == world.offsets


async def test_one_that_fails_again_can_be_sent_once_more() -> None:
    world = World()
    (e0, t0), (e1, t1) = world.flush(0), world.flush(1)
    world.publish(e0, t0, e1, t1)
    world.judge.failures = [StageFailed("no_json", "prose")] * 2
    worker = Worker(world)
    await worker.read()
    for number in (1, 2):
        redriven = replace(e1, flush=again(e1.flush, "extract", number=number))
        world.log.append(type(world.log[0])(len(world.log), encode(redriven)))
        await worker.read()
    assert [event.outcome for event in world.events()] == ["applied", "failed", "failed", "applied"]
    assert len({event.event_id for event in world.events()}) == 4


async def test_what_was_said_since_then_stands_and_the_delta_says_so() -> None:
    world = World()
    late, present = flush_ref(0, 2), flush_ref(10, 12, first_occurred_at=SAID + WEEK, last_occurred_at=SAID + WEEK)
    newer = memo(present)
    newer = replace(newer, messages=tuple(replace(each, occurred_at=SAID + WEEK) for each in newer.messages))
    world.publish(extracted(candidate("coffee", evidence=("m10",)), memo=newer), tagged(ref=present))
    world.publish(extracted(candidate("tea", evidence=("m0",)), ref=again(late, "extract")))
    worker = Worker(world)
    await worker.read()
    (first, second) = {delta.delta_id: delta for delta in world.deltas()}.values()
    assert first.op == "add"
    assert (second.op, second.before, second.after, second.added) == ("overtaken", "coffee", "coffee", "tea")
    assert second.reason.startswith("came late: said on 2026-02-01")
    (slot,) = world.state.profile.slots
    assert (slot.value, slot.said_at, slot.version) == ("coffee", SAID + WEEK, 1)
    assert world.state.profile.version == 2


async def test_tags_of_a_flush_whose_merge_failed_are_counted_at_once_and_not_again() -> None:
    world = World()
    (e0, t0), (e1, t1) = world.flush(0), world.flush(1)
    world.publish(e0, t0)
    worker = Worker(world)
    await worker.read()
    world.judge.failures = [StageFailed("no_json", "prose")]
    hit = described(TagHit(name="tea", evidence=("m10",)), ref=e1.flush)
    for answer in (hit, t1, e1):
        world.log.append(type(world.log[0])(len(world.log), encode(answer)))
    await worker.read()
    assert world.events()[-1].outcome == "failed"
    assert [(tag.name, tag.count) for tag in world.state.profile.tags] == [("tea", 1)]
    world.log.append(type(world.log[0])(len(world.log), encode(replace(e1, flush=again(e1.flush, "extract")))))
    await worker.read()
    assert world.events()[-1].outcome == "applied"
    assert [(tag.name, tag.count) for tag in world.state.profile.tags] == [("tea", 1)]


async def test_a_fact_that_comes_late_does_not_replace_what_is_known_since() -> None:
    told = FactLane(Relations("update"), Meanings({"lives in Oslo": 0.9, "lives in Bergen": 0.9}))
    await told.say(fact("lives in Oslo"), at=SAID + WEEK)
    (delta,) = await told.say(fact("lives in Bergen"), at=SAID, redrive=1)
    assert (delta.op, delta.before, delta.after, delta.added) == (
        "overtaken",
        "lives in Oslo",
        "lives in Oslo",
        "lives in Bergen",
    )
    assert [each.text for each in told.facts] == ["lives in Oslo"]
    await told.say(fact("lives in Bergen"), at=SAID + 2 * WEEK, redrive=2)
    assert [each.text for each in told.facts] == ["lives in Bergen"]


async def test_a_preference_that_comes_late_does_not_replace_its_opposite() -> None:
    told = FactLane(Relations("conflict"), Meanings({"Prefers long answers": 0.9, "Prefers short answers": 0.9}))
    await told.say(preference("Prefers long answers"), at=SAID + WEEK)
    (delta,) = await told.say(preference("Prefers short answers"), at=SAID, redrive=1)
    assert (delta.op, delta.added) == ("overtaken", "Prefers short answers")
    assert [(each.text, each.times_observed) for each in told.preferences] == [("Prefers long answers", 1)]
