"""`StageAgent`: the Faust side of a stage that answers each record with exactly one other.

Decode, run the stage in the user's lane, produce, acknowledge. A record that cannot be processed is parked in the
dead letters, and its successors still get their answer, marked as failed, so that every flush ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from agents.processor import SlotName
from schemas.codec import InvalidRecord, decode, encode
from schemas.flushes import BRANCHES, BatchHeading, Branch, FlushRef, Lane
from schemas.profiles import Profile, ProfileState
from schemas.stages import ModelCall, StageName
from streams.errors import RecordFailed
from streams.ledger import Entry
from streams.records import Event
from streams.runtime import Runtime
from streams.sender import Outgoing
from streams.tables import RecordTable

Input = TypeVar("Input")
Output = TypeVar("Output")

Run = Callable[[Input, Profile | None], Awaitable[Output]]
"""The stage: a record and what is known of its user now, to the answer."""

Wait = Callable[[bytes, Input], Awaitable[None]]
"""Returns when a record of a user may be read."""


class PartlyFailed(Exception):
    """A stage has an answer, although a part of its work has failed: the record is parked for that part.

    Attributes:
        answer: what the other parts make.
        failures: what failed, under the name that a redrive knows it by.
    """

    def __init__(self, answer: Any, failures: Sequence[tuple[StageName, RecordFailed]]) -> None:
        super().__init__("; ".join(str(failure) for _, failure in failures))
        self.answer = answer
        self.failures = tuple(failures)


class StageAgent(Generic[Input, Output]):
    """Runs one stage.

    Args:
        runtime: the application.
        stage: the stage's name.
        lane: whose records it answers; those of others are another stage's.
        source: topic that is read.
        target: topic of the answers.
        record_type: type of the records that are read.
        flush: the heading of such a record.
        run: the stage.
        fail: the answer when the stage has failed.
        profiles: profiles of the users of the assigned partitions, for reading.
        branches: the branches that this stage answers for: of a flush that was sent again, only some may be wanted.
        wait: waits until a record of a user may be read; without it each may at once.
        parks_unreadable: park records that cannot be read; of the stages that read a topic, one does.
        heading: gives the heading of a record without reading the rest, where most records are another stage's. What is
            broken behind its heading is parked by the stage that its first branch leads to.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        stage: StageName,
        lane: Lane,
        source: str,
        target: str,
        record_type: type[Input],
        flush: Callable[[Input], FlushRef],
        run: Run[Input, Output],
        fail: Callable[[Input, RecordFailed], Output],
        profiles: RecordTable[ProfileState],
        branches: tuple[Branch, ...],
        wait: Wait[Input] | None = None,
        parks_unreadable: bool = True,
        heading: Callable[[bytes | None], FlushRef] | None = None,
    ) -> None:
        self._stage: StageName = stage
        self._lane: Lane = lane
        self._branches = frozenset(branches)
        self._parks_unreadable = parks_unreadable
        self._target = target
        self._record_type = record_type
        self._flush = flush
        self._run = run
        self._fail = fail
        self._profiles = profiles
        self._sender = runtime.sender
        self._dead_letters = runtime.dead_letters
        self._heading = heading
        ready = None if wait is None else partial(self._until_ready, wait)
        concerns = None if heading is None else self._concerns
        self.lanes = runtime.lanes(stage, self._handle, self._give_up, ready=ready, concerns=concerns)
        runtime.agent(stage, source, self.lanes.consume)

    def _heading_of(self, event: Event) -> FlushRef | None:
        if self._heading is None:
            return None
        try:
            return self._heading(event.message.value)
        except InvalidRecord:
            return None

    def _concerns(self, event: Event) -> bool:
        flush = self._heading_of(event)
        return self._parks_unreadable if flush is None else self._asks(flush)

    def _is_left_with(self, unreadable: Event) -> bool:
        """Whether it is this stage that parks a record that cannot be read."""
        flush = self._heading_of(unreadable)
        return self._parks_unreadable if flush is None else flush.branches[0] in self._branches

    async def _until_ready(self, wait: Wait[Input], entry: Entry) -> None:
        try:
            record = decode_record(entry, self._record_type)
        except RecordFailed:
            return  # for the handler to say
        key = entry.event.message.key or b""
        if self._wants(record, self._profiles.read(key)):
            await wait(key, record)

    async def _handle(self, entry: Entry) -> None:
        record = decode_record(entry, self._record_type)
        state = self._profiles.read(entry.event.message.key or b"")
        if self._wants(record, state):
            await self._answer(entry, await self._answered(entry, record, state.profile if state is not None else None))

    async def _answered(self, entry: Entry, record: Input, profile: Profile | None) -> Output:
        try:
            return await self._run(record, profile)
        except PartlyFailed as partly:
            if self._wants(record, self._profiles.read(entry.event.message.key or b"")):
                for stage, failure in partly.failures:
                    await self._dead_letters.park(entry.event, stage, failure)
            answer: Output = partly.answer
            return answer

    def _wants(self, record: Input, state: ProfileState | None) -> bool:
        """Whether a record is this stage's, and an answer to it would be of use."""
        flush = self._flush(record)
        # Read again after its flush had ended: whatever comes after it would only be ignored.
        return self._asks(flush) and (state is None or not state.has_applied(flush))

    def _asks(self, flush: FlushRef) -> bool:
        """Whether a flush asks this stage for an answer."""
        return flush.lane == self._lane and not (flush.only and self._branches.isdisjoint(flush.only))

    async def _give_up(self, entry: Entry, failure: RecordFailed, attempts: int) -> None:
        try:
            record = decode_record(entry, self._record_type)
        except RecordFailed:
            if self._is_left_with(entry.event):
                await self._dead_letters.park(entry.event, self._stage, failure, attempts)
            return
        if not self._wants(record, self._profiles.read(entry.event.message.key or b"")):
            return  # its user was forgotten meanwhile, or its flush has ended: nothing of it is to be kept
        await self._dead_letters.park(entry.event, self._stage, failure, attempts)
        await self._answer(entry, self._fail(record, failure))

    async def _answer(self, entry: Entry, answer: Output) -> None:
        message = entry.event.message
        await self._sender.send(
            Outgoing(topic=self._target, key=message.key, value=encode(answer), partition=message.partition)
        )


def batch_heading(value: bytes | None) -> FlushRef:
    """Return the heading of a `FlushBatch`.

    Raises:
        InvalidRecord: when it has none that a batch can have.
    """
    ref = decode(value, BatchHeading).ref
    if ref.lane == "forget" or not set(ref.branches) <= set(BRANCHES[ref.lane]):
        raise InvalidRecord(f"no stage reads a batch of lane {ref.lane} for {', '.join(ref.branches)}")
    return ref


def decode_record(entry: Entry, record_type: type[Input]) -> Input:
    """Decode a record that another stage wrote.

    A record is read once, however often its stage comes back to it.

    Raises:
        RecordFailed: when it is not such a record.
    """
    if isinstance(entry.decoded, record_type):
        return entry.decoded
    try:
        decoded = decode(entry.event.message.value, record_type)
    except InvalidRecord as error:
        raise RecordFailed("invalid_record", str(error)) from error
    entry.decoded = decoded
    return decoded


def known_slots(profile: Profile | None) -> list[SlotName]:
    """Return the names of the slots that a user has."""
    return [slot.key for slot in profile.slots] if profile is not None else []


def calls_of(failure: RecordFailed) -> tuple[ModelCall, ...]:
    """Return the model calls that were made before a stage failed."""
    calls: tuple[ModelCall, ...] = getattr(failure, "calls", ())
    return calls
