"""`StageAgent`: the Faust side of a stage that answers each record with exactly one other.

Decode, run the stage in the user's lane, produce, acknowledge. A record that cannot be processed is parked in the
dead letters, and its successors still get their answer, marked as failed, so that every flush ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from agents.processor import SlotName
from schemas.codec import InvalidRecord, decode, encode
from schemas.flushes import FlushRef
from schemas.profiles import ProfileState
from schemas.stages import ModelCall, StageName
from streams.errors import RecordFailed
from streams.ledger import Entry
from streams.runtime import Runtime
from streams.sender import Outgoing
from streams.tables import RecordTable

Input = TypeVar("Input")
Output = TypeVar("Output")

Run = Callable[[Input, Sequence[SlotName]], Awaitable[Output]]
"""The stage: a record and the slots that its user has now, to the answer."""


class StageAgent(Generic[Input, Output]):
    """Runs one stage.

    Args:
        runtime: the application.
        stage: the stage's name.
        source: topic that is read.
        target: topic of the answers.
        record_type: type of the records that are read.
        flush: the heading of such a record.
        run: the stage.
        fail: the answer when the stage has failed.
        profiles: profiles of the users of the assigned partitions, for reading.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        stage: StageName,
        source: str,
        target: str,
        record_type: type[Input],
        flush: Callable[[Input], FlushRef],
        run: Run[Input, Output],
        fail: Callable[[Input, RecordFailed], Output],
        profiles: RecordTable[ProfileState],
    ) -> None:
        self._stage: StageName = stage
        self._target = target
        self._record_type = record_type
        self._flush = flush
        self._run = run
        self._fail = fail
        self._profiles = profiles
        self._sender = runtime.sender
        self._dead_letters = runtime.dead_letters
        self.lanes = runtime.lanes(stage, self._handle, self._give_up)
        runtime.agent(stage, source, self.lanes.consume)

    async def _handle(self, entry: Entry) -> None:
        record = decode_record(entry, self._record_type)
        key = entry.event.message.key or b""
        state = self._profiles.read(key)
        if state is not None and is_applied(state, self._flush(record)):
            # Read again after its flush had ended: whatever comes after it would only be ignored.
            return
        known = [slot.key for slot in state.profile.slots] if state is not None else []
        await self._answer(entry, await self._run(record, known))

    async def _give_up(self, entry: Entry, failure: RecordFailed, attempts: int) -> None:
        await self._dead_letters.park(entry.event, self._stage, failure, attempts)
        try:
            record = decode_record(entry, self._record_type)
        except RecordFailed:
            return
        await self._answer(entry, self._fail(record, failure))

    async def _answer(self, entry: Entry, answer: Output) -> None:
        message = entry.event.message
        await self._sender.send(
            Outgoing(topic=self._target, key=message.key, value=encode(answer), partition=message.partition)
        )


def decode_record(entry: Entry, record_type: type[Input]) -> Input:
    """Decode a record that another stage wrote.

    Raises:
        RecordFailed: when it is not such a record.
    """
    try:
        return decode(entry.event.message.value, record_type)
    except InvalidRecord as error:
        raise RecordFailed("invalid_record", str(error)) from error


def is_applied(state: ProfileState, flush: FlushRef) -> bool:
    """Whether a flush has already been applied to the profile."""
    mark = state.applied.get(flush.lane)
    return mark is not None and mark.covers(flush)


def calls_of(failure: RecordFailed) -> tuple[ModelCall, ...]:
    """Return the model calls that were made before a stage failed."""
    calls: tuple[ModelCall, ...] = getattr(failure, "calls", ())
    return calls
