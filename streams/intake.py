"""`Intake`: decides when a record may be taken from a stream, and whether it still may.

Shared by everything that holds unacknowledged records: closed while a drain is under way, full when too much is
open. A stream that is not read makes Faust pause its partition, so waiting here is the backpressure.
"""

from __future__ import annotations

import asyncio

from streams.ledger import Ledger, OutOfOrder
from streams.records import Event, Source


class Intake:
    """A gate and a measure of room; closed until `resume` is called.

    Args:
        source: the application that the records come from.
        ledger: knows what has been taken.
        capacity: open records from which on nothing more is taken.
    """

    def __init__(self, source: Source, ledger: Ledger, capacity: int) -> None:
        self._source = source
        self._ledger = ledger
        self._capacity = capacity
        self._records = 0
        self._gate = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def draining(self) -> bool:
        """Whether nothing is taken."""
        return not self._gate.is_set()

    async def admit(self, event: Event) -> bool:
        """Wait until there is room for the record.

        Returns False when nothing is taken any more or its assignment has ended: whoever owns the partition next reads
        it again. Likewise when the same record was delivered and taken before.
        """
        while self._gate.is_set() and not self._room.is_set():
            await self._room.wait()
        return self._gate.is_set() and self._source.is_current(event) and not self._is_repeat(event)

    def _is_repeat(self, event: Event) -> bool:
        try:
            return self._ledger.has_taken(event)
        except OutOfOrder as error:
            self._source.crash(error)
            return True

    def load(self, records: int) -> None:
        """Say how many records are open now."""
        self._records = records
        self._update_room()

    def close(self) -> None:
        """Take nothing until `resume`; who waits for room is sent away."""
        self._gate.clear()
        self._update_room()

    def resume(self) -> None:
        """Take records again."""
        self._gate.set()
        self._update_room()

    def _update_room(self) -> None:
        if self._records < self._capacity or not self._gate.is_set():
            self._room.set()
        else:
            self._room.clear()
