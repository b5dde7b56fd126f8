"""`StageAgent`: each record gets exactly one answer, whatever happens to it."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from agents.processor import SlotName, StageFailed, StageUnavailable
from agents.stage_agent import StageAgent, batch_heading, known_slots
from agents.summary import failed_memo
from schemas.codec import encode
from schemas.dead_letters import DeadLetterReason
from schemas.flushes import Branch, FlushBatch, Lane
from schemas.profiles import AppliedMark, Profile, ProfileState, Slot
from schemas.stages import Memo, ModelCall
from streams.errors import DependencyDown
from tests.support.fakes import FakeRuntime, FakeTable, eventually
from tests.support.records import KEY, SAID, flush_batch, flush_ref, memo, signal_batch

CALL = ModelCall(stage="summary", model="m", outcome="timeout")


class Stage:
    """A summary stage whose judgement is the test's."""

    def __init__(
        self,
        parks_unreadable: bool = True,
        lane: Lane = "memo",
        branches: tuple[Branch, ...] = ("extract", "tag"),
        by_heading: bool = False,
    ) -> None:
        self.runtime = FakeRuntime(attempts=3)
        self.profiles = FakeTable(ProfileState)
        self.asked: list[tuple[str, list[SlotName]]] = []
        self.failures: list[Exception] = []
        self.agent = StageAgent(
            self.runtime,
            stage="summary",
            lane=lane,
            branches=branches,
            source="flushes",
            target="memos",
            record_type=FlushBatch,
            flush=lambda batch: batch.ref,
            run=self._run,
            fail=failed_memo,
            profiles=self.profiles,
            parks_unreadable=parks_unreadable,
            heading=batch_heading if by_heading else None,
        )

    async def _run(self, batch: FlushBatch, profile: Profile | None) -> Memo:
        self.asked.append((batch.ref.flush_id, known_slots(profile)))
        if self.failures:
            raise self.failures.pop(0)
        return memo(batch.ref)

    async def read(self, value: bytes, offset: int = 0, partition: int = 2) -> None:
        await self.agent.lanes.submit(self.runtime.source.event(offset, key=KEY, value=value, partition=partition))
        await eventually(lambda: self.agent.lanes.running == 0)

    @property
    def acked(self) -> list[int]:
        return self.runtime.source.acked[2]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def state_at(last_offset: int, *slots: Slot) -> ProfileState:
    return ProfileState(
        profile=Profile(tenant_id="default", user_id="ada", slots=slots),
        applied={"memo": AppliedMark(log_id="log", partition=0, last_offset=last_offset)},
    )


def slot(topic: str, sub_topic: str) -> Slot:
    return Slot(
        topic=topic,
        sub_topic=sub_topic,
        value="x",
        update_hits=1,
        evidence=("m",),
        assertion="said",
        first_said_at=SAID,
        said_at=SAID,
        recorded_at=SAID,
        version=1,
    )


async def test_it_reads_its_topic(stage: Stage) -> None:
    assert stage.runtime.agents == {"summary": ("flushes", stage.agent.lanes.consume)}


async def test_the_answer_is_sent_under_the_records_key_into_its_partition(stage: Stage) -> None:
    await stage.read(encode(flush_batch()))
    (sent,) = stage.runtime.sender.sent
    assert (sent.topic, sent.key, sent.partition, sent.value) == ("memos", KEY, 2, encode(memo()))
    assert stage.acked == [0]


async def test_the_stage_is_told_the_slots_that_the_user_has(stage: Stage) -> None:
    stage.profiles.stored[KEY] = encode(state_at(-1, slot("a", "b"), slot("c", "d")))
    await stage.read(encode(flush_batch()))
    assert stage.asked == [(flush_ref().flush_id, [("a", "b"), ("c", "d")])]


@pytest.mark.parametrize(("applied", "answers"), [(1, 1), (2, 0), (9, 0)])
async def test_a_flush_that_has_ended_is_not_processed_again(stage: Stage, applied: int, answers: int) -> None:
    stage.profiles.stored[KEY] = encode(state_at(applied))
    await stage.read(encode(flush_batch(flush_ref(0, 2))))
    assert len(stage.runtime.sender.sent) == len(stage.asked) == answers
    assert stage.acked == [0]


@pytest.mark.parametrize(("lane", "applied"), [("facts", 9), ("memo", 1)])
async def test_a_mark_of_another_lane_says_nothing_about_this_one(stage: Stage, lane: Lane, applied: int) -> None:
    mark = AppliedMark(log_id="log", partition=0, last_offset=applied)
    profile = Profile(tenant_id="default", user_id="ada")
    stage.profiles.stored[KEY] = encode(ProfileState(profile=profile, applied={lane: mark}))
    await stage.read(encode(flush_batch(flush_ref(0, 2))))
    assert len(stage.runtime.sender.sent) == 1


async def test_a_flush_of_another_lane_is_left_to_its_own_stage(stage: Stage) -> None:
    stage.failures = [StageFailed("bad", "bad")]
    await stage.read(encode(signal_batch("I live in Oslo")))
    assert (stage.asked, stage.runtime.sender.sent, stage.acked) == ([], [], [0])


class Reader(Stage):
    """One of the stages that are told apart by headings."""

    def __init__(self, lane: Lane, branches: tuple[Branch, ...], parks_unreadable: bool = False) -> None:
        super().__init__(parks_unreadable, lane, branches, by_heading=True)

    async def parks(self, value: bytes) -> bool:
        """Whether it parks this record; in any case it acknowledges it, and answers nothing."""
        await self.read(value)
        assert self.acked == [0]
        assert self.asked == []
        return [record.topic for record in self.runtime.sender.sent] == ["dead-letters"]


def readers() -> dict[str, Reader]:
    """Return the stages that read the flush topic."""
    return {
        "summary": Reader("memo", ("extract", "tag"), parks_unreadable=True),
        "domain": Reader("memo", ("domain",)),
        "facts": Reader("facts", ("facts",)),
    }


@pytest.mark.parametrize(
    ("batch", "asked"),
    [
        (flush_batch(), {"summary", "domain"}),
        (signal_batch("I live in Oslo"), {"facts"}),
        (flush_batch(replace(flush_ref(), redrive=1, only=("tag",))), {"summary"}),
        (flush_batch(replace(flush_ref(), redrive=1, only=("domain",))), {"domain"}),
        (flush_batch(replace(flush_ref(), lane="forget")), set()),
    ],
)
async def test_by_headings_each_stage_gets_what_asks_for_its_answer(batch: FlushBatch, asked: set[str]) -> None:
    stages = readers()
    for stage in stages.values():
        await stage.read(encode(batch))
        assert (stage.acked, stage.agent.lanes.ended) == ([0], 1)
    assert {name for name, stage in stages.items() if stage.asked} == asked


async def test_a_record_of_another_stage_takes_no_lane_behind_one_that_waits() -> None:
    stage = readers()["summary"]
    waiting = asyncio.Event()
    run = stage._run

    async def wait(batch: FlushBatch, profile: Profile | None) -> Memo:
        await waiting.wait()
        return await run(batch, profile)

    stage.agent._run = wait
    for offset, batch in enumerate((flush_batch(), signal_batch("I live in Oslo"))):
        await stage.agent.lanes.submit(stage.runtime.source.event(offset, key=KEY, value=encode(batch), partition=2))
    assert (stage.agent.lanes.running, stage.acked) == (1, [])
    waiting.set()
    await eventually(lambda: stage.acked == [0, 1])


def broken(batch: FlushBatch) -> bytes:
    """Return a batch that cannot be read behind its heading."""
    return encode(batch).replace(b'"messages":[', b'"messages":["none",')


@pytest.mark.parametrize(
    ("value", "parking"),
    [
        (broken(flush_batch()), "summary"),
        (broken(signal_batch("I live in Oslo")), "facts"),
        (broken(flush_batch(replace(flush_ref(), redrive=1, only=("domain",)))), "domain"),
        (broken(flush_batch(replace(flush_ref(), redrive=1, only=("tag", "domain")))), "summary"),
        (broken(flush_batch(replace(flush_ref(), lane="forget"))), "summary"),
        (broken(flush_batch(replace(flush_ref(), redrive=1, only=("facts",)))), "summary"),
        (b'{"messages":[]}', "summary"),
        (b"rubbish", "summary"),
    ],
)
async def test_what_cannot_be_read_is_parked_by_one_of_the_stages_of_its_topic(value: bytes, parking: str) -> None:
    assert [name for name, stage in readers().items() if await stage.parks(value)] == [parking]


async def test_a_failed_stage_parks_the_record_and_answers_that_it_failed(stage: Stage) -> None:
    value = encode(flush_batch())
    stage.failures = [StageFailed("no_json", "the model wrote prose", calls=[CALL])]
    await stage.read(value)
    parked, answer = stage.runtime.sender.sent
    assert (parked.topic, parked.value) == ("dead-letters", value)
    reason = DeadLetterReason.from_headers(parked.headers)
    assert (reason.stage, reason.reason, reason.attempts) == ("summary", "no_json", 1)
    assert answer.topic == "memos"
    (failed,) = stage.runtime.sender.decoded("memos", Memo)
    assert (failed.flush, failed.status, failed.error) == (flush_ref(), "failed", "no_json: the model wrote prose")
    assert failed.calls == (CALL,)
    assert failed.bullets == ()
    assert [each.message_id for each in failed.messages] == ["m0", "m1", "m2"]
    assert stage.acked == [0]


async def test_a_stage_that_is_unavailable_is_tried_again(stage: Stage) -> None:
    stage.failures = [StageUnavailable("busy", "429")] * 2
    await stage.read(encode(flush_batch()))
    assert [record.topic for record in stage.runtime.sender.sent] == ["memos"]
    assert len(stage.asked) == 3


async def test_a_stage_that_stays_unavailable_is_given_up_with_its_last_failure(stage: Stage) -> None:
    stage.failures = [StageUnavailable("busy", "429", calls=[CALL])] * 3
    await stage.read(encode(flush_batch()))
    assert DeadLetterReason.from_headers(stage.runtime.sender.on("dead-letters")[0].headers).attempts == 3
    assert stage.runtime.sender.decoded("memos", Memo)[0].calls == (CALL,)


async def test_a_bug_in_the_stage_is_a_failure_like_any_other(stage: Stage) -> None:
    stage.failures = [IndexError("out of range")] * 3
    await stage.read(encode(flush_batch()))
    (failed,) = stage.runtime.sender.decoded("memos", Memo)
    assert (failed.status, failed.error) == ("failed", "internal_error: IndexError: out of range")


@pytest.mark.parametrize("value", [b"rubbish", b"{}", None])
async def test_an_unreadable_record_is_parked_and_has_no_answer(stage: Stage, value: bytes | None) -> None:
    await stage.read(value)
    assert [record.topic for record in stage.runtime.sender.sent] == ["dead-letters"]
    assert stage.asked == []
    assert stage.acked == [0]


@pytest.mark.parametrize("value", [b"rubbish", None])
async def test_of_the_stages_of_a_topic_the_others_leave_an_unreadable_record_alone(value: bytes | None) -> None:
    stage = Stage(parks_unreadable=False)
    await stage.read(value)
    assert (stage.runtime.sender.sent, stage.asked, stage.acked) == ([], [], [0])


async def test_what_only_fails_to_be_processed_is_parked_by_every_stage() -> None:
    stage = Stage(parks_unreadable=False)
    stage.failures = [StageFailed("bad", "bad")]
    await stage.read(encode(flush_batch()))
    assert [record.topic for record in stage.runtime.sender.sent] == ["dead-letters", "memos"]


async def test_an_outage_of_the_broker_makes_it_process_the_record_again(stage: Stage) -> None:
    stage.runtime.sender.faults.extend([DependencyDown("down")] * 9)
    await stage.read(encode(flush_batch()))
    assert [record.topic for record in stage.runtime.sender.sent] == ["memos"]
    assert stage.acked == [0]


async def test_an_outage_between_parking_and_answering_still_gives_the_answer(stage: Stage) -> None:
    stage.failures = [StageFailed("bad", "bad")]

    async def fail_second() -> None:
        if len(stage.runtime.sender.sent) == 1:
            stage.runtime.sender.before = None
            stage.runtime.sender.faults.append(DependencyDown("down"))

    stage.runtime.sender.before = fail_second
    await stage.read(encode(flush_batch()))
    assert [record.topic for record in stage.runtime.sender.sent] == ["dead-letters", "dead-letters", "memos"]
    assert len(stage.asked) == 1
