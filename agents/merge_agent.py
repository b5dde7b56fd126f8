"""The merge agent: one writer a user, in flush order, by the outbox protocol.

For each flush, once all its branches have answered: the record of the user (profile, applied mark, deltas, event) is
made durable, then the deltas and the event are sent, then the branches' records are acknowledged. A flush that is read
again after it was applied changes nothing; if it was the last one, what it had produced is sent again, unchanged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from agents.cloud_events import delta_headers
from agents.fact_merge import merge_facts
from agents.fact_processor import FactProcessor
from agents.forget import forget_user
from agents.join import Join, Parts
from agents.merge import fail_flush, merge_flush
from agents.nearest import Nearest
from agents.policy import MergePolicy
from agents.processor import Processor
from agents.stage_agent import calls_of, decode_record
from schemas.codec import encode
from schemas.deltas import ProfileDelta
from schemas.flushes import Branch, FlushRef
from schemas.ids import event_id
from schemas.profiles import Profile, ProfileState
from schemas.stages import Candidates
from streams.errors import RecordFailed
from streams.failpoints import fail_point
from streams.ledger import Entry
from streams.metrics import DUPLICATES
from streams.runtime import Runtime
from streams.sender import Outgoing
from streams.tables import RecordTable

logger = logging.getLogger(__name__)


class MergeProcessor(Processor, FactProcessor, Protocol):
    """The judgement behind the merges of both lanes."""


class MergeAgent:
    """Applies flushes to profiles.

    Args:
        runtime: the application.
        processor: decides what code alone cannot.
        policy: what the configuration says about merging.
        profiles: the table; this agent is its only writer.
        nearest: finds known facts by meaning.
        on_deltas: told what is about to be sent.
        on_applied: told the key of a user whose record has changed.
    """

    def __init__(
        self,
        runtime: Runtime,
        processor: MergeProcessor,
        policy: MergePolicy,
        profiles: RecordTable[ProfileState],
        nearest: Nearest,
        on_deltas: Callable[[tuple[ProfileDelta, ...]], None] = lambda _deltas: None,
        on_applied: Callable[[bytes], None] = lambda _key: None,
    ) -> None:
        self._processor = processor
        self._policy = policy
        self._profiles = profiles
        self._nearest = nearest
        self._on_deltas = on_deltas
        self._on_applied = on_applied
        self._topics = runtime.topics
        self._sender = runtime.sender
        self._dead_letters = runtime.dead_letters
        self._now = runtime.now
        self._join = Join()
        self.lanes = runtime.lanes("merge", self._handle, self._give_up, on_forget=self._join.clear)
        runtime.agent("merge", runtime.topics.candidates, self.lanes.consume)

    async def _handle(self, entry: Entry) -> None:
        answer = decode_record(entry, Candidates)
        flush = answer.flush
        key = entry.event.message.key or b""
        state = self._profiles.read(key)
        if state is not None and state.has_applied(flush):
            DUPLICATES.labels("merge").inc()
            if state.event is not None and state.event.event_id == event_id(flush.flush_id, flush.attempt):
                await self._send(key, state)
            self._finish(entry, flush)
            return
        parts = self._join.add(entry, answer)
        if parts is None:
            if self._join.holds(entry, answer):
                self.lanes.hold(entry)
            return
        merged = await self._merge(state or _empty_state(flush), parts.answers)
        await self._commit(entry, key, flush, merged)

    async def _merge(self, state: ProfileState, answers: Mapping[Branch, Candidates]) -> ProfileState:
        if "forget" in answers:
            return forget_user(
                state, answers["forget"], processor=self._processor.name, policy=self._policy, now=self._now()
            )
        if "facts" in answers:
            return await merge_facts(
                state,
                answers["facts"],
                processor=self._processor,
                nearest=self._nearest,
                policy=self._policy,
                now=self._now(),
            )
        return await merge_flush(
            state,
            answers.get("extract"),
            answers.get("tag"),
            answers.get("domain"),
            processor=self._processor,
            policy=self._policy,
            now=self._now(),
        )

    async def _give_up(self, entry: Entry, failure: RecordFailed, attempts: int) -> None:
        try:
            answer = decode_record(entry, Candidates)
        except RecordFailed:
            await self._dead_letters.park(entry.event, "merge", failure, attempts)
            return
        flush = answer.flush
        key = entry.event.message.key or b""
        state = self._profiles.read(key)
        if state is None or not state.has_applied(flush):
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
        flush = parts.flush
        await self._dead_letters.park(parts.entries[flush.branches[0]].event, "merge", failure, attempts)
        failed = fail_flush(
            state,
            parts.answers,
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
        self._on_applied(key)
        await self._send(key, failed)
        self._finish(entry, flush)

    async def _commit(self, entry: Entry, key: bytes, flush: FlushRef, state: ProfileState) -> None:
        await self._profiles.write(key, state, flush.partition)
        fail_point("merge.after_table")
        self._on_applied(key)
        await self._send(key, state)
        fail_point("merge.after_send")
        self._finish(entry, flush)

    async def _send(self, key: bytes, state: ProfileState) -> None:
        if state.event is None:
            return
        self._on_deltas(state.deltas)
        partition = state.event.flush.partition
        deltas = (
            Outgoing(
                topic=self._topics.deltas,
                key=key,
                value=encode(delta),
                partition=partition,
                headers=delta_headers(delta, state.event.flush.log_id),
            )
            for delta in state.deltas
        )
        event = Outgoing(topic=self._topics.events, key=key, value=encode(state.event), partition=partition)
        await self._sender.send(*deltas, event)

    def _finish(self, entry: Entry, flush: FlushRef) -> None:
        """Let the records of a flush that has ended be acknowledged; this handler's own follows when it returns."""
        for waiting in self._join.take(flush):
            if waiting is not entry:
                self.lanes.release(waiting)


def _empty_state(flush: FlushRef) -> ProfileState:
    return ProfileState(profile=Profile(tenant_id=flush.tenant_id, user_id=flush.user_id))
