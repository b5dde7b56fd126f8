"""`Client`: what applications do with the pipeline."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaProducer

from profilestream_client.closing import close_whole
from profilestream_client.connection import Connection
from profilestream_client.context import Embed, read_context
from profilestream_client.errors import InvalidMessage, PublishFailed
from profilestream_client.local import find_local
from profilestream_client.packing import CountTokens, Packed, PackingOptions
from profilestream_client.publishing import Messages, Published, open_producer, publish
from profilestream_client.records import DEFAULT_TENANT, ChatMessage, MessageType
from profilestream_client.stores import Stores
from profilestream_client.subscription import Filter, OnGap, StartAt, Subscription
from profilestream_client.tokens import estimate_tokens


class Client:
    """Publishes messages, subscribes to what comes of them, and reads it; an asynchronous context manager.

    Nothing is connected before it is needed. One client serves any number of tasks of one event loop.

    Args:
        connection: where the broker is and how to log in; an address alone stands for a connection without login.
        stores: where results are read, for `context`.
    """

    def __init__(self, connection: Connection | str, *, stores: Stores | None = None) -> None:
        self._connection = Connection(bootstrap_servers=connection) if isinstance(connection, str) else connection
        self._stores = stores or Stores()
        self._producer: AIOKafkaProducer | None = None
        self._opening = asyncio.Lock()
        self._subscriptions: set[Subscription] = set()

    @classmethod
    def local(cls, data_dir: str | os.PathLike[str] | None = None) -> Self:
        """Return a client of the services of a `profilestream up` that runs on this machine.

        Args:
            data_dir: its data directory; by default that of any `up` that this user runs, the one started last.

        Raises:
            KafkaUnavailable: when none is running.
        """
        connection, stores = find_local(data_dir)
        return cls(connection, stores=stores)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End all subscriptions and disconnect, after everything that is being sent is acknowledged or has failed."""
        for subscription in list(self._subscriptions):
            await subscription.aclose()
        async with self._opening:
            await self._drop_producer()

    async def publish(
        self,
        messages: Messages,
        *,
        on_progress: Callable[[int], None] | None = None,
        on_refused: Callable[[InvalidMessage], None] | None = None,
    ) -> Published:
        """Send messages, and return when the broker has all of them.

        They are sent in batches while they are read, so that a long iterable takes no memory. Those of one user keep
        their order. A lost answer does not make a message appear twice (see `Connection.idempotent`); publishing it
        again does.

        Args:
            messages: what to send.
            on_progress: called with the number of acknowledged messages whenever it has grown.
            on_refused: called for each message that the pipeline could not process; it is left out and the rest goes
                on. Without it the first of them is raised, after those before it are acknowledged.

        Raises:
            InvalidMessage: for a message that could not be processed.
            PublishFailed: when the broker does not take everything.
            KafkaUnavailable: when it does not answer, or refuses this client; nothing is sent.
            TopicMissing: when it has no topic for messages; likewise.
        """
        producer = await self._started_producer()
        try:
            return await publish(producer, self._connection.messages_topic, messages, on_progress, on_refused)
        except PublishFailed:
            # Its numbering of what it sends may be broken for good.
            async with self._opening:
                if self._producer is producer:
                    await self._drop_producer()
            raise

    async def flush(self, user: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Have a user's messages processed now, instead of when their window closes.

        Args:
            user: the user's id.
            tenant: the tenant that the user belongs to.

        Raises:
            ClientError: as `publish`.
        """
        await self._control("flush", user, tenant)

    async def forget(self, user: str, *, tenant: str = DEFAULT_TENANT) -> None:
        """Have everything forgotten that is known of a user.

        Returns when the request is on the log; the delta with ``op`` ``forget`` says that it is done.

        Args:
            user: the user's id.
            tenant: the tenant that the user belongs to.

        Raises:
            ClientError: as `publish`.
        """
        await self._control("forget", user, tenant)

    def subscribe(
        self,
        *,
        tenant: str | None = None,
        user: str | None = None,
        kind: str | None = None,
        topic: str | None = None,
        start_at: StartAt = "beginning",
        follow: bool = True,
        on_gap: OnGap | None = None,
    ) -> Subscription:
        """Return an asynchronous iterator of profile deltas.

        Each user's deltas come in the order of their versions. Those that are sent again are left out as long as the
        subscription lasts; after it, an application that goes on from a stored position may get some a second time, and
        knows them by their `delta_id`, or by a `version` that it has already.

        Args:
            tenant: only this tenant's. Default: all, or, with a user, `DEFAULT_TENANT`.
            user: only this user's; then one partition is read and not all.
            kind: only deltas of this kind: ``slot``, ``fact``, ``preference``, ``tag``, ``profile``.
            topic: only slots of this topic, or facts and preferences of this category.
            start_at: ``"beginning"`` of the topic, its ``"end"``, a time, for the deltas that the broker has from then
                on (the embedded one may add the last one before), or a stored `Position`. It is looked up when the
                subscription is opened (see `Subscription`).
            follow: go on with deltas as they are written, for ever; the connection is made again where it is lost.
                Otherwise the iterator ends where the topic ended when it was opened.
            on_gap: called, and awaited if it returns an awaitable, before a delta that does not follow on the user's
                last one is given out. Without it a warning is logged.

        Raises:
            ValueError: for a time without an offset from UTC, or a user that is no text.
        """
        if user is not None and tenant is None:
            tenant = DEFAULT_TENANT
        subscription = Subscription(
            self._connection,
            Filter(tenant=tenant, user=user, kind=kind, topic=topic),
            start_at=start_at,
            follow=follow,
            on_gap=on_gap,
            on_closed=self._subscriptions.discard,
        )
        self._subscriptions.add(subscription)
        return subscription

    async def context(
        self,
        user: str,
        *,
        tenant: str = DEFAULT_TENANT,
        options: PackingOptions | None = None,
        chat: Sequence[ChatMessage] = (),
        embed: Embed | None = None,
        embedding: Sequence[float] | None = None,
        pending: int | None = None,
        count_tokens: CountTokens = estimate_tokens,
    ) -> Packed:
        """Return what is known of a user, under a token budget, as text for a prompt.

        It is read from ClickHouse, and events that are near in meaning from Qdrant; Kafka is not asked. The 1,000 most
        important items of a profile are looked at, and 500 events.

        Args:
            user: the user's id.
            tenant: the tenant that the user belongs to; nothing of another one is looked at.
            options: the budget, and what goes in.
            chat: the last turns of the conversation that the prompt is for. With `embed`, the events are those that are
                nearest in meaning to one of the three things that the user said last, instead of the newest. By the
                `message_id` of its turns it is counted which of them are not processed yet.
            embed: turns a text into a vector, by the model that the collection in Qdrant is made with.
            embedding: such a vector, instead of the two.
            pending: how many messages are not processed yet, where you know it better.
            count_tokens: counts the tokens of a text, as your model does. By default they are estimated, never too low.

        Raises:
            StoreUnavailable: when ClickHouse or Qdrant does not answer.
            StoreRefused: when one refuses this client or what it asks.
            ValueError: for an id that is no text.
        """
        return await read_context(
            self._stores,
            user,
            tenant=tenant,
            options=options,
            chat=chat,
            embed=embed,
            embedding=embedding,
            pending=pending,
            count_tokens=count_tokens,
        )

    async def _control(self, event: MessageType, user: str, tenant: str) -> None:
        await self.publish([ChatMessage(type=event, user_id=user, tenant_id=tenant)])

    async def _started_producer(self) -> AIOKafkaProducer:
        async with self._opening:
            if self._producer is None:
                self._producer = await open_producer(self._connection)
            return self._producer

    async def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await close_whole(producer.stop())
