"""`Lifecycle`: stops, drains and restarts everything that holds unacknowledged records, around a rebalance.

Faust re-reads the records of every partition after a rebalance, also of those that stay. So each participant
finishes what is running within a limit, forgets the rest without acknowledging it, and starts afresh.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

logger = logging.getLogger(__name__)

_LOOK_AGAIN: Final = 0.02


class Participant(Protocol):
    """Holds records that were taken and are not yet acknowledged."""

    def begin_drain(self) -> None:
        """Take nothing new, finish what is running; forget at once what is only waiting."""
        ...

    def abandon(self) -> None:
        """Cancel what is running and forget everything: it will be read again."""
        ...

    def resume(self) -> None:
        """Start taking records again, with nothing left of before."""
        ...

    @property
    def running(self) -> int:
        """Number of records whose processing would be cut off now."""
        ...


class Lifecycle:
    """Drives the participants of one application; every method runs in the event loop.

    Args:
        drain_seconds: how long running work may take to finish once a rebalance or stop has begun; must be
            below the group's rebalance timeout, or the broker drops the member before it is done.

    Attributes:
        log_is_kept: the log outlives the process, so that what is given up is read again.
    """

    def __init__(self, drain_seconds: float) -> None:
        self._drain_seconds = drain_seconds
        self.log_is_kept = True
        self._participants: list[Participant] = []
        self._deadline: asyncio.TimerHandle | None = None

    def register(self, participant: Participant) -> None:
        """Add a participant; before the application starts."""
        self._participants.append(participant)

    def begin_drain(self) -> None:
        """Begin a drain; safe to call again while one is under way."""
        for participant in self._participants:
            participant.begin_drain()
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().call_later(self._drain_seconds, self._expire)

    async def drained(self) -> None:
        """Wait until nothing runs any more, or the drain's time is over."""
        while self._deadline is not None and any(participant.running for participant in self._participants):
            await asyncio.sleep(_LOOK_AGAIN)

    def _expire(self) -> None:
        self._deadline = None
        running = sum(participant.running for participant in self._participants)
        if running:
            logger.warning(
                "%d records were still being processed after %.0f s; they are given up here and %s",
                running,
                self._drain_seconds,
                "will be read again" if self.log_is_kept else "lost: this broker keeps nothing",
            )
        for participant in self._participants:
            participant.abandon()

    def resume(self) -> None:
        """Forget what a drain left over and take records again."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        for participant in self._participants:
            participant.abandon()
            participant.resume()

    def close(self) -> None:
        """Forget everything for good."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        for participant in self._participants:
            participant.abandon()
