"""`Intake`: when a record may be taken, and when it no longer may."""

from __future__ import annotations

import asyncio

from streams.intake import Intake
from streams.ledger import Ledger, OutOfOrder
from tests.support.fakes import FakeSource, settled


def opened(source: FakeSource, capacity: int = 2) -> Intake:
    intake = Intake(source, Ledger(), capacity)
    intake.resume()
    return intake


async def test_nothing_is_taken_before_it_is_opened() -> None:
    source = FakeSource()
    intake = Intake(source, Ledger(), 2)
    assert intake.draining
    assert not await intake.admit(source.event(0))
    intake.resume()
    assert await intake.admit(source.event(0))
    assert not intake.draining


async def test_a_full_intake_waits_for_room() -> None:
    source = FakeSource()
    intake = opened(source, capacity=2)
    intake.load(1)
    assert await intake.admit(source.event(0))
    intake.load(2)
    waiting = asyncio.create_task(intake.admit(source.event(1)))
    await settled()
    assert not waiting.done()
    intake.load(1)
    assert await waiting


async def test_a_record_of_an_ended_assignment_is_not_taken() -> None:
    source = FakeSource()
    intake = opened(source)
    event = source.event(0)
    source.generation += 1
    assert not await intake.admit(event)


async def test_a_record_that_comes_during_a_drain_is_sent_away_at_once() -> None:
    # Faust waits for the end of the drain before it goes on with a rebalance: waiting for the end of the rebalance here
    # would be waiting for each other.
    source = FakeSource()
    intake = opened(source)
    intake.close()
    assert not await intake.admit(source.event(0))


async def test_a_record_that_waits_for_room_is_sent_away_when_a_drain_begins() -> None:
    source = FakeSource()
    intake = opened(source, capacity=1)
    intake.load(1)
    waiting = asyncio.create_task(intake.admit(source.event(0)))
    await settled()
    assert not waiting.done()
    intake.close()
    assert not await waiting


async def test_what_was_full_before_a_drain_is_full_after_it() -> None:
    source = FakeSource()
    intake = opened(source, capacity=1)
    intake.load(1)
    intake.close()
    intake.resume()
    waiting = asyncio.create_task(intake.admit(source.event(0)))
    await settled()
    assert not waiting.done()
    intake.load(0)
    assert await waiting


async def test_records_do_not_flow_while_the_flow_is_off() -> None:
    source = FakeSource()
    source.flowing = False
    assert not await opened(source).admit(source.event(4))


async def test_a_record_that_is_delivered_again_is_taken_once() -> None:
    source = FakeSource()
    ledger = Ledger()
    intake = Intake(source, ledger, 10)
    intake.resume()
    for offset in (4, 5, 6):
        event = source.event(offset)
        assert await intake.admit(event)
        ledger.close(ledger.open(event))
    assert [await intake.admit(source.event(offset)) for offset in (4, 5, 6, 7)] == [False, False, False, True]
    assert source.acked == {0: [4, 5, 6]}
    assert await intake.admit(source.event(4, partition=1)), "other partitions are counted apart"


async def test_after_everything_was_forgotten_the_same_records_are_taken_again() -> None:
    source = FakeSource()
    ledger = Ledger()
    intake = Intake(source, ledger, 10)
    intake.resume()
    ledger.open(source.event(4))
    ledger.abandon()
    assert await intake.admit(source.event(4))


async def test_a_record_from_before_all_that_was_taken_ends_the_application() -> None:
    source = FakeSource()
    ledger = Ledger()
    intake = Intake(source, ledger, 10)
    intake.resume()
    ledger.open(source.event(4))
    assert not await intake.admit(source.event(3))
    assert isinstance(source.crashes[0], OutOfOrder)
    assert "@3" in str(source.crashes[0])
    assert source.acked == {}


async def test_a_gap_in_a_topic_of_ours_ends_the_application() -> None:
    source = FakeSource()
    ledger = Ledger(contiguous=True)
    intake = Intake(source, ledger, 10)
    intake.resume()
    for offset in (4, 5):
        ledger.open(source.event(offset))
    assert await intake.admit(source.event(6))
    assert not await intake.admit(source.event(7))
    assert "@7 was delivered straight after 5" in str(source.crashes[0])
