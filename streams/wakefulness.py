"""`Wakefulness`: notices that the process was suspended for so long that its partitions may have another owner.

A process that is stopped, or whose machine is, does not know it. When it goes on, handlers that were in the middle of
something would write what its successor has written meanwhile. So every write asks first, and a process that has
slept too long writes nothing more and ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from streams.errors import DependencyDown

_BEAT: Final = 0.5


class Suspended(Exception):
    """This process was suspended; the message says for how long."""


class Wakefulness:
    """Knows when the process was last seen awake.

    Args:
        limit: seconds after which partitions may have been given to another worker: the group's session timeout.
        on_suspended: told once that it was suspended for longer.
    """

    def __init__(
        self,
        limit: float,
        on_suspended: Callable[[Suspended], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limit
        self._on_suspended = on_suspended
        self._monotonic = monotonic
        self._seen: float | None = None
        self._suspended: Suspended | None = None

    def check(self) -> None:
        """Return if this process may write.

        Raises:
            DependencyDown: when it was suspended for too long.
        """
        now = self._monotonic()
        if self._suspended is None and self._seen is not None and now - self._seen > self._limit:
            self._suspended = Suspended(
                f"this process was suspended for {now - self._seen:.0f} s: its partitions may have another owner by now"
            )
            self._on_suspended(self._suspended)
        if self._suspended is not None:
            raise DependencyDown(str(self._suspended))

    def beat(self) -> None:
        """Say that the process is awake; called a few times a second from its start on."""
        try:
            self.check()
        except DependencyDown:
            return
        self._seen = self._monotonic()

    async def run(self) -> None:
        """Beat for ever."""
        while True:
            self.beat()
            await asyncio.sleep(_BEAT)
