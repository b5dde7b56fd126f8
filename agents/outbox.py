"""`Outbox`: closed windows on their way to their topic, those of a user in order.

For each, the record of its user is made durable before it is sent, and its messages may be acknowledged only after.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from schemas.flushes import FlushRef
from schemas.windows import WindowState
from streams.backoff import Backoff
from streams.dead_letters import DeadLetters
from streams.errors import RecordFailed
from streams.failpoints import fail_point
from streams.insist import insist
from streams.ledger import Entry, Ledger
from streams.sender import Outgoing, Sender


@dataclass(slots=True)
class Emission:
    """A batch on its way to the flush topic, or the word to forget a user on its way to the merge.

    Attributes:
        ref: its heading.
        topic: where it goes.
        value: what is sent.
        state: made durable first; None when it was before, or need not be.
        entries: records of its messages.
        closes: whether they may be acknowledged once it is sent.
    """

    ref: FlushRef
    topic: str
    value: bytes
    state: WindowState | None
    entries: list[Entry]
    closes: bool = True


class StateTable(Protocol):
    """Where `WindowState` is kept."""

    async def write(self, key: bytes, record: WindowState, partition: int) -> None:
        """Write a user's record; returns when it is durable."""
        ...

    def read(self, key: bytes) -> WindowState | None:
        """Return a user's record."""
        ...


class Outbox:
    """Sends emissions, insisting while a service is down.

    Args:
        ledger: of the records that the emissions hold.
        on_emit: told the heading of each that was sent.
        on_change: called after one was put in, and after one has left.
    """

    def __init__(
        self,
        *,
        table: StateTable,
        sender: Sender,
        dead_letters: DeadLetters,
        ledger: Ledger,
        backoff: Backoff,
        on_emit: Callable[[FlushRef], None],
        on_change: Callable[[], None],
    ) -> None:
        self._table = table
        self._sender = sender
        self._dead_letters = dead_letters
        self._ledger = ledger
        self._backoff = backoff
        self._on_emit = on_emit
        self._on_change = on_change
        self._unsent: dict[bytes, deque[Emission]] = {}
        self._tasks: dict[bytes, asyncio.Task[None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def idle(self) -> bool:
        """Whether everything is sent."""
        return not self._tasks

    def state(self, key: bytes) -> WindowState | None:
        """Return a user's record as it will be once everything is sent."""
        for unsent in reversed(self._unsent.get(key, ())):
            if unsent.state:
                return unsent.state
        return self._table.read(key)

    def put(self, key: bytes, emission: Emission) -> None:
        """Send an emission after the earlier ones of its user."""
        self._unsent.setdefault(key, deque()).append(emission)
        self._count += 1
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._send(key), name="window emission")
        self._on_change()

    def abandon(self) -> None:
        """Cancel what is being sent and forget the rest."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        self._unsent.clear()
        self._count = 0

    async def _send(self, key: bytes) -> None:
        epoch = self._ledger.epoch
        queue = self._unsent[key]
        while queue:
            emission = queue[0]
            await self._deliver(key, emission)
            if self._ledger.epoch != epoch:
                return
            queue.popleft()
            self._count -= 1
            if emission.closes:
                for entry in emission.entries:
                    self._ledger.close(entry)
            self._on_change()
        del self._unsent[key], self._tasks[key]
        self._on_change()

    async def _deliver(self, key: bytes, emission: Emission) -> None:
        ref, state = emission.ref, emission.state
        flush = Outgoing(topic=emission.topic, key=key, value=emission.value, partition=ref.partition)
        try:
            if state is not None:
                await insist("window", lambda: self._table.write(key, state, ref.partition), self._backoff)
                fail_point("window.after_table")
            await insist("window", lambda: self._sender.send(flush), self._backoff)
            fail_point("window.after_send")
        except RecordFailed as error:
            for entry in emission.entries:
                park = partial(self._dead_letters.park, entry.event, "window", error)
                await insist("window", park, self._backoff)
        else:
            self._on_emit(ref)
