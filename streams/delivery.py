"""How records get from Faust's fetcher to an agent, without a task or a turn of the event loop for each.

Faust hands every record over in a task of its own, with three more to see whether it is to stop, and takes each
from an agent's buffer in a turn of its own: together most of what a record costs (`benchmarks/NOTES.md`). Here a
hand-over runs in place unless it really has to wait, and an agent takes what its buffer holds one after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Generator
from functools import partial
from typing import Any, Final, cast

from faust import Schema
from faust.events import Event as FaustEvent
from faust.types import AppT, EventT, Message, StreamT
from mode.services import WaitResults

from streams.records import Event

_TURN: Final = 0.005
"""Seconds for which an agent takes records before others have a turn."""


class RawSchema(Schema[bytes, bytes]):
    """Takes keys and values as the bytes that they are, without Faust's way to them through codecs and settings."""

    def __init__(self) -> None:
        super().__init__(
            key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw", allow_empty=True
        )

    def compile(self, app: AppT, **_options: Any) -> Any:
        """Return what makes an event of a record."""

        async def decode(message: Message, **_options: Any) -> EventT[Any]:
            return FaustEvent(app, message.key, message.value, message.headers, message)

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
        if isinstance(event, EventT):
            yield cast(Event, event)
        if time.monotonic() - turn > _TURN:
            await asyncio.sleep(0)
            turn = time.monotonic()
