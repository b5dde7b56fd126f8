"""`Windows`: the open windows of all users, in memory, and when each of them closes.

A window holds messages whose offsets are uncommitted until the batch made of it is on the flush topic, so the
chat topic is the only buffer that has to survive anything. This module knows neither Kafka nor clocks: times
are passed in, and whatever closes is returned to the caller.

Deadlines are a heap with one entry for each window ever opened. An entry is not moved when a message postpones
its window's deadline: it is put back when it comes up too early, so that adding a message costs no heap operation.
The entry of a window that has closed is dropped when it comes up.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from schemas.flushes import Trigger

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class WindowPolicy:
    """When a window closes.

    Attributes:
        tokens: budget in tokens: a window never exceeds it, unless a single message does.
        messages: most messages of one window.
        idle: seconds without a message.
        age: seconds since the first message.
        by_session: close when the session changes.
        horizon: messages of a partition, of all users, from the oldest one that is in a window to the newest: beyond it
            the oldest windows close, so that what is read again after a crash is bounded.
    """

    tokens: int = 1024
    messages: int = 64
    idle: float = 600.0
    age: float = 3600.0
    by_session: bool = False
    horizon: int = 100_000


@dataclass(slots=True, eq=False)
class Window(Generic[Item]):
    """Messages of one user that will be one batch.

    Attributes:
        number: tells this window from earlier ones of the same user.
        opened: when the first one came, in the caller's monotonic seconds.
        due: when it closes if nothing more comes.
        session: session of the last message.
        partition: partition of the chat topic that its messages are in.
    """

    key: bytes
    number: int
    partition: int
    opened: float
    due: float
    session: str | None = None
    tokens: int = 0
    items: list[Item] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Closed(Generic[Item]):
    """A window that closed, and why."""

    key: bytes
    items: list[Item]
    tokens: int
    opened: float
    trigger: Trigger


class Windows(Generic[Item]):
    """Open windows by key; not thread-safe."""

    def __init__(self, policy: WindowPolicy) -> None:
        self.policy = policy
        self._windows: dict[bytes, Window[Item]] = {}
        self._by_age: dict[int, OrderedDict[bytes, Window[Item]]] = {}
        self._deadlines: list[tuple[float, int, bytes]] = []
        self._opened = 0
        self.items = 0

    def __len__(self) -> int:
        return len(self._windows)

    def __contains__(self, key: bytes) -> bool:
        return key in self._windows

    def add(
        self, key: bytes, item: Item, *, tokens: int, session: str | None, now: float, partition: int = 0
    ) -> list[Closed[Item]]:
        """Add a message and return the windows that closes: the one before it, its own, both or none."""
        closed: list[Closed[Item]] = []
        window = self._windows.get(key)
        if window is not None:
            if self.policy.by_session and window.session != session:
                closed += self.close(key, "session")
                window = None
            elif window.tokens + tokens > self.policy.tokens:
                closed += self.close(key, "tokens")
                window = None
        if window is None:
            self._opened += 1
            window = self._windows[key] = Window(key, self._opened, partition, opened=now, due=0.0)
            self._by_age.setdefault(partition, OrderedDict())[key] = window
            heapq.heappush(self._deadlines, (now + min(self.policy.idle, self.policy.age), window.number, key))
        window.items.append(item)
        self.items += 1
        window.tokens += tokens
        window.session = session
        window.due = min(now + self.policy.idle, window.opened + self.policy.age)
        if window.tokens >= self.policy.tokens:
            closed += self.close(key, "tokens")
        elif len(window.items) >= self.policy.messages:
            closed += self.close(key, "messages")
        return closed

    def items_of(self, key: bytes) -> Sequence[Item]:
        """Return the messages of a user's open window; none when there is no window."""
        window = self._windows.get(key)
        return window.items if window is not None else ()

    def oldest(self, partition: int) -> Window[Item] | None:
        """Return the window of a partition that was opened first."""
        windows = self._by_age.get(partition)
        return next(iter(windows.values())) if windows else None

    def close(self, key: bytes, trigger: Trigger) -> list[Closed[Item]]:
        """Close a user's window; returns an empty list when none is open."""
        window = self._windows.pop(key, None)
        if window is None:
            return []
        del self._by_age[window.partition][key]
        self.items -= len(window.items)
        return [Closed(key, window.items, window.tokens, window.opened, trigger)]

    def beyond_horizon(self, partition: int, end: int, first_offset: Callable[[Item], int]) -> list[Closed[Item]]:
        """Close the oldest windows of a partition whose first message lies more than the horizon before `end`."""
        closed: list[Closed[Item]] = []
        while (window := self.oldest(partition)) is not None:
            if end - first_offset(window.items[0]) <= self.policy.horizon:
                break
            closed += self.close(window.key, "horizon")
        return closed

    def close_all(self, trigger: Trigger) -> list[Closed[Item]]:
        """Close every window, the oldest first."""
        keys = sorted(self._windows, key=lambda key: self._windows[key].opened)
        return [closed for key in keys for closed in self.close(key, trigger)]

    def due(self, now: float) -> Iterator[Closed[Item]]:
        """Close and return, one after the other, the windows whose idle time or age has come."""
        while self._deadlines and self._deadlines[0][0] <= now:
            _, number, key = heapq.heappop(self._deadlines)
            window = self._windows.get(key)
            if window is None or window.number != number:
                continue
            if window.due > now:
                heapq.heappush(self._deadlines, (window.due, number, key))
                continue
            trigger: Trigger = "age" if window.opened + self.policy.age <= now else "idle"
            yield from self.close(key, trigger)

    def clear(self) -> None:
        """Forget every window."""
        self._windows.clear()
        self._by_age.clear()
        self._deadlines.clear()
        self.items = 0
