"""`Drain`: brings what is under way into the stores before a broker that keeps nothing is stopped.

It takes as long as it takes, while it gets on. Once nothing has moved for a while, what waits for a service is parked
in the dead letters, which outlive the broker; what still does not move then is left.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streams.lanes import KeyedLanes

logger = logging.getLogger(__name__)

_LOOK_AGAIN: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What a drain has come to.

    Attributes:
        parked: records that waited for a service and are dead letters now.
        complete: everything else is in the stores.
        archive_left: flushes and deltas that did not reach the archive.
        index_left: those that did not reach the vector index.
    """

    parked: int
    complete: bool
    archive_left: int
    index_left: int


class Drain:
    """Waits for work to end for as long as it gets on.

    Args:
        lanes: the stages whose records can be parked.
        moved: returns something else whenever there was progress.
        patience: seconds without progress after which nothing is waited for any more.
        left: how much is outstanding.
    """

    def __init__(
        self, lanes: Sequence[KeyedLanes], moved: Callable[[], object], patience: float, left: Callable[[], int]
    ) -> None:
        self._lanes = lanes
        self._moved = moved
        self._patience = patience
        self._left = left

    @property
    def parked(self) -> int:
        """Records that were parked because they waited."""
        return sum(lane.stopped for lane in self._lanes)

    async def until_done(self, work: Coroutine[Any, Any, None]) -> bool:
        """Wait for the work, and return whether it came to its end; otherwise it is cancelled."""
        task = asyncio.create_task(work)
        try:
            if await self._ends(task):
                return True
            if any(lane.running for lane in self._lanes):
                logger.warning(
                    "nothing has moved for %.0f s: what waits for a service is parked in the dead letters",
                    self._patience,
                )
                for lane in self._lanes:
                    lane.stop_waiting()
                if await self._ends(task):
                    return True
            logger.warning(
                "nothing has moved for %.0f s: %d records have not reached the stores", self._patience, self._left()
            )
            return False
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _ends(self, task: asyncio.Task[None]) -> bool:
        loop = asyncio.get_running_loop()
        before, since = self._moved(), loop.time()
        while loop.time() - since < self._patience:
            done, _ = await asyncio.wait({task}, timeout=_LOOK_AGAIN)
            if done:
                await task
                return True
            now = self._moved()
            if now != before:
                before, since = now, loop.time()
        return False
