"""Messages that were found in a partition which is not their user's, and sent on: where they were first.

A worker that dies between the sending and the acknowledgement sends the message on again. The copies of one user and
one first partition arrive in the order of their first offsets, so one number for each such pair tells a second copy.

Any client can write the header that says where a message was. One that names a place where nothing is yet would make
every later message from there a second copy, so such a message is taken as what it is: one that was never moved.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

MOVED_HEADER: Final = "profilestream-moved-from"
"""On a message that was sent on: ``log_id:partition:offset`` of where it was."""

_PLACE: Final = re.compile(r"(.+):([0-9]{1,10}):([0-9]{1,19})", re.DOTALL)
"""The header is for any client to write: numbers that no log has are none."""


LogEnds: TypeAlias = Callable[[Sequence[int]], Awaitable[list[int]]]
"""Tells where partitions of the chat topic end, in one question: the broker answers each after the fetch that waits."""


class Origin(NamedTuple):
    """Where a message was written first.

    Attributes:
        log_id: the message log.
        partition: partition of the chat topic.
        offset: within it.
    """

    log_id: str
    partition: int
    offset: int

    @property
    def place(self) -> str:
        """Log and partition, as the key of a mapping."""
        return f"{self.log_id}:{self.partition}"

    def header(self) -> tuple[str, bytes]:
        """Return the header that says so."""
        return MOVED_HEADER, f"{self.place}:{self.offset}".encode()


class LogReplaced(Exception):
    """The chat topic has not the records that were processed before; the message says what to do."""

    def __init__(self, partition: int, offset: int) -> None:
        super().__init__(
            f"offset {offset} of partition {partition} of the chat topic was processed before, and is not there: the "
            "topic was deleted and made again; set kafka.log_id (PROFILESTREAM_KAFKA__LOG_ID) to a name that was not "
            "used before"
        )


class Log:
    """The chat topic as far as it is written.

    Args:
        log_id: name of the message log.
        partitions: number of its partitions.
        log_ends: for each of these partitions the offset that its next record will have; 0 where there is no such
            partition.
    """

    def __init__(self, log_id: str, partitions: int, log_ends: LogEnds) -> None:
        self._log_id = log_id
        self._partitions = partitions
        self._log_ends = log_ends
        self._ends: dict[int, int] = {}

    async def ends(self) -> list[int]:
        """Return where each partition ends now."""
        return await self._log_ends(range(self._partitions))

    def is_known(self, partition: int, offset: int) -> bool:
        """Whether it is known already that there was a record at this offset."""
        return offset < self._ends.get(partition, 0)

    async def holds(self, partition: int, offset: int) -> bool:
        """Return whether there was a record at this offset.

        Raises:
            DependencyDown: when the end of the partition is not known.
        """
        if not self.is_known(partition, offset):
            (self._ends[partition],) = await self._log_ends((partition,))
        return self.is_known(partition, offset)

    async def verified(self, claimed: Origin | None, partition: int) -> Origin | None:
        """Return where a message was written first, or None when it cannot have been there.

        Args:
            claimed: what its header says.
            partition: where it lies now.

        Raises:
            DependencyDown: when the end of the log is not known.
        """
        if claimed is None or claimed.log_id != self._log_id or claimed.partition == partition:
            return None
        return claimed if await self.holds(claimed.partition, claimed.offset) else None


def origin_of(headers: Iterable[tuple[str, bytes | None]]) -> Origin | None:
    """Return where a message was written first, or None when it was not moved."""
    value = dict(headers).get(MOVED_HEADER)
    try:
        found = _PLACE.fullmatch(value.decode()) if value is not None else None
    except UnicodeDecodeError:
        return None
    return Origin(found[1], int(found[2]), int(found[3])) if found else None


def merged(seen: Mapping[str, int], origins: Iterable[Origin | None]) -> dict[str, int]:
    """Return the highest offset of each first partition, further messages included."""
    highest = dict(seen)
    for origin in origins:
        if origin is not None:
            highest[origin.place] = max(highest.get(origin.place, -1), origin.offset)
    return highest
