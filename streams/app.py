"""The assembly: all agents on their applications, with the stores and the processor that the settings name.

Three Faust applications run in one process, each with a consumer group of its own: the pipeline, the archive and the
vector index. A store that is slow or down holds up its own application and no other.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, TypeVar

from agents import archive, domain, extract, facts, index, summary, tag
from agents.in_turn import InTurn
from agents.merge_agent import MergeAgent
from agents.nearest import Embed, Nearest
from agents.policy import MergePolicy
from agents.processor import PipelineProcessor
from agents.rules.slots import allowed_slots
from agents.signals import SignalDetector
from agents.slots import slot_definitions, written_out
from agents.window import WindowAgent
from schemas.dead_letters import ArchivedDecision, ArchivedLetter
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.flushes import FlushRef
from schemas.messages import user_key
from schemas.pipeline import PipelineConfig
from schemas.places import Place
from schemas.profiles import ProfileState, unify
from schemas.windows import WindowState
from sinks.clickhouse import ClickHouseArchive
from sinks.errors import SinkRejected, SinkUnavailable
from sinks.vectors import VectorIndex
from streams.dead_letter_purge import purge
from streams.draining import Drain, Drained
from streams.errors import DependencyDown
from streams.failpoints import fail_point
from streams.gauges import WorkerCollector
from streams.kafka import KafkaUnavailable, cluster_id
from streams.lanes import KeyedLanes
from streams.metrics import deltas_archived, deltas_indexed, deltas_sent, flush_sent, flushes_ended
from streams.outstanding import OpenFlushes, Outstanding
from streams.runtime import Runtime
from streams.settings import KafkaSettings, Settings
from streams.tables import RecordTable, durable_table
from streams.tokens import count_tokens
from streams.topics import ensure_topics
from streams.wakefulness import Wakefulness
from streams.windows import WindowPolicy

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

_SWEEP_SECONDS: Final = 0.2
_SINK_FETCH_SECONDS: Final = 0.1
"""The stores get batches, which wait longer than that to fill."""

_FETCH_SECONDS: Final = 1.0
"""A fetch that finds nothing is answered after half of this."""


def pipeline_version(config: PipelineConfig, processor: PipelineProcessor) -> str:
    """Return the hash that deltas carry: it changes with the configuration, the prompts and the model."""
    parts = f"{written_out(config).content_hash()}\n{processor.name}\n{processor.version}"
    return hashlib.sha256(parts.encode()).hexdigest()[:12]


class ArchiveSink:
    """The archive as its agents want it: every failure is one to be tried again.

    Rows are records that were validated when they were decoded. If ClickHouse refuses them, what is wrong is the
    database (a missing table, a changed password), not the rows: they wait until somebody has mended it.

    Args:
        store: the archive, opened.
        kafka: where the dead letters are.
        guard: raises when this process may not write any more.
    """

    def __init__(
        self, store: ClickHouseArchive, kafka: KafkaSettings, guard: Callable[[], None] = lambda: None
    ) -> None:
        self._store = store
        self._kafka = kafka
        self._guard = guard

    async def write_deltas(self, rows: Sequence[ProfileDelta], places: Sequence[Place]) -> None:
        """Write deltas."""
        await self._write(lambda: self._store.write_deltas(rows, places))
        fail_point("archive.mid_insert")

    async def write_events(self, rows: Sequence[FlushEvent], places: Sequence[Place]) -> None:
        """Write events; a user who is forgotten loses their dead letters as well."""
        await self._write(lambda: self._store.write_events(rows, places))
        fail_point("archive.mid_insert")
        for event in rows:
            if event.outcome == "forgotten":
                await self._purge(event.flush)

    async def write_letters(self, rows: Sequence[ArchivedLetter]) -> None:
        """Write dead letters; those of users who are forgotten go: they may lie on the topic since.

        They do when something of the user failed only then, or when a purge for somebody else was cut short.
        """
        for event in await self._write(lambda: self._store.write_letters(rows)):
            await self._purge(event.flush)

    async def write_decisions(self, rows: Sequence[ArchivedDecision]) -> None:
        """Write what was decided about them."""
        await self._write(lambda: self._store.write_decisions(rows))

    async def _purge(self, ref: FlushRef) -> None:
        async def removing(ids: Collection[str]) -> None:
            await self._write(lambda: self._store.remove_letters(ref.tenant_id, ref.user_id, ids))

        self._guard()
        try:
            await purge(self._kafka, user_key(ref.tenant_id, ref.user_id), ref, removing)
        except KafkaUnavailable as error:
            raise DependencyDown(str(error)) from error

    async def _write(self, write: Callable[[], Awaitable[Result]]) -> Result:
        self._guard()
        return await _retriable(write)


class IndexSink:
    """The vector index as its agent wants it."""

    def __init__(self, store: VectorIndex) -> None:
        self._store = store

    async def apply(self, deltas: Sequence[ProfileDelta]) -> None:
        """Bring points up to date."""
        await _retriable(lambda: self._store.apply(deltas))
        fail_point("index.mid_upsert")

    async def apply_events(self, events: Sequence[FlushEvent]) -> None:
        """Write gists."""
        await _retriable(lambda: self._store.apply_events(events))


def _embed(vectors: VectorIndex) -> Embed:
    """Return what embeds statements for the merge: the embedder of the index, which remembers what it embedded."""

    async def embed(texts: Sequence[str]) -> Sequence[Sequence[float]]:
        try:
            return await vectors.embedder.embed_passages(texts)
        except (SinkUnavailable, SinkRejected) as error:
            raise DependencyDown(str(error)) from error

    return embed


async def _retriable(write: Callable[[], Awaitable[Result]]) -> Result:
    try:
        return await write()
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
        metrics_address: where its metrics are served, if they are.
    """

    def __init__(
        self,
        settings: Settings,
        config: PipelineConfig,
        processor: PipelineProcessor,
        store: ClickHouseArchive,
        vectors: VectorIndex,
        *,
        log_id: str,
        partitions: int,
        track: bool = False,
    ) -> None:
        group = settings.kafka.group_id
        self.outstanding = Outstanding() if track else None
        stores = ("archive", "index")
        self._open_flushes = {
            store: OpenFlushes(store, self.outstanding) for store in stores if self.outstanding is not None
        }
        self.failed_flushes = 0
        self._processor = processor
        self.metrics_address: str | None = None
        # The log of the embedded broker has one reader, which loses nothing by sleeping.
        limit = math.inf if track else settings.kafka.session_timeout
        self._wakefulness = Wakefulness(limit, self._suspended)
        self._beating: asyncio.Task[None] | None = None
        guard = self._wakefulness.check
        vectors.guard = guard
        self._pipeline = Runtime(settings, group, partitions, guard)
        self._archive = Runtime(settings, f"{group}-archive", partitions, guard, fetch_interval=_SINK_FETCH_SECONDS)
        self._index = Runtime(settings, f"{group}-index", partitions, guard, fetch_interval=_SINK_FETCH_SECONDS)
        for runtime in self._runtimes:
            runtime.lifecycle.log_is_kept = not track
        windows = RecordTable(durable_table(self._pipeline.app, "windows", partitions, guard), WindowState)
        profiles = RecordTable(durable_table(self._pipeline.app, "profiles", partitions, guard), ProfileState)
        self.window = self._window_agent(settings, config, windows, log_id, partitions)
        definitions = slot_definitions(config)
        budget = config.max_chat_blob_buffer_process_token_size
        summary.register(self._pipeline, processor, profiles, budget)
        filled = allowed_slots(config) if processor.name == "rules" else frozenset()
        allowed = frozenset(definitions) | filled if config.profile_strict_mode else None
        extract.register(self._pipeline, processor, profiles, allowed)
        tag.register(self._pipeline, processor, profiles, {unify(tag.name) for tag in config.event_tags})
        catalogue = {unify(tag.name): tag.name for tag in config.tag_catalogue}
        domain.register(self._pipeline, processor if config.reads_domain else None, profiles, catalogue or None, budget)
        in_turn = InTurn(profiles)
        facts.register(self._pipeline, processor, profiles, in_turn, shown=config.facts.shown, budget=budget)
        policy = MergePolicy(
            pipeline_version=pipeline_version(config, processor),
            validate_all=config.profile_validate_mode,
            validate_slots=frozenset(name for name, slot in definitions.items() if slot.validate_value),
            update_descriptions={name: slot.update_description for name, slot in definitions.items()},
            allowed=allowed,
            max_sub_topics=config.max_profile_subtopics,
            max_slot_tokens=config.max_pre_profile_token_size,
            facts=config.facts,
        )
        nearest = Nearest(_embed(vectors), vectors.embedder.same_matter)
        MergeAgent(self._pipeline, processor, policy, profiles, nearest, self._sent, in_turn.applied)
        archive.register(
            self._archive,
            ArchiveSink(store, settings.kafka, guard),
            log_id,
            on_deltas=self._archived,
            on_events=self._ended,
        )
        index.register(self._index, IndexSink(vectors), on_deltas=self._indexed, on_events=self._gists_indexed)

    @classmethod
    async def create(
        cls,
        settings: Settings,
        config: PipelineConfig,
        processor: PipelineProcessor,
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
                horizon=limits.horizon,
            ),
            log_id=log_id,
            partitions=partitions,
            messages=runtime.topics.messages,
            flushes=runtime.topics.flushes,
            candidates=runtime.topics.candidates,
            backoff=runtime.backoff,
            log_ends=runtime.log_ends,
            now=runtime.now,
            detect=SignalDetector(config.facts.signals).detect if config.facts.enabled else None,
            on_emit=self._emitted,
            suspicious_pause=settings.kafka.session_timeout / 2,
        )
        runtime.lifecycle.register(window)
        runtime.agent("window", runtime.topics.messages, window.consume)

        async def sweep(*_args: Any) -> None:
            window.sweep()

        runtime.app.timer(_SWEEP_SECONDS)(sweep)
        return window

    @property
    def collector(self) -> WorkerCollector:
        """What reads the state of this worker for its metrics, once it has started."""
        stages = {name: (stage, runtime) for runtime in self._runtimes for name, stage in runtime.stages.items()}
        return WorkerCollector(
            self.window,
            {name: stage for name, (stage, _) in stages.items()},
            {"window": self._pipeline.highwater, **{name: runtime.highwater for name, (_, runtime) in stages.items()}},
            self._pipeline.partitions,
        )

    def _emitted(self, ref: FlushRef) -> None:
        flush_sent(ref)
        for flushes in self._open_flushes.values():
            flushes.add(ref)

    def _sent(self, deltas: Sequence[ProfileDelta]) -> None:
        deltas_sent(deltas)
        if self.outstanding is not None:
            self.outstanding.add(f"{store} {delta.delta_id}" for delta in deltas for store in ("archive", "index"))

    def _archived(self, deltas: Sequence[ProfileDelta]) -> None:
        deltas_archived(deltas)
        if self.outstanding is not None:
            self.outstanding.remove(f"archive {delta.delta_id}" for delta in deltas)

    def _indexed(self, deltas: Sequence[ProfileDelta]) -> None:
        deltas_indexed(deltas)
        if self.outstanding is not None:
            self.outstanding.remove(f"index {delta.delta_id}" for delta in deltas)

    def _ended(self, events: Sequence[FlushEvent]) -> None:
        flushes_ended(events, self._pipeline.now())
        self.failed_flushes += sum(event.outcome == "failed" for event in events)
        if self.outstanding is not None:
            self._open_flushes["archive"].ended(events)

    def _gists_indexed(self, events: Sequence[FlushEvent]) -> None:
        if self.outstanding is not None:
            self._open_flushes["index"].ended(events)

    def _suspended(self, reason: Exception) -> None:
        self._pipeline.source.crash(reason)

    async def start(self) -> None:
        """Join the consumer groups, recover the tables and begin to process."""
        self._beating = asyncio.create_task(self._wakefulness.run())
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

    async def drain(self, patience: float) -> Drained:
        """Close all windows and wait until everything that comes of them is in the stores.

        Only for a worker that tracks. It may be waited for as long as something moves.

        Args:
            patience: seconds without progress after which what waits is parked, or else left.
        """
        outstanding = self.outstanding
        if outstanding is None:
            raise RuntimeError("this worker does not track what is outstanding")
        lanes = [stage for stage in self._pipeline.stages.values() if isinstance(stage, KeyedLanes)]

        def moved() -> object:
            read = sum(self.window.read_up_to.values())
            left = self.window.running, len(outstanding)
            return read, left, sum(lane.ended for lane in lanes), self._processor.answers

        async def bring() -> None:
            await self._read_to_end()
            self.window.close_all()
            while self.window.running:
                await asyncio.sleep(0.02)
            await outstanding.wait_empty()

        drain = Drain(lanes, moved, patience, lambda: len(outstanding))
        complete = await drain.until_done(bring())
        left = {store: outstanding.count(store) for store in ("archive", "index")}
        return Drained(parked=drain.parked, complete=complete, archive_left=left["archive"], index_left=left["index"])

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
        try:
            await asyncio.gather(*(runtime.app.stop() for runtime in self._runtimes))
        finally:
            if self._beating is not None:  # until then: who stops may write, for as long as it takes
                self._beating.cancel()
        logger.debug(
            "signals in %d of the users' messages; %d had none and cost no call",
            self.window.signalled,
            self.window.spared,
        )
