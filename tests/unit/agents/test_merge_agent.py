"""`MergeAgent`: one event a flush, in order, the same one after any crash."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.fact_processor import FoundFacts, FoundPreferences, Related
from agents.merge_agent import MergeAgent
from agents.nearest import Nearest
from agents.policy import MergePolicy
from agents.processor import Decision, MergeAnswer, Organisation, Proposal, Shortening, StageFailed, StageUnavailable
from schemas.codec import encode
from schemas.dead_letters import DeadLetterReason
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.profiles import Profile, ProfileState, apply_deltas
from schemas.stages import Candidates, Memo, MessageRef, ModelCall
from streams.errors import DependencyDown, RecordFailed
from tests.support.fact_lane import Meanings, fact
from tests.support.fakes import FakeRuntime, FakeSender, FakeTable, eventually, settled
from tests.support.records import KEY, candidate, extracted, flush_ref, tagged

CALL = ModelCall(stage="merge", model="m", outcome="ok")
STEPS = ("before the table", "after the table", "before the send", "after the send")


class Judge:
    """Never says the same thing twice, as a model may, and fails as it is told."""

    name = "judge"
    version = "j1"

    def __init__(self) -> None:
        self.asked = 0
        self.failures: list[Exception] = []

    async def organise(self, topic: str, values: object, limit: int) -> Organisation:
        return Organisation()

    async def shorten(self, topic: str, value: object, budget: int) -> Shortening:
        return Shortening()

    async def relate(self, kind: str, known: str, new: str) -> Related:
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        return Related(relation=("duplicate", "update", "conflict", "different")[self.asked % 4])

    async def extract_facts(self, batch: object, known: object) -> FoundFacts:
        raise AssertionError("the merge extracts nothing")

    async def extract_preferences(self, batch: object, known: object) -> FoundPreferences:
        raise AssertionError("the merge extracts nothing")

    async def merge(self, proposals: Sequence[Proposal], memo: Memo) -> MergeAnswer:
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        return MergeAnswer(
            decisions=tuple(
                Decision(number=each.number, action="UPDATE", value=f"answer {self.asked}", reason="newer")
                for each in proposals
            )
        )


@dataclass(slots=True)
class Stored:
    offset: int
    value: bytes | None


class World:
    """What survives a worker: the candidates topic, its committed offset, the table and what was sent."""

    def __init__(self) -> None:
        self.log: list[Stored] = []
        self.committed = 0
        self.table = FakeTable(ProfileState)
        self.sender = FakeSender()
        self.judge = Judge()
        self.announced: list[str] = []
        self.embed = Meanings({f"lives in {city}": 0.9 for city in "ABCDEFGH"})

    def publish(self, *answers: Candidates | bytes) -> None:
        """Write answers to the topic; the answer of the branch ``domain`` follows that of ``extract``."""
        for answer in answers:
            value = answer if isinstance(answer, bytes) else encode(answer)
            self.log.append(Stored(len(self.log), value))
            if not isinstance(answer, bytes) and answer.branch == "extract":
                self.publish(Candidates(flush=answer.flush, branch="domain", status="empty"))

    @property
    def offsets(self) -> list[int]:
        """Offsets of all answers."""
        return [stored.offset for stored in self.log]

    def flush(self, number: int, text: str | None = None) -> tuple[Candidates, Candidates]:
        """Return the two answers of a flush."""
        ref = flush_ref(10 * number, 10 * number + 2)
        candidates = [candidate(text or f"tea {number}", evidence=(f"m{10 * number}",))]
        return extracted(*candidates, ref=ref), tagged(ref=ref)

    def message(self, offset: int, *found: str) -> Candidates:
        """Return the answer of lane ``facts`` to the message at an offset."""
        ref = flush_ref(offset, offset, lane="facts", trigger="signal")
        return Candidates(
            flush=ref,
            branch="facts",
            status="ok" if found else "empty",
            facts=tuple(fact(text) for text in found),
            messages=(MessageRef(message_id="m", role="user", occurred_at=ref.last_occurred_at),),
        )

    def events(self) -> list[FlushEvent]:
        return self.sender.decoded("events", FlushEvent)

    def deltas(self) -> list[ProfileDelta]:
        return self.sender.decoded("deltas", ProfileDelta)

    @property
    def state(self) -> ProfileState | None:
        return self.table.read(KEY)


class Worker:
    """One merge agent, reading from the committed offset."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.position = world.committed
        self.killed = asyncio.Event()
        self._kill_at: tuple[str, int] | None = None
        self._passed = dict.fromkeys(STEPS, 0)
        runtime = FakeRuntime(attempts=2)
        runtime.sender = world.sender
        runtime.dead_letters._sender = world.sender
        self.source = runtime.source
        world.table.before = lambda: self._pass("before the table")
        world.table.after = lambda: self._pass("after the table")
        world.sender.before = lambda: self._pass("before the send")
        world.sender.after = lambda: self._pass("after the send")
        self.agent = MergeAgent(
            runtime,
            world.judge,
            MergePolicy(pipeline_version="v1"),
            world.table,
            Nearest(world.embed),
            on_deltas=lambda deltas: world.announced.extend(delta.delta_id for delta in deltas),
        )
        self.runtime = runtime

    def kill_at(self, step: str, number: int = 1) -> None:
        self._kill_at = (step, self._passed[step] + number)

    async def _pass(self, step: str) -> None:
        self._passed[step] += 1
        if self.killed.is_set() or self._kill_at == (step, self._passed[step]):
            self.killed.set()
            await asyncio.Event().wait()

    async def read(self) -> None:
        for stored in self.world.log[self.position :]:
            self.position = stored.offset + 1
            await self.agent.lanes.submit(self.source.event(stored.offset, key=KEY, value=stored.value))
        await eventually(lambda: self.agent.lanes.running == 0 or self.killed.is_set())

    async def die(self, lag: int = 0) -> None:
        self.killed.set()
        acked = self.acked
        assert acked == sorted(set(acked))
        if acked:
            self.world.committed = max(self.world.committed, acked[-1] + 1 - lag)
        self.agent.lanes.abandon()
        await settled(3)

    @property
    def acked(self) -> list[int]:
        return self.source.acked[0]


@pytest.fixture
def world() -> World:
    return World()


async def test_it_reads_the_candidates(world: World) -> None:
    worker = Worker(world)
    assert worker.runtime.agents == {"merge": ("candidates", worker.agent.lanes.consume)}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_a_flush_is_applied_with_its_last_branch(world: World, order: tuple[int, int]) -> None:
    answers = world.flush(0)
    worker = Worker(world)
    world.publish(answers[order[0]])
    await worker.read()
    assert world.sender.sent == []
    assert worker.acked == []
    world.publish(answers[order[1]])
    await worker.read()
    assert [record.topic for record in world.sender.sent] == ["deltas", "events"]
    assert {(record.key, record.partition) for record in world.sender.sent} == {(KEY, 0)}
    assert world.deltas() == list(world.state.deltas)
    assert world.events() == [world.state.event]
    assert world.announced == [world.deltas()[0].delta_id]
    assert world.table.writes == [(KEY, 0)]
    assert worker.acked == [0, 1, 2]


async def test_flushes_are_applied_in_order_whatever_comes_between(world: World) -> None:
    (e0, t0), (e1, t1), (e2, t2) = (world.flush(number) for number in range(3))
    world.publish(e0, e1, e2, t0, t1, t2)
    worker = Worker(world)
    await worker.read()
    assert [event.flush.first_offset for event in world.events()] == [0, 10, 20]
    assert [delta.version for delta in world.deltas()] == [1, 2, 3]
    assert worker.acked == world.offsets


async def test_an_answer_that_comes_twice_counts_once(world: World) -> None:
    (extract, tag), (other, _) = world.flush(0), world.flush(0, "coffee")
    world.publish(extract, other, tag, tag)
    worker = Worker(world)
    await worker.read()
    assert {event.event_id for event in world.events()} == {world.state.event.event_id}
    assert {delta.after for delta in world.deltas()} == {"tea 0"}
    assert world.state.profile.version == 1
    assert worker.acked == world.offsets


async def test_the_last_flush_read_again_sends_the_same_again(world: World) -> None:
    world.publish(*world.flush(0), *world.flush(1))
    first = Worker(world)
    await first.read()
    sent, stored = list(world.sender.sent), dict(world.table.stored)
    world.sender.sent.clear()
    again = Worker(world)
    await again.read()
    assert again.acked == world.offsets
    assert world.sender.sent == sent[2:] * 3
    assert world.table.stored == stored
    assert world.judge.asked == 1


@pytest.mark.parametrize("step", STEPS)
async def test_a_flush_survives_a_kill_at_any_point(world: World, step: str) -> None:
    world.publish(*world.flush(0), *world.flush(1))
    first = Worker(world)
    first.kill_at(step, number=2)
    await first.read()
    assert first.killed.is_set()
    await first.die()
    assert world.committed == 3
    second = Worker(world)
    await second.read()
    assert second.acked == [3, 4, 5]
    assert {event.flush.first_offset for event in world.events()} == {0, 10}
    assert len({encode(event) for event in world.events()}) == 2
    assert len({encode(delta) for delta in world.deltas()}) == 2
    assert world.state.profile.slots[0].value == world.deltas()[-1].after
    assert world.state.profile.version == 2


async def test_a_merge_that_fails_ends_the_flush_as_failed(world: World) -> None:
    extract, tag = world.flush(1)
    world.publish(*world.flush(0), tag, extract, *world.flush(2))
    world.judge.failures = [StageFailed("no_json", "prose", calls=[CALL])]
    worker = Worker(world)
    await worker.read()
    assert [event.outcome for event in world.events()] == ["applied", "failed", "applied"]
    failed = world.events()[1]
    assert (failed.errors, failed.calls, failed.delta_ids) == ({"merge": "no_json: prose"}, (CALL,), ())
    assert [delta.version for delta in world.deltas()] == [1, 2]
    (parked,) = world.sender.on("dead-letters")
    assert parked.value == encode(extract)
    reason = DeadLetterReason.from_headers(parked.headers)
    assert (reason.stage, reason.reason, reason.offset, reason.attempts) == ("merge", "no_json", 4, 1)
    assert worker.acked == world.offsets


async def test_a_failed_flush_read_again_sends_the_same_event(world: World) -> None:
    world.publish(*world.flush(0), *world.flush(1))
    world.judge.failures = [StageFailed("no_json", "prose")]
    first = Worker(world)
    first.kill_at("after the send", number=3)
    await first.read()
    await first.die()
    second = Worker(world)
    await second.read()
    assert second.acked == [3, 4, 5]
    assert len({encode(event) for event in world.events()}) == 2
    assert world.events()[-1].outcome == "failed"
    assert world.judge.asked == 1


async def test_a_processor_that_is_unavailable_is_asked_again_and_then_the_flush_fails(world: World) -> None:
    world.publish(*world.flush(0), *world.flush(1), *world.flush(2))
    world.judge.failures = [StageUnavailable("busy", "429")] * 3
    worker = Worker(world)
    await worker.read()
    assert [event.outcome for event in world.events()] == ["applied", "failed", "applied"]
    assert worker.acked == world.offsets


@pytest.mark.parametrize("place", ["table", "sender"])
async def test_an_outage_delays_a_flush_and_changes_nothing_else(world: World, place: str) -> None:
    world.publish(*world.flush(0), *world.flush(1))
    getattr(world, place).faults.extend([DependencyDown("down")] * 5)
    worker = Worker(world)
    await worker.read()
    assert len({encode(event) for event in world.events()}) == 2
    assert [delta.version for delta in world.deltas()] == [1, 2]
    assert world.events()[0].outcome == world.events()[1].outcome == "applied"
    assert worker.acked == world.offsets


async def test_an_outage_after_the_record_is_durable_sends_what_it_holds(world: World) -> None:
    world.publish(*world.flush(0), *world.flush(1))
    worker = Worker(world)
    await worker.read()
    assert world.judge.asked == 1
    world.publish(*world.flush(2))
    world.sender.faults.extend([DependencyDown("down")] * 3)
    await worker.read()
    assert world.judge.asked == 2
    assert world.deltas()[-1].after == world.state.profile.slots[0].value == "answer 2"


async def test_an_outage_while_a_flush_fails_ends_it_once(world: World) -> None:
    world.publish(*world.flush(0), *world.flush(1))
    worker = Worker(world)
    failure = StageFailed("no_json", "prose")
    world.judge.failures = [failure]

    async def interrupt() -> None:
        if failure not in world.judge.failures and len(world.sender.sent) == 3:
            world.sender.before = None
            world.sender.faults.append(DependencyDown("down"))

    world.sender.before = interrupt
    await worker.read()
    assert [event.outcome for event in world.events()] == ["applied", "failed"]
    assert worker.acked == world.offsets


async def test_a_profile_that_has_outgrown_its_record_stays_as_it_is_and_the_flush_fails(world: World) -> None:
    world.publish(*world.flush(0), *world.flush(1), *world.flush(2))
    worker = Worker(world)
    world.table.faults.extend([RecordFailed("record_too_large", "9 MB")] * 2)
    await worker.read()
    assert [event.outcome for event in world.events()] == ["failed", "applied", "applied"]
    assert world.events()[0].errors == {"merge": "record_too_large: 9 MB"}
    assert [record.value for record in world.sender.on("dead-letters")] == [world.log[0].value]
    assert [delta.version for delta in world.deltas()] == [1, 2]
    assert worker.acked == world.offsets


@pytest.mark.parametrize("value", [b"rubbish", b"{}"])
async def test_an_unreadable_record_is_parked(world: World, value: bytes) -> None:
    world.publish(value, *world.flush(0))
    worker = Worker(world)
    await worker.read()
    (parked,) = world.sender.on("dead-letters")
    assert (parked.value, DeadLetterReason.from_headers(parked.headers).reason) == (value, "invalid_record")
    assert len(world.events()) == 1
    assert worker.acked == world.offsets


async def test_a_drain_forgets_a_half_that_waits_and_it_is_joined_when_read_again(world: World) -> None:
    extract, tag = world.flush(0)
    world.publish(extract)
    worker = Worker(world)
    await worker.read()
    worker.agent.lanes.begin_drain()
    assert len(worker.agent.lanes.ledger) == 0
    worker.agent.lanes.abandon()
    worker.agent.lanes.resume()
    worker.position = 0
    world.publish(tag)
    await worker.read()
    assert len(world.events()) == 1
    assert worker.acked == world.offsets


async def test_the_offsets_of_another_log_are_not_taken_for_old_ones(world: World) -> None:
    world.publish(*world.flush(5))
    await Worker(world).read()
    ref = flush_ref(0, 2, log_id="rebuilt")
    world.publish(extracted(candidate("tea", evidence=("m0",)), ref=ref), tagged(ref=ref))
    await Worker(world).read()
    assert {event.flush.log_id for event in world.events()} == {"log", "rebuilt"}
    assert world.state.profile.version == 2


async def test_both_lanes_of_a_user_make_one_history_in_their_order(world: World) -> None:
    (e0, t0), (e1, t1) = world.flush(0), world.flush(1)
    world.publish(world.message(1, "lives in A"), e0, world.message(11, "has a dog"), t0, t1, world.message(12), e1)
    worker = Worker(world)
    await worker.read()
    assert [(event.flush.lane, event.flush.first_offset, event.outcome) for event in world.events()] == [
        ("facts", 1, "applied"),
        ("facts", 11, "applied"),
        ("memo", 0, "applied"),
        ("facts", 12, "empty"),
        ("memo", 10, "applied"),
    ]
    assert [(delta.version, delta.kind) for delta in world.deltas()] == [
        (1, "fact"),
        (2, "fact"),
        (3, "slot"),
        (4, "slot"),
    ]
    assert [each.text for each in world.state.profile.facts] == ["lives in A", "has a dog"]
    assert len(world.state.profile.slots) == 1
    assert {lane: mark.last_offset for lane, mark in world.state.applied.items()} == {"facts": 12, "memo": 12}
    assert worker.acked == world.offsets


@pytest.mark.parametrize("step", STEPS)
async def test_a_fact_survives_a_kill_at_any_point(world: World, step: str) -> None:
    world.publish(world.message(1, "lives in A"), world.message(2, "lives in B"))
    first = Worker(world)
    first.kill_at(step, number=2)
    await first.read()
    await first.die()
    second = Worker(world)
    await second.read()
    assert {event.flush.first_offset for event in world.events()} == {1, 2}
    assert len({encode(delta) for delta in world.deltas()}) == len({delta.delta_id for delta in world.deltas()})
    history = sorted({delta.delta_id: delta for delta in world.deltas()}.values(), key=lambda delta: delta.version)
    assert apply_deltas(Profile(tenant_id="default", user_id="ada"), history) == world.state.profile


async def test_a_comparison_that_fails_for_good_parks_the_answer_and_the_lane_goes_on(world: World) -> None:
    world.publish(world.message(1, "lives in A"), world.message(2, "lives in B"), world.message(3, "has a dog"))
    world.judge.failures = [StageFailed("refused", "no", calls=[CALL])]
    worker = Worker(world)
    await worker.read()
    assert [event.outcome for event in world.events()] == ["applied", "failed", "applied"]
    assert (world.events()[1].errors, world.events()[1].calls) == ({"merge": "refused: no"}, (CALL,))
    assert [record.value for record in world.sender.on("dead-letters")] == [world.log[1].value]
    assert [each.text for each in world.state.profile.facts] == ["lives in A", "has a dog"]
    assert worker.acked == [0, 1, 2]


ACTIONS = st.one_of(
    st.tuples(st.just("fact"), st.sampled_from("ABCDEFGH")),
    st.tuples(st.just("fact"), st.sampled_from("ABCDEFGH")),
    st.tuples(st.just("extract")),
    st.tuples(st.just("extract")),
    st.tuples(st.just("tag")),
    st.tuples(st.just("tag")),
    st.tuples(st.just("read")),
    st.tuples(st.just("plan"), st.sampled_from(STEPS), st.integers(1, 3)),
    st.tuples(st.just("kill"), st.integers(0, 3)),
    st.tuples(st.just("fail"), st.sampled_from([StageFailed, StageUnavailable])),
    st.tuples(st.just("repeat"), st.integers(0, 30)),
)


async def run_schedule(actions: list[tuple]) -> None:
    world = World()
    worker = Worker(world)
    flushes = [world.flush(number) for number in range(len(actions))]
    sent = {"extract": 0, "tag": 0}
    spoken = 0
    for action in actions:
        if worker.killed.is_set():
            await worker.die()
            worker = Worker(world)
        match action:
            case ("extract" | "tag" as branch,):
                world.publish(flushes[sent[branch]][branch == "tag"])
                sent[branch] += 1
            case ("fact", city):
                world.publish(world.message(spoken, f"lives in {city}"))
                spoken += 1
            case ("read",):
                await worker.read()
            case ("plan", step, count):
                worker.kill_at(step, count)
            case ("kill", lag):
                await worker.die(lag)
            case ("fail", error):
                world.judge.failures.append(error("no", "no"))
            case ("repeat", index) if world.log:
                world.publish(world.log[index % len(world.log)].value)
    total = max(sent.values())
    for branch, begun in sent.items():
        world.publish(*(flushes[number][branch == "tag"] for number in range(begun, total)))
    await worker.die()
    last = Worker(world)
    await last.read()
    await last.die()

    contents: dict[str, set[bytes]] = defaultdict(set)
    for record in (*world.events(), *world.deltas()):
        contents[getattr(record, "event_id", None) or record.delta_id].add(encode(record))
    assert all(len(found) == 1 for found in contents.values()), "the same id with other content"
    ended = {(event.flush.lane, event.flush.first_offset) for event in world.events()}
    expected = {("memo", 10 * number) for number in range(total)} | {("facts", number) for number in range(spoken)}
    assert ended == expected, "a flush without event"
    unique = {delta.delta_id: delta for delta in world.deltas()}
    history = sorted(unique.values(), key=lambda delta: delta.version)
    if expected:
        assert apply_deltas(Profile(tenant_id="default", user_id="ada"), history) == world.state.profile


@settings(max_examples=100, deadline=None)
@given(st.lists(ACTIONS, min_size=4, max_size=40))
def test_any_schedule_of_answers_failures_and_crashes_ends_each_flush_once(actions: list[tuple]) -> None:
    asyncio.run(run_schedule(actions))
