"""The assembly: all agents on their applications, with the stores and the processor that the settings name.

Three Faust applications run in one process, each with a consumer group of its own: the pipeline, the archive and the
vector index. A store that is slow or down holds up its own application and no other.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from agents import archive, extract, index, summary, tag
from agents.merge_agent import MergeAgent
from agents.policy import MergePolicy
from agents.processor import Processor
from agents.rules.slots import allowed_slots
from agents.slots import slot_definitions, written_out
from agents.window import WindowAgent
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.pipeline import PipelineConfig
from schemas.profiles import ProfileState, unify
from schemas.windows import WindowState
from sinks.clickhouse import ClickHouseArchive
from sinks.errors import SinkRejected, SinkUnavailable
from sinks.vectors import VectorIndex
from streams.errors import DependencyDown
from streams.kafka import cluster_id
from streams.outstanding import Outstanding
from streams.runtime import Runtime
from streams.settings import Settings
from streams.tables import RecordTable, durable_table
from streams.tokens import count_tokens
from streams.topics import ensure_topics
from streams.windows import WindowPolicy

logger = logging.getLogger(__name__)

_SWEEP_SECONDS: Final = 0.2
_FETCH_SECONDS: Final = 1.0
"""A fetch that finds nothing is answered after half of this."""


def pipeline_version(config: PipelineConfig, processor: Processor) -> str:
    """Return the hash that deltas carry: it changes with the configuration, the prompts and the model."""
    parts = f"{written_out(config).content_hash()}\n{processor.name}\n{processor.version}"
    return hashlib.sha256(parts.encode()).hexdigest()[:12]


class ArchiveSink:
    """The archive as its agents want it: every failure is one to be tried again.

    Rows are records that were validated when they were decoded. If ClickHouse refuses them, what is wrong is the
    database (a missing table, a changed password), not the rows: they wait until somebody has mended it.
    """

    def __init__(self, store: ClickHouseArchive) -> None:
        self._store = store

    async def write_deltas(self, rows: Sequence[ProfileDelta]) -> None:
        """Write deltas."""
        await _retriable(lambda: self._store.write_deltas(rows))

    async def write_events(self, rows: Sequence[FlushEvent]) -> None:
        """Write events."""
        await _retriable(lambda: self._store.write_events(rows))


class IndexSink:
    """The vector index as its agent wants it."""

    def __init__(self, store: VectorIndex) -> None:
        self._store = store

    async def apply(self, deltas: Sequence[ProfileDelta]) -> None:
        """Bring points up to date."""
        await _retriable(lambda: self._store.apply(deltas))


async def _retriable(write: Callable[[], Awaitable[Any]]) -> None:
    try:
        await write()
    except SinkUnavailable as error:
        raise DependencyDown(str(error), error.retry_after) from error
    except SinkRejected as error:
        raise DependencyDown(str(error)) from error


class Worker:
    """The whole program in one process; `create` builds it.

    Args:
        settings: of the process.
        config: what a profile may hold.
        processor: judgement of the stages.
        store: the archive, opened.
        vectors: the vector index, opened.
        log_id: name of the message log.
        partitions: number of partitions of every topic.
        track: keep count of what has not reached the stores, for `drain`.

    Attributes:
        failed_flushes: flushes whose end as failed has been archived by this process.
    """

    def __init__(
        self,
        settings: Settings,
        config: PipelineConfig,
        processor: Processor,
        store: ClickHouseArchive,
        vectors: VectorIndex,
        *,
        log_id: str,
        partitions: int,
        track: bool = False,
    ) -> None:
        group = settings.kafka.group_id
        self.outstanding = Outstanding() if track else None
        self.failed_flushes = 0
        self._pipeline = Runtime(settings, group, partitions)
        self._archive = Runtime(settings, f"{group}-archive", partitions)
        self._index = Runtime(settings, f"{group}-index", partitions)
        windows = RecordTable(durable_table(self._pipeline.app, "windows", partitions), WindowState)
        profiles = RecordTable(durable_table(self._pipeline.app, "profiles", partitions), ProfileState)
        self.window = self._window_agent(settings, config, windows, log_id, partitions)
        definitions = slot_definitions(config)
        summary.register(self._pipeline, processor, profiles, config.max_chat_blob_buffer_process_token_size)
        filled = allowed_slots(config) if processor.name == "rules" else frozenset()
        allowed = frozenset(definitions) | filled if config.profile_strict_mode else None
        extract.register(self._pipeline, processor, profiles, allowed)
        tag.register(self._pipeline, processor, profiles, {unify(tag.name) for tag in config.event_tags})
        policy = MergePolicy(
            pipeline_version=pipeline_version(config, processor),
            validate_all=config.profile_validate_mode,
            validate_slots=frozenset(name for name, slot in definitions.items() if slot.validate_value),
            update_descriptions={name: slot.update_description for name, slot in definitions.items()},
            allowed=allowed,
            max_sub_topics=config.max_profile_subtopics,
            max_slot_tokens=config.max_pre_profile_token_size,
        )
        MergeAgent(self._pipeline, processor, policy, profiles, self._sent)
        archive.register(self._archive, ArchiveSink(store), on_deltas=self._archived, on_events=self._ended)
        index.register(self._index, IndexSink(vectors), on_deltas=self._indexed)

    @classmethod
    async def create(
        cls,
        settings: Settings,
        config: PipelineConfig,
        processor: Processor,
        store: ClickHouseArchive,
        vectors: VectorIndex,
        *,
        track: bool = False,
    ) -> Worker:
        """Build a worker for the broker of the settings, having created the topics that are missing.

        Raises:
            KafkaUnavailable: when the broker does not answer.
            TopicsError: when its topics are not as they must be.
        """
        partitions = await ensure_topics(settings.kafka)
        await asyncio.to_thread(count_tokens, "")  # loads the ranks, which takes a while
        log_id = settings.kafka.log_id or await cluster_id(settings.kafka)
        return cls(settings, config, processor, store, vectors, log_id=log_id, partitions=partitions, track=track)

    def _window_agent(
        self,
        settings: Settings,
        config: PipelineConfig,
        table: RecordTable[WindowState],
        log_id: str,
        partitions: int,
    ) -> WindowAgent:
        runtime = self._pipeline
        limits = settings.window
        window = WindowAgent(
            source=runtime.source,
            sender=runtime.sender,
            dead_letters=runtime.dead_letters,
            table=table,
            policy=WindowPolicy(
                tokens=min(limits.tokens, config.max_chat_blob_buffer_process_token_size),
                messages=limits.messages,
                idle=limits.idle,
                age=limits.age,
                by_session=limits.by_session,
            ),
            log_id=log_id,
            partitions=partitions,
            messages=runtime.topics.messages,
            flushes=runtime.topics.flushes,
            backoff=runtime.backoff,
            now=runtime.now,
            on_emit=self._emitted,
            suspicious_pause=settings.kafka.session_timeout / 2,
        )
        runtime.lifecycle.register(window)
        runtime.agent("window", runtime.topics.messages, window.consume)

        async def sweep(*_args: Any) -> None:
            window.sweep()

        runtime.app.timer(_SWEEP_SECONDS)(sweep)
        return window

    def _emitted(self, flush_id: str) -> None:
        if self.outstanding is not None:
            self.outstanding.add([f"flush {flush_id}"])

    def _sent(self, deltas: Sequence[ProfileDelta]) -> None:
        if self.outstanding is not None:
            self.outstanding.add(f"{store} {delta.delta_id}" for delta in deltas for store in ("archive", "index"))

    def _archived(self, deltas: Sequence[ProfileDelta]) -> None:
        if self.outstanding is not None:
            self.outstanding.remove(f"archive {delta.delta_id}" for delta in deltas)

    def _indexed(self, deltas: Sequence[ProfileDelta]) -> None:
        if self.outstanding is not None:
            self.outstanding.remove(f"index {delta.delta_id}" for delta in deltas)

    def _ended(self, events: Sequence[FlushEvent]) -> None:
        self.failed_flushes += sum(event.outcome == "failed" for event in events)
        if self.outstanding is not None:
            self.outstanding.remove(f"flush {event.flush.flush_id}" for event in events)

    async def start(self) -> None:
        """Join the consumer groups, recover the tables and begin to process."""
        await asyncio.gather(*(self._start(runtime) for runtime in self._runtimes))

    @staticmethod
    async def _start(runtime: Runtime) -> None:
        runtime.app.finalize()
        await runtime.app.start()

    @property
    def _runtimes(self) -> tuple[Runtime, Runtime, Runtime]:
        return self._pipeline, self._archive, self._index

    async def crashed(self) -> BaseException:
        """Wait until one of the applications fails beyond repair, and return why."""
        waits = [asyncio.create_task(runtime.app.wait_until_stopped()) for runtime in self._runtimes]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        reasons = (runtime.app.crash_reason for runtime in self._runtimes)
        return next((reason for reason in reasons if reason is not None), RuntimeError("an application stopped"))

    async def drain(self, seconds: float) -> bool:
        """Close all windows and wait until everything that comes of them is in the stores.

        Returns whether that was reached in time. Only for a worker that tracks.
        """
        if self.outstanding is None:
            raise RuntimeError("this worker does not track what is outstanding")
        try:
            async with asyncio.timeout(seconds):
                await self._read_to_end()
                self.window.close_all()
                while self.window.running:
                    await asyncio.sleep(0.02)
                await self.outstanding.wait_empty()
        except TimeoutError:
            logger.warning("%d records have not reached the stores after %.0f s", len(self.outstanding), seconds)
            return False
        return True

    async def _read_to_end(self) -> None:
        """Wait until every message that is on the chat topic now has been taken."""
        await asyncio.sleep(_FETCH_SECONDS)  # after which every partition's end is known as of this call
        consumer, topic = self._pipeline.app.consumer, self._pipeline.topics.messages
        for place in consumer.assignment():
            if place.topic == topic:
                end = consumer.highwater(place) or 0
                while self.window.read_up_to.get(place.partition, 0) < end:
                    await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Finish what is running within the drain limit, commit, and leave the groups."""
        await asyncio.gather(*(runtime.app.stop() for runtime in self._runtimes))
