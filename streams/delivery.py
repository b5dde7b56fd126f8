"""How records get from Faust's fetcher to an agent, without a task or a turn of the event loop for each.

Faust hands every record over in a task of its own, with three more to see whether it is to stop, and takes each
from an agent's buffer in a turn of its own: together most of what a record costs (`benchmarks/NOTES.md`). Here all
that a poll brought of a partition is handed over at once where nothing about it is special; what is special goes
Faust's way, where a hand-over runs in place unless it really has to wait. An agent takes what its buffer holds one
after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import Any, Final, cast

from faust import Schema
from faust.types import TP, AppT, Message, StreamT
from mode.services import WaitResults

from streams.records import Event

_TURN: Final = 0.005
"""Seconds for which an agent takes records before others have a turn."""


class Delivered:
    """A record in an agent's buffer (`streams.records.Event`); Faust's own events also copy its key, value and headers.

    Args:
        app: the application that has read it.
        message: the record.
    """

    __slots__ = ("_app", "message")

    def __init__(self, app: AppT, message: Message) -> None:
        self._app = app
        self.message = message

    def ack(self) -> bool:
        """Tell Faust that one of the agents that this was handed to has processed it."""
        return bool(self.message.ack(self._app.consumer))


class RawSchema(Schema[bytes, bytes]):
    """Takes keys and values as the bytes that they are, without Faust's way to them through codecs and settings."""

    def __init__(self) -> None:
        super().__init__(
            key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw", allow_empty=True
        )

    def compile(self, app: AppT, **_options: Any) -> Any:
        """Return what makes an event of a record."""

        async def decode(message: Message, **_options: Any) -> Delivered:
            return Delivered(app, message)

        return decode


class Begun:
    """What is left of a coroutine that has run as far as its first wait.

    Args:
        coroutine: has been started.
        waits_for: the future that it waits for.
    """

    __slots__ = ("_coroutine", "_waits_for")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, Any]:
        waits_for = self._waits_for
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:  # also a cancellation: it is the coroutine's to deal with
                step = partial(self._coroutine.throw, error)
            else:
                step = partial(self._coroutine.send, sent)
            try:
                waits_for = step()
            except StopIteration as end:
                return end.value


class PromptDelivery:
    """For a consumer of Faust's: hands a record over in place instead of in a task, unless it has to wait."""

    async def wait_first(self, *coros: Any, timeout: Any = None) -> WaitResults:
        """Wait for the first of several things, as `mode.Service.wait_first` does, without a task if it can be.

        Only of two coroutines, without a limit, the first is tried: so Faust waits for the hand-over of a record, or
        else for a pause.
        """
        service = cast(Any, super())
        if timeout is not None or len(coros) != 2 or not all(map(asyncio.iscoroutine, coros)):
            return cast(WaitResults, await service.wait_first(*coros, timeout=timeout))
        first, second = coros
        try:
            waits_for = first.send(None)
        except StopIteration as end:
            second.close()
            return WaitResults([first], [end.value], False)
        except BaseException:
            second.close()
            raise
        return cast(WaitResults, await service.wait_first(Begun(first, waits_for), second))


class BulkDelivery:
    """For a consumer of Faust's: hands over at once what a poll brought of a partition.

    That is where Faust would do with each record what it did with the one before: records follow on each other and on
    what was read last, the flow of records goes on, and every agent's buffer has room. All else is left to Faust.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pressure: dict[TP, tuple[Callable[[], None], Callable[[], None]]] = {}

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> dict[TP, list[Any]]:
        """Return what a poll brings, without what is handed over here."""
        consumer = cast(Any, self)
        records: dict[TP, list[Any]] = await cast(Any, super())._getmany(active_partitions, timeout)
        app = consumer.app
        if not records or not active_partitions or consumer.should_stop:
            return records
        if not consumer.flow_active or not app.flow_control.is_active() or app.producer.buffer.size:
            return records
        readers = _readers(app)
        return {
            place: batch
            for place, batch in records.items()
            if place not in active_partitions or not self._hand_over(place, batch, readers.get(place.topic, ()))
        }

    def _hand_over(self, place: TP, batch: Sequence[Any], readers: Sequence[Any]) -> bool:
        """Hand the records of a partition to all its readers, or none of them to anybody."""
        consumer = cast(Any, self)
        count = len(batch)
        if not count or not readers or not all(map(_takes_everything, readers)):
            return False
        first, last = batch[0].offset, batch[-1].offset
        read: int | None = consumer._read_offset[place]
        if last - first + 1 != count or (read is not None and first not in {read, read + 1}):
            return False
        buffers = [reader.queue for reader in readers]
        if any(buffer.qsize() + count > buffer.maxsize for buffer in buffers):
            return False
        app, to_message, copies = consumer.app, consumer._to_message, len(buffers)
        for record in batch:
            message = to_message(place, record)
            message.refcount = copies
            for buffer in buffers:
                buffer.force_put_nowait(Delivered(app, message))
        consumer._read_offset[place] = last
        for buffer in buffers:
            self._relieve(place, buffer)
        return True

    def _relieve(self, place: TP, buffer: Any) -> None:
        """Read no more of a partition while a buffer with its records is nearly full."""
        if place not in self._pressure:
            consumer, known = cast(Any, self), TP(*place)  # it comes as a pair of aiokafka's
            self._pressure[place] = partial(consumer.on_buffer_full, known), partial(consumer.on_buffer_drop, known)
        full, drop = self._pressure[place]
        if buffer.in_pressure_high_state(drop):
            full()


def _takes_everything(channel: Any) -> bool:
    """Whether a channel is an agent's of ours: it takes raw records, of all partitions that there are."""
    return isinstance(channel.schema, RawSchema) and channel.active_partitions is None


def _readers(app: Any) -> dict[str, list[Any]]:
    """Return the channels that take the records of each topic."""
    readers = defaultdict(list)
    for channel in app.topics:
        for topic in channel.topics:
            readers[topic].append(channel)
    return readers


async def events_of(stream: StreamT[Any]) -> AsyncIterator[Event]:
    """Take the records of an agent's stream from its buffer; none is acknowledged by this.

    Faust's own iterator also counts records for its monitor, remembers them until they are acknowledged, and
    acknowledges those of an assignment that has ended. None of that is used here: whoever takes a record checks its
    assignment (`streams.intake`) and acknowledges it by a ledger (`streams.ledger`).
    """
    await stream.maybe_start()
    buffer = cast(Any, stream.channel).queue
    turn = time.monotonic()
    while not stream.should_stop:
        try:
            try:
                event = buffer.get_nowait()
            except asyncio.QueueEmpty:
                event = await buffer.get()
                turn = time.monotonic()
        except StopAsyncIteration:  # thrown into the buffer when the stream is stopped
            return
        yield event
        if time.monotonic() - turn > _TURN:
            await asyncio.sleep(0)
            turn = time.monotonic()
