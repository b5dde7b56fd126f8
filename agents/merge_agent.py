"""The merge agent: one writer a user, in flush order, by the outbox protocol.

For each flush, once all its branches have answered: the record of the user (profile, applied mark, deltas, event) is
made durable, then the deltas and the event are sent, then the branches' records are acknowledged. A flush that is read
again after it was applied changes nothing; if it was the last one, what it had produced is sent again, unchanged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from agents.join import Join, Parts
from agents.merge import fail_flush, merge_flush
from agents.policy import MergePolicy
from agents.processor import Processor
from agents.stage_agent import calls_of, decode_record, is_applied
from schemas.codec import encode
from schemas.deltas import ProfileDelta
from schemas.flushes import FlushRef
from schemas.profiles import Profile, ProfileState
from schemas.stages import Candidates
from streams.errors import RecordFailed
from streams.ledger import Entry
from streams.runtime import Runtime
from streams.sender import Outgoing
from streams.tables import RecordTable

logger = logging.getLogger(__name__)


class MergeAgent:
    """Applies flushes to profiles.

    Args:
        runtime: the application.
        processor: decides what code alone cannot.
        policy: what the configuration says about merging.
        profiles: the table; this agent is its only writer.
        on_deltas: told what is about to be sent.
    """

    def __init__(
        self,
        runtime: Runtime,
        processor: Processor,
        policy: MergePolicy,
        profiles: RecordTable[ProfileState],
        on_deltas: Callable[[tuple[ProfileDelta, ...]], None] = lambda _deltas: None,
    ) -> None:
        self._processor = processor
        self._policy = policy
        self._profiles = profiles
        self._on_deltas = on_deltas
        self._topics = runtime.topics
        self._sender = runtime.sender
        self._dead_letters = runtime.dead_letters
        self._now = runtime.now
        self._join = Join()
        self.lanes = runtime.lanes("merge", self._handle, self._give_up, self._join.clear)
        runtime.agent("merge", runtime.topics.candidates, self.lanes.consume)

    async def _handle(self, entry: Entry) -> None:
        answer = decode_record(entry, Candidates)
        flush = answer.flush
        key = entry.event.message.key or b""
        state = self._profiles.read(key)
        if state is not None and is_applied(state, flush):
            if state.event is not None and state.event.flush.flush_id == flush.flush_id:
                await self._send(key, state)
            self._finish(entry, flush)
            return
        parts = self._join.add(entry, answer)
        if parts is None:
            if self._join.holds(entry, answer):
                self.lanes.hold(entry)
            return
        merged = await merge_flush(
            state or _empty_state(flush),
            parts.answers["extract"],
            parts.answers["tag"],
            processor=self._processor,
            policy=self._policy,
            now=self._now(),
        )
        await self._commit(entry, key, flush, merged)

    async def _give_up(self, entry: Entry, failure: RecordFailed, attempts: int) -> None:
        try:
            answer = decode_record(entry, Candidates)
        except RecordFailed:
            await self._dead_letters.park(entry.event, "merge", failure, attempts)
            return
        flush = answer.flush
        key = entry.event.message.key or b""
        state = self._profiles.read(key)
        if state is None or not is_applied(state, flush):
            parts = self._join.add(entry, answer)
            await self._fail(entry, key, parts, state or _empty_state(flush), failure, attempts)
            return
        await self._send(key, state)
        self._finish(entry, flush)

    async def _fail(
        self,
        entry: Entry,
        key: bytes,
        parts: Parts | None,
        state: ProfileState,
        failure: RecordFailed,
        attempts: int,
    ) -> None:
        """End a flush as failed; what was to be merged is parked."""
        if parts is None:
            self.lanes.hold(entry)
            return
        await self._dead_letters.park(parts.entries["extract"].event, "merge", failure, attempts)
        flush = parts.answers["extract"].flush
        failed = fail_flush(
            state,
            parts.answers["extract"],
            parts.answers["tag"],
            error=str(failure),
            calls=calls_of(failure),
            processor=self._processor.name,
            policy=self._policy,
            now=self._now(),
        )
        try:
            await self._profiles.write(key, failed, flush.partition)
        except RecordFailed:
            # Not even the unchanged profile fits into a record with this event: it stays as it was stored last.
            logger.error("the profile of %s:%s cannot be stored", flush.tenant_id, flush.user_id)
        await self._send(key, failed)
        self._finish(entry, flush)

    async def _commit(self, entry: Entry, key: bytes, flush: FlushRef, state: ProfileState) -> None:
        await self._profiles.write(key, state, flush.partition)
        await self._send(key, state)
        self._finish(entry, flush)

    async def _send(self, key: bytes, state: ProfileState) -> None:
        if state.event is None:
            return
        self._on_deltas(state.deltas)
        partition = state.event.flush.partition
        deltas = (
            Outgoing(topic=self._topics.deltas, key=key, value=encode(delta), partition=partition)
            for delta in state.deltas
        )
        event = Outgoing(topic=self._topics.events, key=key, value=encode(state.event), partition=partition)
        await self._sender.send(*deltas, event)

    def _finish(self, entry: Entry, flush: FlushRef) -> None:
        """Let the records of a flush that has ended be acknowledged; this handler's own follows when it returns."""
        for waiting in self._join.take(flush.flush_id):
            if waiting is not entry:
                self.lanes.release(waiting)


def _empty_state(flush: FlushRef) -> ProfileState:
    return ProfileState(profile=Profile(tenant_id=flush.tenant_id, user_id=flush.user_id))
