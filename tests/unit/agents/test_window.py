"""`WindowAgent`: what a batch holds, what is parked or moved, and how it drains."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from agents.moved import MOVED_HEADER
from schemas.dead_letters import TIMESTAMP_HEADER, DeadLetterReason
from schemas.flushes import BatchMessage
from schemas.ids import flush_id
from schemas.messages import user_key
from schemas.windows import EmittedBatch, WindowState
from streams.errors import DependencyDown, RecordFailed
from streams.partitioning import partition_for
from tests.support.fakes import START, TOPICS, eventually, settled, stream_of
from tests.unit.agents.window_world import World, flush, message

ADA = user_key("default", "ada")


async def test_a_batch_holds_the_messages_with_their_ids_and_times_settled() -> None:
    world = World()
    worker = world.start()
    world.say("ada", "hello world", message_id="app-1", session_id="s1", occurred_at="2026-02-28T10:00:00+08:00")
    world.say("bob", "not mine")
    world.clock.advance(5)
    world.publish(message("ada", "hi", role="assistant", speaker="Bot"), key=ADA, timestamp=START.timestamp() + 4.25)
    await worker.read()
    await worker.tick(60)
    batch = world.batches()[0]
    assert batch.messages == (
        BatchMessage(
            message_id="app-1",
            offset=0,
            role="user",
            content="hello world",
            occurred_at=datetime(2026, 2, 28, 2, 0, tzinfo=UTC),
            session_id="s1",
        ),
        BatchMessage(
            message_id="log:0:2",
            offset=2,
            role="assistant",
            content="hi",
            occurred_at=START + timedelta(seconds=4.25),
            speaker="Bot",
        ),
    )
    assert batch.context == ()
    ref = batch.ref
    assert ref.flush_id == flush_id("log", "default", "ada", "memo", 0, 0, 2)
    assert (ref.tenant_id, ref.user_id, ref.lane, ref.log_id, ref.partition) == ("default", "ada", "memo", "log", 0)
    assert (ref.first_offset, ref.last_offset, ref.message_count, ref.token_count) == (0, 2, 2, 3)
    assert (ref.trigger, ref.closed_at) == ("idle", START + timedelta(seconds=65))
    assert ref.first_occurred_at == batch.messages[0].occurred_at
    assert ref.last_occurred_at == batch.messages[1].occurred_at


async def test_the_times_of_a_heading_are_the_workers() -> None:
    world = World(messages=2)
    worker = world.start()
    world.say("ada")
    await worker.read()
    world.clock.advance(7)
    world.say("ada", occurred_at="2020-01-01T00:00:00Z")
    await worker.read()
    ref = world.batches()[0].ref
    assert (ref.opened_at, ref.closed_at, ref.trigger) == (START, START + timedelta(seconds=7), "messages")
    assert ref.first_occurred_at == datetime(2020, 1, 1, tzinfo=UTC)
    assert ref.last_occurred_at == START


async def test_a_batch_goes_out_under_its_users_key_after_its_offsets_are_durable() -> None:
    world = World(messages=1)
    worker = world.start()
    seen: list[tuple[dict[bytes, bytes], list[int]]] = []

    async def look() -> None:
        seen.append((dict(world.table.stored), list(worker.acked)))

    world.sender.before = look
    world.say("ada")
    await worker.read()
    (record,) = world.sender.sent
    assert (record.topic, record.key, record.partition) == (TOPICS.flushes, ADA, 0)
    assert [(list(stored), acked) for stored, acked in seen] == [([ADA], [])]
    assert world.table.writes == [(ADA, 0)]
    assert world.table.read(ADA) == WindowState(
        lanes={
            "memo": EmittedBatch(
                log_id="log",
                partition=0,
                first_offset=0,
                last_offset=0,
                trigger="messages",
                opened_at=START,
                closed_at=START,
            )
        }
    )
    assert worker.acked == [0]
    assert world.emitted == [world.batches()[0].ref.flush_id]


async def test_open_windows_are_not_acknowledged_and_hold_back_what_follows() -> None:
    world = World()
    worker = world.start()
    world.say("ada")
    world.say("bob")
    world.publish(flush("bob"), key=user_key("default", "bob"))
    await worker.read()
    assert world.offsets() == [[1]]
    assert worker.acked == []
    world.publish(flush("ada"), key=ADA)
    await worker.read()
    assert world.offsets() == [[1], [0]]
    assert worker.acked == [0, 1, 2, 3]
    assert [batch.ref.trigger for batch in world.batches()] == ["flush", "flush"]


async def test_a_flush_of_a_user_without_messages_is_acknowledged_and_makes_no_batch() -> None:
    world = World()
    worker = world.start()
    world.publish(flush("ada"), key=ADA)
    await worker.read()
    assert world.sender.sent == []
    assert worker.acked == [0]


async def test_the_window_policy_is_kept() -> None:
    world = World(tokens=4, by_session=True)
    worker = world.start()
    for content, session in (("hello world", "s"), ("hello world hello world", "s"), ("hello", "s"), ("hello", "t")):
        world.say("ada", content, session_id=session)
    await worker.read()
    assert [(batch.ref.trigger, batch.ref.token_count) for batch in world.batches()] == [
        ("tokens", 2),
        ("tokens", 4),
        ("session", 1),
    ]
    assert world.offsets() == [[0], [1], [2]]


async def test_a_tenants_users_are_apart() -> None:
    world = World()
    worker = world.start()
    world.say("ada")
    world.publish(message("ada", tenant_id="acme"), key=user_key("acme", "ada"))
    await worker.read()
    await worker.close_all()
    assert [(batch.ref.tenant_id, batch.ref.user_id) for batch in world.batches()] == [
        ("default", "ada"),
        ("acme", "ada"),
    ]


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (None, "the value is null"),
        (b"\xffrubbish", "JSON is malformed: invalid character (byte 0)"),
        (b'{"user_id": "ada", "content": "x"}', "`role` is missing: one of user, assistant, system, tool"),
    ],
)
async def test_a_record_that_is_no_message_is_parked_as_it_came(value: bytes | None, detail: str) -> None:
    world = World()
    worker = world.start()
    world.publish(value, key=b"some key", headers=[("trace", b"1")])
    world.say("ada")
    await worker.read()
    (parked,) = world.sender.on(TOPICS.dead_letters)
    assert (parked.key, parked.value, parked.partition) == (b"some key", value, 0)
    assert parked.headers[0] == ("trace", b"1")
    reason = DeadLetterReason.from_headers(parked.headers)
    assert (reason.stage, reason.reason, reason.detail, reason.offset) == ("window", "invalid_record", detail, 0)
    assert worker.acked == [0]
    assert len(worker.agent.windows) == 1


async def test_parking_waits_for_the_broker() -> None:
    world = World()
    worker = world.start()
    world.sender.faults.extend([DependencyDown("down")] * 3)
    world.publish(b"rubbish")
    await worker.read()
    assert len(world.sender.sent) == 1
    assert worker.acked == [0]


@pytest.mark.parametrize("key", [None, b"", b"wrong", ADA])
async def test_a_message_in_the_right_partition_is_taken_whatever_its_key(key: bytes | None) -> None:
    world = World()
    worker = world.start()
    world.publish(message("ada"), key=key)
    await worker.read()
    await worker.close_all()
    assert world.batches()[0].ref.user_id == "ada"
    assert world.sender.on(TOPICS.flushes)[0].key == ADA
    assert worker.agent.moved == 0


@pytest.mark.parametrize("value", [message("ada"), flush("ada")])
@pytest.mark.parametrize("key", [None, b"wrong"])
async def test_a_message_in_a_wrong_partition_is_moved_to_its_users(value: bytes, key: bytes | None) -> None:
    world = World(partitions=4)
    right = partition_for(ADA, 4)
    wrong = (right + 1) % 4
    worker = world.start()
    world.publish(value, key=key, partition=wrong, headers=[("trace", b"1")], timestamp=12.5)
    await worker.read()
    (moved,) = world.sender.sent
    assert (moved.topic, moved.key, moved.value, moved.partition) == (TOPICS.messages, ADA, value, right)
    assert moved.headers == [("trace", b"1"), (MOVED_HEADER, f"log:{wrong}:0".encode())]
    assert moved.timestamp == 12.5
    assert worker.source.acked[wrong] == [0]
    assert worker.agent.moved == 1
    world.publish(moved.value, key=moved.key, partition=right, headers=list(moved.headers))
    await worker.read()
    assert world.sender.sent == [moved]
    assert worker.agent.moved == 1


async def test_a_message_is_moved_when_the_broker_is_back() -> None:
    world = World(partitions=4)
    worker = world.start()
    world.sender.faults.extend([DependencyDown("down")] * 2)
    wrong = (partition_for(ADA, 4) + 1) % 4
    world.publish(message("ada"), partition=wrong)
    await worker.read()
    assert len(world.sender.sent) == worker.agent.moved == 1


async def test_batches_of_a_user_leave_in_order_and_others_do_not_wait_for_them() -> None:
    world = World(messages=1)
    worker = world.start()
    let_go = asyncio.Event()
    write = world.table.write

    async def slow(key: bytes, record: WindowState, partition: int) -> None:
        if key == ADA:
            await let_go.wait()
        await write(key, record, partition)

    world.table.write = slow
    for user in ("ada", "ada", "bob"):
        await worker.agent.take(worker.event(world.say(user)))
    await eventually(lambda: world.offsets() == [[2]])
    assert worker.agent.running == 2
    assert worker.acked == []
    let_go.set()
    await worker.work()
    assert world.offsets() == [[2], [0], [1]]
    assert worker.acked == [0, 1, 2]


async def test_an_outage_delays_a_batch_and_loses_nothing() -> None:
    world = World(messages=1)
    worker = world.start()
    world.table.faults.extend([DependencyDown("down")] * 3)
    world.sender.faults.extend([DependencyDown("down")] * 3)
    world.say("ada")
    await worker.read()
    assert world.offsets() == [[0]]
    assert world.table.writes == [(ADA, 0)]
    assert worker.acked == [0]


async def test_a_batch_that_no_broker_takes_has_its_messages_parked() -> None:
    world = World(messages=2)
    worker = world.start()
    world.say("ada", "one")
    world.say("ada", "two")
    world.sender.faults.append(RecordFailed("record_too_large", "9 MB"))
    await worker.read()
    assert world.batches() == []
    assert world.emitted == []
    parked = world.sender.on(TOPICS.dead_letters)
    assert [record.value for record in parked] == [stored.value for stored in world.log[0]]
    assert {DeadLetterReason.from_headers(record.headers).reason for record in parked} == {"record_too_large"}
    assert worker.acked == [0, 1]


async def test_taking_stops_while_too_many_batches_are_unsent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agents.window._MAX_UNSENT", 2)
    world = World(messages=1)
    worker = world.start()
    let_go = asyncio.Event()
    world.table.before = let_go.wait
    events = [worker.event(world.say(f"user {number}")) for number in range(4)]
    reading = asyncio.create_task(worker.agent.consume(stream_of(events)))
    await eventually(lambda: worker.agent.running == 2)
    await settled()
    assert worker.agent.running == 2
    assert not reading.done()
    let_go.set()
    await reading
    await worker.work()
    assert worker.acked == [0, 1, 2, 3]


async def test_a_drain_sends_what_is_closed_and_forgets_what_is_open() -> None:
    world = World(messages=2)
    worker = world.start()
    for user in ("bob", "ada", "ada"):
        world.say(user)
    for stored in world.log[0]:
        await worker.agent.take(worker.event(stored))
    worker.agent.begin_drain()
    await worker.agent.take(worker.event(world.say("eve")))
    assert len(worker.agent.ledger) == 3, "a record that comes during a drain is not taken"
    world.clock.advance(1e6)
    worker.agent.sweep()
    await worker.work()
    assert world.offsets() == [[1, 2]]
    assert worker.acked == []
    await eventually(lambda: len(worker.agent.ledger) == 0)
    assert len(worker.agent.windows) == 0
    world.clock.advance(1e6)
    worker.agent.sweep()
    await worker.work()
    assert world.offsets() == [[1, 2]]


async def test_a_drain_waits_for_every_batch_before_it_forgets() -> None:
    world = World(messages=1)
    worker = world.start()
    for user in ("ada", "bob", "ada"):
        await worker.agent.take(worker.event(world.say(user)))
    worker.agent.begin_drain()
    await worker.work()
    assert sorted(world.offsets()) == [[0], [1], [2]]
    assert worker.acked == [0, 1, 2]


async def test_abandoning_in_the_middle_of_a_batch_acknowledges_nothing() -> None:
    world = World(messages=1)
    worker = world.start()
    worker.kill_at("before the send")
    world.say("ada")
    await worker.read()
    assert worker.agent.running == 1
    worker.agent.abandon()
    await settled()
    assert worker.agent.running == 0
    assert worker.acked == []
    assert len(worker.agent.ledger) == 0


async def test_closing_everything_sends_every_window_and_takes_nothing_more() -> None:
    world = World()
    worker = world.start()
    for user in ("ada", "bob", "ada"):
        world.say(user)
    await worker.read()
    await worker.close_all()
    assert sorted(world.offsets()) == [[0, 2], [1]]
    assert {batch.ref.trigger for batch in world.batches()} == {"shutdown"}
    assert worker.acked == [0, 1, 2]
    await worker.agent.take(worker.event(world.say("ada")))
    assert len(worker.agent.ledger) == 0
    assert worker.acked == [0, 1, 2]


async def test_it_tells_how_far_it_has_read_each_partition() -> None:
    world = World(partitions=4)
    worker = world.start()
    right = partition_for(ADA, 4)
    wrong = (right + 1) % 4
    world.say("ada")
    world.publish(b"rubbish", partition=right)
    world.publish(message("ada"), partition=wrong)
    await worker.read()
    assert worker.agent.read_up_to == {right: 2, wrong: 1}


@pytest.mark.parametrize(
    ("timestamp", "year"), [(1.7e12, 2299), (1e300, 2299), (float("inf"), 2299), (-0.001, 1970), (-1e12, 1970)]
)
async def test_a_timestamp_that_no_calendar_has_is_moved_into_range(timestamp: float, year: int) -> None:
    world = World()
    worker = world.start()
    world.publish(message("ada"), key=ADA, timestamp=timestamp)
    world.say("bob")
    await worker.read()
    await worker.close_all()
    assert world.batches()[0].messages[0].occurred_at.year == year
    assert worker.acked == [0, 1]


async def test_a_message_that_is_sent_again_was_said_when_it_was_written_first() -> None:
    world = World()
    worker = world.start()
    first = [(TIMESTAMP_HEADER, b"1234500")]
    world.publish(message("ada"), key=ADA, headers=first)
    world.publish(message("ada", occurred_at="2026-02-28T10:00:00Z"), key=ADA, headers=first)
    await worker.read()
    await worker.close_all()
    assert [said.occurred_at for said in world.batches()[0].messages] == [
        datetime(1970, 1, 1, 0, 20, 34, 500_000, tzinfo=UTC),
        datetime(2026, 2, 28, 10, 0, tzinfo=UTC),
    ]


async def test_a_record_that_is_too_large_to_be_parked_does_not_stop_the_agent() -> None:
    world = World()
    worker = world.start()
    world.sender.faults.append(RecordFailed("record_too_large", "9 MB"))
    world.publish(b"x" * 100)
    world.say("ada")
    await worker.read()
    await worker.close_all()
    assert len(world.sender.on(TOPICS.dead_letters)) == 1
    assert worker.acked == [0, 1]


@pytest.mark.parametrize("place", ["table", "sender"])
async def test_an_unexpected_error_while_a_batch_is_sent_is_tried_again(
    place: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(messages=1)
    worker = world.start()
    getattr(world, place).faults.append(RuntimeError("surprise"))
    world.say("ada")
    await worker.read()
    assert world.offsets() == [[0]]
    assert worker.acked == [0]
    assert "window: unexpected error" in caplog.text


async def test_a_moved_message_without_an_id_gets_one_from_where_it_was_written_first() -> None:
    world = World()
    worker = world.start()
    world.publish(message("ada"), headers=[(MOVED_HEADER, b"log:3:17")])
    world.publish(message("ada"), headers=[(MOVED_HEADER, b"nonsense")])
    await worker.read()
    assert [held.decoded().message_id for held in worker.agent.windows.close(ADA, "flush")[0].items] == [
        "log:3:17",
        "log:0:1",
    ]


@pytest.mark.parametrize("value", [b"", b"log:3", b"log:x:1", b":3:17", b"\xff:1:2", b"log:-1:2", b"log:3:\xb2"])
async def test_a_header_that_names_no_place_says_nothing(value: bytes) -> None:
    world = World()
    world.publish(message("ada"), headers=[(MOVED_HEADER, value)])
    worker = world.start()
    await worker.read()
    assert worker.agent.windows.items_of(ADA)[0].decoded().message_id == "log:0:0"


async def test_beyond_the_horizon_the_oldest_windows_close() -> None:
    world = World(horizon=4)
    world.say("ada")
    world.say("bob")
    world.say("ada")
    for _ in range(2):
        world.say("eve")
    worker = world.start()
    await worker.read()
    assert world.batches() == []
    world.say("eve")
    await worker.read()
    assert [(batch.ref.user_id, batch.ref.trigger) for batch in world.batches()] == [("ada", "horizon")]
    assert worker.acked == [0]
    world.say("joe")
    await worker.read()
    assert [batch.ref.user_id for batch in world.batches()] == ["ada", "bob"]
    assert worker.acked == [0, 1, 2]


async def test_the_horizon_is_that_of_each_partition() -> None:
    world = World(partitions=4, horizon=3)
    users = {partition_for(user_key("default", name), 4): name for name in ("ada", "bob", "eve", "joe", "sue", "tom")}
    assert len(users) > 1
    quiet, busy = sorted(users)[:2]
    world.say(users[quiet])
    for _ in range(3):
        world.say(users[busy])
    worker = world.start()
    await worker.read()
    assert world.batches() == []


async def test_what_it_cannot_deal_with_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    stored = world.say("ada")
    worker = world.start()
    crashes: list[Exception] = []
    monkeypatch.setattr(worker.source, "crash", crashes.append)
    monkeypatch.setattr(world.table, "read", lambda _key: (_ for _ in ()).throw(DependencyDown("unreadable")))
    await worker.agent.consume(stream_of([worker.event(stored)]))
    assert [str(error) for error in crashes] == ["unreadable"]
    assert worker.acked == []
