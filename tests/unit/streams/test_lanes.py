"""`KeyedLanes`: order within a key, concurrency across keys, tries, parking, holding and draining."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import lanes as lanes_module
from streams.backoff import Backoff
from streams.errors import DependencyDown, RecordDelayed, RecordFailed
from streams.lanes import KeyedLanes
from streams.ledger import Entry
from tests.support.fakes import INSTANT, FakeEvent, FakeSource, RecordedBackoff, eventually, settled, stream_of


class Stage:
    """Lanes over a handler that does what the test says for each offset."""

    def __init__(self, **options) -> None:
        self.source = FakeSource()
        self.started: list[int] = []
        self.ended: list[int] = []
        self.parked: list[tuple[int, str, int]] = []
        self.failures: defaultdict[int, list[Exception]] = defaultdict(list)
        self.details: dict[int, str] = {}
        self.park_failures: list[Exception] = []
        self.blocked: dict[int, asyncio.Event] = {}
        self.holding: set[int] = set()
        self.cancelled: list[int] = []
        self.now_running = self.most_running = 0
        self.forgets = 0
        self.entries: dict[int, Entry] = {}
        options.setdefault("backoff", INSTANT)
        self.lanes = KeyedLanes(
            "stage",
            self.source,
            handler=self._handle,
            give_up=self._give_up,
            on_forget=self._forgotten,
            **options,
        )
        self.lanes.resume()

    def block(self, *offsets: int) -> None:
        self.blocked |= {offset: asyncio.Event() for offset in offsets}

    def unblock(self, offset: int) -> None:
        self.blocked.pop(offset).set()

    async def _handle(self, entry: Entry) -> None:
        offset = entry.event.message.offset
        self.entries[offset] = entry
        self.started.append(offset)
        self.now_running += 1
        self.most_running = max(self.most_running, self.now_running)
        try:
            if offset in self.blocked:
                await self.blocked[offset].wait()
            else:
                await asyncio.sleep(0)
            if self.failures[offset]:
                raise self.failures[offset].pop(0)
        except asyncio.CancelledError:
            self.cancelled.append(offset)
            raise
        finally:
            self.now_running -= 1
        if offset in self.holding:
            self.lanes.hold(entry)
        self.ended.append(offset)

    async def _give_up(self, entry: Entry, failure: RecordFailed, attempts: int) -> None:
        if self.park_failures:
            raise self.park_failures.pop(0)
        self.parked.append((entry.event.message.offset, failure.reason, attempts))
        self.details[entry.event.message.offset] = failure.detail

    def _forgotten(self) -> None:
        self.forgets += 1

    def event(self, offset: int, key: str = "a") -> FakeEvent:
        return self.source.event(offset, key=key.encode())

    async def submit(self, *keys: str, first: int = 0) -> None:
        for offset, key in enumerate(keys, first):
            await self.lanes.submit(self.event(offset, key))

    async def done(self) -> None:
        await eventually(lambda: self.lanes.running == 0)

    @property
    def acked(self) -> list[int]:
        return self.source.acked[0]


async def test_records_of_a_key_are_handled_one_after_the_other_in_order() -> None:
    stage = Stage()
    stage.block(0)
    await stage.submit("a", "a", "a")
    await eventually(lambda: stage.started)
    await settled()
    assert stage.started == [0]
    stage.unblock(0)
    await stage.done()
    assert stage.started == stage.ended == stage.acked == [0, 1, 2]
    assert stage.most_running == 1


async def test_other_keys_go_on_and_their_records_are_acknowledged_in_offset_order() -> None:
    stage = Stage()
    stage.block(0)
    await stage.submit("a", "b", "c")
    await eventually(lambda: stage.ended == [1, 2])
    assert stage.acked == []
    stage.unblock(0)
    await stage.done()
    assert stage.acked == [0, 1, 2]


async def test_a_record_without_key_has_a_lane_like_any_other() -> None:
    stage = Stage()
    await stage.lanes.submit(stage.source.event(0, key=None))
    await stage.done()
    assert stage.acked == [0]


async def test_no_more_handlers_run_at_once_than_allowed() -> None:
    stage = Stage(concurrency=2)
    stage.block(*range(5))
    await stage.submit(*"abcde")
    await eventually(lambda: len(stage.started) == 2)
    await settled()
    assert stage.started == [0, 1]
    for offset in range(5):
        stage.unblock(offset)
    await stage.done()
    assert stage.most_running == 2
    assert stage.acked == [0, 1, 2, 3, 4]


async def test_a_lane_that_waits_for_its_next_try_holds_no_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    released = asyncio.Event()
    turn = asyncio.sleep

    async def wait(seconds: float) -> None:
        await (released.wait() if seconds else turn(0))

    class Long:
        def delay(self, attempt: int, retry_after: float | None = None) -> float:
            return 60.0

    stage = Stage(concurrency=1, backoff=Long())
    stage.failures[0] = [DependencyDown("down")]
    monkeypatch.setattr(asyncio, "sleep", wait)
    await stage.submit("a", "a", "b")
    await eventually(lambda: 2 in stage.ended)
    assert stage.started == [0, 2]
    released.set()
    await stage.done()
    assert stage.started == [0, 2, 0, 1]
    assert stage.acked == [0, 1, 2]


async def test_the_stream_is_not_read_while_too_much_is_open() -> None:
    stage = Stage(max_open=2)
    stage.block(0, 1)
    reading = asyncio.create_task(stage.lanes.consume(stream_of([stage.event(n, key) for n, key in enumerate("abcd")])))
    await eventually(lambda: stage.started == [0, 1])
    await settled()
    assert stage.lanes.running == 2
    assert len(stage.lanes.ledger) == 2
    stage.unblock(1)
    await eventually(lambda: stage.ended == [1, 2, 3])
    stage.unblock(0)
    await reading
    await stage.done()
    assert stage.acked == [0, 1, 2, 3]


async def test_a_delayed_record_is_tried_again_and_then_given_up_once() -> None:
    backoff = RecordedBackoff()
    stage = Stage(attempts=3, backoff=backoff)
    stage.failures[0] = [RecordDelayed("busy", "try later", retry_after) for retry_after in (7.0, None, 9.0)]
    await stage.submit("a", "a")
    await stage.done()
    assert stage.started == [0, 0, 0, 1]
    assert stage.parked == [(0, "busy", 3)]
    assert backoff.asked == [(1, 7.0), (2, None)]
    assert stage.acked == [0, 1]


async def test_a_record_that_succeeds_on_its_last_try_is_not_given_up() -> None:
    stage = Stage(attempts=3)
    stage.failures[0] = [RecordDelayed("busy", "try later")] * 2
    await stage.submit("a")
    await stage.done()
    assert stage.parked == []
    assert stage.ended == stage.acked == [0]


async def test_a_failed_record_is_given_up_at_once() -> None:
    stage = Stage(attempts=5)
    stage.failures[0] = [RecordFailed("invalid_record", "not JSON")]
    await stage.submit("a")
    await stage.done()
    assert stage.started == [0]
    assert stage.parked == [(0, "invalid_record", 1)]
    assert stage.acked == [0]


async def test_an_outage_is_waited_for_without_limit_and_is_no_attempt() -> None:
    backoff = RecordedBackoff()
    stage = Stage(attempts=2, backoff=backoff)
    stage.failures[0] = [
        RecordDelayed("busy", "later"),
        *(DependencyDown("down", retry_after=3.0) for _ in range(20)),
        RecordDelayed("busy", "later"),
    ]
    await stage.submit("a")
    await stage.done()
    assert stage.parked == [(0, "busy", 2)]
    assert backoff.asked == [(1, None), *((n, 3.0) for n in range(1, 21))]


async def test_an_unexpected_exception_is_tried_again_and_parked_with_its_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parked = []

    async def give_up(entry: Entry, failure: RecordFailed, attempts: int) -> None:
        parked.append((failure.reason, failure.detail, attempts))

    async def handle(_entry: Entry) -> None:
        raise KeyError("slot")

    source = FakeSource()
    lanes = KeyedLanes("stage", source, handler=handle, give_up=give_up, attempts=2, backoff=INSTANT)
    lanes.resume()
    await lanes.submit(source.event(0))
    await eventually(lambda: lanes.running == 0)
    assert parked == [("internal_error", "KeyError: 'slot'", 2)]
    assert source.acked == {0: [0]}
    assert caplog.text.count("unexpected error on in[0]@0") == 2


async def test_parking_is_tried_until_it_succeeds_and_only_then_acknowledged() -> None:
    backoff = RecordedBackoff()
    stage = Stage(backoff=backoff)
    stage.failures[0] = [RecordFailed("bad", "bad")]
    stage.park_failures = [DependencyDown("down", retry_after=4.0), ValueError("surprise"), DependencyDown("down")]
    await stage.submit("a")
    await stage.done()
    assert stage.started == [0]
    assert stage.parked == [(0, "bad", 1)]
    assert backoff.asked == [(1, 4.0), (2, None), (3, None)]
    assert stage.acked == [0]


async def test_a_held_record_stays_open_without_taking_room_until_it_is_released() -> None:
    stage = Stage(max_open=1)
    stage.holding = {0}
    await stage.submit("a", "a", "b")
    await stage.done()
    assert stage.ended == [0, 1, 2]
    assert stage.acked == []
    assert len(stage.lanes.ledger) == 3
    stage.lanes.release(stage.entries[0])
    assert stage.acked == [0, 1, 2]


async def test_a_hold_before_a_failure_does_not_survive_parking() -> None:
    stage = Stage(attempts=1)

    async def handle(entry: Entry) -> None:
        stage.lanes.hold(entry)
        raise RecordFailed("bad", "bad")

    stage.lanes._handler = handle
    await stage.submit("a")
    await stage.done()
    assert stage.acked == [0]


async def test_a_drain_finishes_what_was_taken_and_takes_nothing_new() -> None:
    stage = Stage()
    stage.block(0)
    await stage.submit("a", "a")
    stage.lanes.begin_drain()
    await stage.lanes.submit(stage.event(2, "b"))
    assert len(stage.lanes.ledger) == 2, "a record that comes during a drain is not taken"
    stage.unblock(0)
    await stage.done()
    await settled()
    assert stage.acked == [0, 1]
    assert stage.ended == [0, 1]


async def test_a_drain_forgets_held_records_once_nothing_runs() -> None:
    stage = Stage()
    stage.holding = {0}
    stage.block(1)
    await stage.submit("a", "b")
    await eventually(lambda: stage.ended == [0])
    stage.lanes.begin_drain()
    await settled()
    assert len(stage.lanes.ledger) == 2
    stage.unblock(1)
    await stage.done()
    await eventually(lambda: not len(stage.lanes.ledger))
    assert stage.acked == []
    assert stage.forgets == 1


async def test_a_drain_of_nothing_but_held_records_forgets_them_at_once() -> None:
    stage = Stage()
    stage.holding = {0}
    await stage.submit("a")
    await stage.done()
    stage.lanes.begin_drain()
    assert len(stage.lanes.ledger) == 0
    assert stage.forgets == 1


async def test_abandoning_cancels_everything_and_acknowledges_nothing() -> None:
    stage = Stage(concurrency=2)
    stage.block(0, 1)
    await stage.submit(*"abac")
    await eventually(lambda: len(stage.started) == 2)
    stage.lanes.abandon()
    await settled()
    assert stage.cancelled == [0, 1]
    assert stage.acked == []
    assert len(stage.lanes.ledger) == 0
    assert stage.lanes.running == 0
    assert stage.forgets == 1


async def test_what_is_read_again_after_abandoning_is_handled_afresh() -> None:
    stage = Stage(concurrency=1)
    stage.block(0)
    await stage.submit("a", "a")
    await eventually(lambda: stage.started)
    stage.lanes.begin_drain()
    stage.lanes.abandon()
    stage.source.generation += 1
    stage.lanes.resume()
    stage.blocked.clear()
    await stage.submit("a", "a")
    await stage.done()
    assert stage.started == [0, 0, 1]
    assert stage.acked == [0, 1]


async def test_a_handler_that_ends_after_abandoning_acknowledges_nothing() -> None:
    stage = Stage()
    finish = asyncio.Event()

    async def stubborn(_entry: Entry) -> None:
        try:
            await finish.wait()
        except asyncio.CancelledError:
            await finish.wait()

    stage.lanes._handler = stubborn
    await stage.submit("a", "a")
    await settled()
    stage.lanes.abandon()
    await settled()
    finish.set()
    await settled()
    assert stage.acked == []
    assert stage.lanes.running == 0


async def test_a_record_is_left_when_its_assignment_ended_before_it_was_taken() -> None:
    stage = Stage()
    event = stage.event(0)
    stage.source.generation += 1
    await stage.lanes.submit(event)
    await settled()
    assert stage.started == []
    assert len(stage.lanes.ledger) == 0


async def test_a_stage_takes_nothing_before_it_is_resumed() -> None:
    source = FakeSource()
    handled: list[int] = []

    async def handle(entry: Entry) -> None:
        handled.append(entry.event.message.offset)

    async def give_up(*_args: object) -> None: ...

    lanes = KeyedLanes("stage", source, handler=handle, give_up=give_up)
    await lanes.submit(source.event(0))
    await settled()
    assert (handled, len(lanes.ledger)) == ([], 0)
    lanes.resume()
    await lanes.submit(source.event(0))
    await eventually(lambda: handled == [0])


async def test_a_handler_whose_own_work_was_cancelled_elsewhere_is_tried_again() -> None:
    stage = Stage(attempts=2)
    stage.failures[0] = [asyncio.CancelledError()]
    await stage.submit("a", "a")
    await settled()
    assert stage.acked == [0, 1]


OUTCOMES: dict[str, Callable[[], list[Exception]]] = {
    "ok": list,
    "fails": lambda: [RecordFailed("bad", "bad")],
    "delayed": lambda: [RecordDelayed("busy", "busy")],
    "hopeless": lambda: [RecordDelayed("busy", "busy")] * 9,
    "outage": lambda: [DependencyDown("down")] * 3,
    "bug": lambda: [ZeroDivisionError()],
}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(sorted(OUTCOMES))), max_size=25),
    st.integers(1, 3),
    st.integers(1, 5),
)
def test_whatever_happens_each_key_keeps_its_order_and_every_record_is_acknowledged_once(
    records: list[tuple[str, str]], concurrency: int, max_open: int
) -> None:
    async def scenario() -> None:
        stage = Stage(concurrency=concurrency, max_open=max_open, attempts=2)
        for offset, (_, outcome) in enumerate(records):
            stage.failures[offset] = OUTCOMES[outcome]()
        await stage.submit(*(key for key, _ in records))
        await stage.done()
        assert stage.acked == list(range(len(records)))
        assert stage.most_running <= concurrency
        for wanted in "abc":
            tries = [offset for offset in stage.started if records[offset][0] == wanted]
            assert tries == sorted(tries)
        given_up = [offset for offset, (_, outcome) in enumerate(records) if outcome in {"fails", "hopeless"}]
        assert sorted(offset for offset, _, _ in stage.parked) == given_up

    asyncio.run(scenario())


async def test_what_waits_is_given_up_once_waiting_is_over_and_what_needs_nothing_is_still_processed() -> None:
    stage = Stage(backoff=Backoff(first=60.0, limit=60.0), concurrency=2)
    stage.failures[0] = [DependencyDown("the model is overloaded")]  # waits for its next try
    stage.block(1)  # asks somebody who never answers
    stage.failures[2] = [RecordDelayed("model_unavailable", "broken")]
    await stage.submit("a", "b", "c")
    await eventually(lambda: stage.started == [0, 1, 2] and stage.now_running == 1)
    await stage.submit("a", "a", first=3)
    stage.failures[3] = [DependencyDown("the model is overloaded")]
    stage.lanes.stop_waiting()
    await stage.done()
    assert sorted(stage.parked) == [(offset, "stopped", 1) for offset in range(4)]
    assert stage.details[0] == "the worker was stopped while it waited: the model is overloaded"
    assert stage.details[2] == "the worker was stopped while it waited: model_unavailable: broken"
    assert stage.cancelled == [1]
    assert stage.ended == [4]
    assert (stage.lanes.stopped, stage.lanes.ended) == (4, 5)
    assert sorted(stage.acked) == [0, 1, 2, 3, 4]


async def test_once_waiting_is_over_a_handler_has_one_short_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes_module, "_LAST_TRY", 0.01)
    stage = Stage()
    stage.lanes.stop_waiting()
    stage.block(0)
    await stage.submit("a", "b")
    await stage.done()
    assert stage.parked == [(0, "stopped", 1)]
    assert stage.ended == [1]


async def test_a_record_that_is_another_stages_is_acknowledged_in_its_turn_without_a_handler() -> None:
    stage = Stage(concerns=lambda event: event.message.offset % 2 == 0)
    stage.block(0)
    for offset in range(4):
        await stage.lanes.submit(stage.source.event(offset, key=b"k"))
    assert (stage.lanes.running, stage.lanes.ended) == (2, 2)
    assert stage.source.acked[0] == []
    stage.unblock(0)
    await eventually(lambda: stage.source.acked[0] == [0, 1, 2, 3])
    assert stage.started == [0, 2]
    assert stage.lanes.ended == 4
