"""`PipelineApp`: a Faust application set up the way that this program needs it, and nothing of the pipeline itself.

The settings follow from how Faust 0.15.3 behaves: own acknowledgements in offset order (`streams.ledger`), raw bytes
everywhere so that a bad record cannot crash an agent, work drained by `streams.lifecycle` before a rebalance, and
limits under which a stream that is not read pauses its partition instead of blocking every other.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import faust
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from aiokafka.protocol.produce import ProduceRequest
from faust.transport.consumer import Consumer
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from streams.delivery import BulkDelivery, PromptDelivery
from streams.errors import DependencyDown
from streams.fetching import PacedConsumer
from streams.kafka import MAX_RECORD_BYTES, trusted
from streams.lifecycle import Lifecycle
from streams.records import Event
from streams.settings import Settings

_POLL_RECORDS: Final = 500
_BUFFERED_RECORDS: Final = 8_192
_BATCH_BYTES: Final = 524_288
"""Half of what a broker takes by default. Whoever finds a batch full waits until it has left, and all who wait for it
wake when it does: with batches of 64 KiB that was a third of what the window agent costs under load."""

_DAYS: Final = 86_400.0


class PipelineConsumer(BulkDelivery, PromptDelivery, driver.Consumer):
    """A consumer that goes back in every partition, and waits for this program's own work only."""

    def _new_consumer_thread(self) -> PacedConsumer:
        return PacedConsumer(self, loop=self.loop, beacon=self.beacon)

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Go back to the first record that is not acknowledged, in every partition.

        Faust drops what it had fetched when a rebalance begins, and relies on this call to see it again. Its own skips
        partitions without a committed offset: what was fetched of them would never be delivered, and the next
        acknowledgement would cover it. So it is with every partition whose oldest message waits in an open window.
        """
        committed: Mapping[TP, int] = await super().seek_to_committed()
        changelogs = self.app.tables.changelog_topics
        new = [place for place, offset in committed.items() if not offset and place.topic not in changelogs]
        if new:
            await self.seek_wait(await self.earliest_offsets(*new))
        return committed

    async def wait_empty(self) -> None:
        """Wait until the drain has ended, then commit.

        Faust itself waits for those records that its own iterator has handed out; here none are (`streams.delivery`).
        What was not acknowledged is read again.
        """
        lifecycle = cast(PipelineApp, self.app).lifecycle
        lifecycle.begin_drain()
        await lifecycle.drained()
        await super().wait_empty()


class PipelineProducer(driver.Producer):
    """A producer that asks once more whether this process may write when a request leaves.

    Records wait until they do, and are tried again: in a process that was suspended in between, they are out of date.
    """

    def _new_producer(self, transactional_id: str | None = None) -> AIOKafkaProducer:
        producer = super()._new_producer(transactional_id)
        send = producer.client.send

        async def guarded(node_id: int, request: Any, **options: Any) -> Any:
            if isinstance(request, ProduceRequest):
                try:
                    cast(PipelineApp, self.app).guard()
                except DependencyDown as error:
                    # An error of the client's own fails what waits in it; it takes any other for a fault of its own.
                    raise KafkaError(str(error)) from error
            return await send(node_id, request, **options)

        producer.client.send = guarded
        return producer


class PipelineTransport(driver.Transport):
    """Faust's transport with that consumer and that producer."""

    Consumer = PipelineConsumer
    Producer = PipelineProducer


class PipelineApp(faust.App):
    """A Faust application whose unacknowledged work is drained before a rebalance and before a stop.

    Attributes:
        guard: raises when this process may not write.
        fetch_interval: seconds from one fetch to the next, at least.
    """

    lifecycle: Lifecycle
    fetch_interval: float = 0.01
    guard: Callable[[], None] = staticmethod(lambda: None)
    _rebalances_begun = 0
    _rebalances_assigned = 0

    def on_rebalance_start(self) -> None:
        """Begin the drain."""
        super().on_rebalance_start()
        self._rebalances_begun += 1
        self.lifecycle.begin_drain()

    def note_assignment(self) -> None:
        """Note that the rebalance begun last has led to an assignment."""
        self._rebalances_assigned = self._rebalances_begun

    def rebalancing_again(self) -> bool:
        """Whether another rebalance has begun since the last assignment: what completes now is out of date."""
        return self._rebalances_begun != self._rebalances_assigned

    async def produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int,
        timestamp: float | None = None,
        headers: list[tuple[str, bytes]] | None = None,
    ) -> Awaitable[Any]:
        """Enqueue a record; what this returns is done when the broker has it.

        Faust's topics do the same, and count and time each record on the way, at three times the cost.

        Raises:
            ProducerSendError: when it cannot be enqueued.
        """
        producer = self.producer
        if not producer.started:
            await producer.maybe_start()
        return await producer.send(topic, key, value, partition, timestamp, headers)

    async def hold_delivery(self) -> None:
        """Deliver nothing until Faust has gone back to the committed offsets; it resumes delivery itself then.

        After the tables are recovered, Faust lets the stream partitions be read and only then goes back to their
        committed offsets, clears the streams' buffers, and drops what it believes to have delivered. A record that is
        delivered in between and not yet taken from its buffer would never be seen again.
        """
        self.consumer.stop_flow()
        self.flow_control.suspend()
        await cast(Consumer, self.consumer).wait_for_stopped_flow()

    async def on_stop(self) -> None:
        """Drain, then stop."""
        self.lifecycle.begin_drain()
        await super().on_stop()
        self.lifecycle.close()


def create_app(settings: Settings, group_id: str) -> PipelineApp:
    """Create an application that is a member of the consumer group `group_id`."""
    kafka = settings.kafka
    app = PipelineApp(
        group_id,
        broker=[f"kafka://{server.strip()}" for server in kafka.bootstrap_servers.split(",")],
        broker_credentials=_credentials(settings),
        broker_session_timeout=kafka.session_timeout,
        broker_rebalance_timeout=kafka.rebalance_timeout,
        broker_heartbeat_interval=kafka.heartbeat_interval,
        broker_commit_interval=kafka.commit_interval,
        # A worker without partitions fetches nothing; the client would take that for a hang and leave the group.
        broker_max_poll_interval=7 * _DAYS,
        # What one poll may add is below what the buffers still take after they ask for a pause: delivery to one slow
        # stage never blocks delivery to the others.
        broker_max_poll_records=_POLL_RECORDS,
        stream_buffer_maxsize=_BUFFERED_RECORDS,
        # Offsets are held for as long as a window is open: that is no livelock.
        stream_processing_timeout=7 * _DAYS,
        broker_commit_livelock_soft_timeout=7 * _DAYS,
        stream_wait_empty=True,
        consumer_auto_offset_reset="earliest",
        producer_acks=-1,
        producer_max_request_size=MAX_RECORD_BYTES,
        producer_max_batch_size=1 if kafka.single_record_batches else _BATCH_BYTES,
        producer_linger=0.0 if kafka.single_record_batches else 0.001,
        consumer_max_fetch_size=MAX_RECORD_BYTES,
        key_serializer="raw",
        value_serializer="raw",
        store="memory://",
        # Stores in memory need no folder, but Faust makes one, otherwise wherever the process was started.
        datadir=str(Path(tempfile.gettempdir()) / f"profilestream-{os.getuid()}"),
        table_standby_replicas=0,
        topic_partitions=kafka.partitions,
        topic_replication_factor=kafka.replication,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        worker_redirect_stdouts=False,
        autodiscover=False,
    )
    app.transport = PipelineTransport(app.conf.broker_consumer, app, loop=None)
    app.lifecycle = Lifecycle(min(settings.lanes.drain, kafka.rebalance_timeout * 0.8))

    async def assigned(*_args: Any, **_kwargs: Any) -> None:
        app.note_assignment()

    async def resume(*_args: Any, **_kwargs: Any) -> None:
        if app.rebalancing_again():
            return
        await app.hold_delivery()
        app.lifecycle.resume()

    app.on_partitions_assigned.connect(assigned, weak=False)
    app.on_rebalance_complete.connect(resume, weak=False)
    return app


def _credentials(settings: Settings) -> Any:
    kafka = settings.kafka
    context = None
    if kafka.security_protocol in {"SSL", "SASL_SSL"}:
        context = trusted(kafka)
    if kafka.security_protocol.startswith("SASL"):
        return faust.SASLCredentials(
            username=kafka.sasl_username,
            password=kafka.sasl_password.get_secret_value(),
            mechanism=kafka.sasl_mechanism,
            ssl_context=context,
        )
    return faust.SSLCredentials(context) if context is not None else None


class AppSource:
    """`streams.records.Source` of a Faust application."""

    def __init__(self, app: PipelineApp) -> None:
        self._app = app
        self._crashing: asyncio.Future[None] | None = None

    def is_current(self, event: Event) -> bool:
        """Whether the event belongs to the present assignment and records are flowing."""
        return bool(
            self._app.flow_control.is_active() and event.message.generation_id == self._app.consumer_generation_id
        )

    def crash(self, reason: Exception) -> None:
        """End the application."""
        self._crashing = asyncio.ensure_future(self._app.crash(reason))
