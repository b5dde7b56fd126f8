"""`Watcher`: prints windows closing and profiles changing as they come, and knows when all messages have ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from rich.text import Text

from schemas.codec import decode
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.flushes import FlushBatch
from schemas.ids import event_id
from streams.cli.common import CommandFailed, printable
from streams.cli.printing import print_delta, print_hanging, user_name
from streams.kafka import consumer
from streams.settings import KafkaSettings
from streams.topics import Topics

if TYPE_CHECKING:
    from rich.console import Console

_WHY = {
    "tokens": "its token budget is full",
    "messages": "it holds enough messages",
    "idle": "nothing came for a while",
    "age": "it is old enough",
    "session": "another session began",
    "flush": "it was told to close",
    "horizon": "its messages have waited long enough",
    "shutdown": "the program stops",
}


class Watcher:
    """Reads the flush, delta and event topics from their start; an asynchronous context manager.

    Attributes:
        deltas: every delta so far.
        failed: flushes that ended as failed.
    """

    def __init__(self, console: Console, kafka: KafkaSettings) -> None:
        self.deltas: list[ProfileDelta] = []
        self.failed = 0
        self._console = console
        self._kafka = kafka
        self._topics = Topics.of(kafka)
        self._seen: set[str] = set()
        self._open: set[str] = set()
        self._begun = 0
        self._ended = 0
        self._expected: int | None = None
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def expect(self, messages: int) -> None:
        """Say how many messages must end."""
        self._expected = messages

    async def until_done(self, still: float) -> None:
        """Wait until all expected messages have been in windows, and all flushes have ended.

        A message is read for facts before its window closes: whoever has seen the windows has seen those flushes too.

        Raises:
            CommandFailed: when nothing at all happens for `still` seconds, or the topics cannot be read.
        """
        while self._expected is None or self._open or min(self._begun, self._ended) < self._expected:
            self._moved.clear()
            moved = asyncio.ensure_future(self._moved.wait())
            tasks: set[asyncio.Future[object]] = {moved}  # type: ignore[arg-type]
            if self._task is not None:
                tasks.add(self._task)  # type: ignore[arg-type]
            done, _ = await asyncio.wait(tasks, timeout=still, return_when=asyncio.FIRST_COMPLETED)
            moved.cancel()
            if self._task in done and self._task is not None:
                self._task.result()
            if not done:
                raise CommandFailed(
                    f"nothing has happened for {still:.0f} s: {self._ended} of {self._expected} messages have ended; "
                    "`profilestream doctor` checks the services"
                )

    async def _watch(self) -> None:
        topics = self._topics
        async with consumer(self._kafka, topics.flushes, topics.deltas, topics.events) as client:
            async for record in client:
                if record.topic == topics.flushes:
                    self._show_flush(decode(record.value, FlushBatch))
                elif record.topic == topics.deltas:
                    self._show_delta(decode(record.value, ProfileDelta))
                else:
                    self._count(decode(record.value, FlushEvent))
                self._moved.set()

    def _first_time(self, record_id: str) -> bool:
        if record_id in self._seen:
            return False
        self._seen.add(record_id)
        return True

    def _show_flush(self, batch: FlushBatch) -> None:
        ref = batch.ref
        if not self._first_time(ref.flush_id):
            return
        if event_id(ref.flush_id, ref.attempt) not in self._seen:  # the topics are not read in step
            self._open.add(ref.flush_id)
        if ref.lane == "memo":
            self._begun += ref.message_count
        print_hanging(self._console, _announcement(batch))

    def _show_delta(self, delta: ProfileDelta) -> None:
        if self._first_time(delta.delta_id):
            self.deltas.append(delta)
            print_delta(self._console, delta)

    def _count(self, event: FlushEvent) -> None:
        if self._first_time(event.event_id):
            self._open.discard(event.flush.flush_id)
            if event.flush.lane == "memo":
                self._ended += event.flush.message_count
            if event.outcome == "failed":
                self.failed += 1
                self._console.print(
                    f"flush of {printable(event.flush.user_id)} failed: {printable(str(event.errors))}", style="red"
                )


def _announcement(batch: FlushBatch) -> Text:
    ref = batch.ref
    user = user_name(ref.tenant_id, ref.user_id)
    if batch.signals is not None:
        hints = ", ".join((*batch.signals.facts, *batch.signals.preferences)).replace("_", " ")
        return Text.assemble(
            ("message ", "bold"), f"{user}: {ref.token_count} tokens; read at once because it hints at {hints}"
        )
    return Text.assemble(
        ("window ", "bold"),
        f"{user}: {ref.message_count} messages, {ref.token_count} tokens; closed because {_WHY[ref.trigger]}",
    )
