"""`Ledger`: acknowledges records strictly in offset order, whatever order they are finished in.

Faust commits past records that are still being processed when acknowledgements arrive out of order. Here a
record is acknowledged only once every earlier record of its partition is: what Faust sees is always in order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from streams.records import Event, TopicPartition


@dataclass(slots=True, eq=False)
class Entry:
    """A record that was taken and is not yet acknowledged.

    Attributes:
        epoch: the ledger's epoch when it was taken; an older one belongs to an assignment that is gone.
        done: processed; acknowledged as soon as everything before it is.
        held: it waits for another record and runs no handler (`streams.lanes`).
        decoded: what a stage has read it as, until it is done.
    """

    event: Event
    epoch: int
    done: bool = False
    held: bool = False
    decoded: object = None


class OutOfOrder(Exception):
    """A record was delivered after later ones of its partition, or without the one before it."""


class Ledger:
    """Open records of every partition, in the order they were read. Not thread-safe: one event loop.

    Args:
        contiguous: the topic is one of ours, neither compacted nor written in transactions, so that a gap between
            offsets means that a record was not delivered.

    Attributes:
        epoch: rises with each assignment.
        opened: records entered so far, in all epochs.
    """

    def __init__(self, *, contiguous: bool = False) -> None:
        self._contiguous = contiguous
        # By plain pairs, which are quicker to make for every record than a `TopicPartition`.
        self._open: dict[tuple[str, int], deque[Entry]] = {}
        self._taken: dict[tuple[str, int], tuple[int, int]] = {}
        self.epoch = 0
        self.opened = 0

    def has_taken(self, event: Event) -> bool:
        """Whether this very record was taken before, in this epoch.

        When partitions are assigned, Faust may deliver records, go back to the committed offset and deliver them again.

        Raises:
            OutOfOrder: when the record lies before everything that was taken, or one before it is missing. Nothing may
                be acknowledged past what was not processed: the process must start afresh.
        """
        message = event.message
        taken = self._taken.get((message.topic, message.partition))
        if taken is None or message.offset > taken[1]:
            if self._contiguous and taken is not None and message.offset != taken[1] + 1:
                raise OutOfOrder(
                    f"{message.topic}[{message.partition}]@{message.offset} was delivered straight after {taken[1]}"
                )
            return False
        if message.offset < taken[0]:
            raise OutOfOrder(
                f"{message.topic}[{message.partition}]@{message.offset} was delivered after offset {taken[1]}"
            )
        return True

    def open(self, event: Event) -> Entry:
        """Enter a record that is taken now; those of a partition must come in offset order, each once."""
        entry = Entry(event, self.epoch)
        message = event.message
        place = message.topic, message.partition
        self._taken[place] = (self._taken.get(place, (message.offset, 0))[0], message.offset)
        self._open.setdefault(place, deque()).append(entry)
        self.opened += 1
        return entry

    def close(self, entry: Entry) -> None:
        """Mark a record as processed and acknowledge what has become the finished head of its partition.

        A record of an earlier epoch is ignored: its partition was given up in the meantime.
        """
        if entry.epoch != self.epoch:
            return
        entry.done = True
        entry.decoded = None
        message = entry.event.message
        place = message.topic, message.partition
        waiting = self._open[place]
        while waiting and waiting[0].done:
            waiting.popleft().event.ack()
        if not waiting:
            del self._open[place]

    def abandon(self) -> None:
        """Forget every open record, finished ones behind an unfinished one included; they will be read again."""
        self.epoch += 1
        self._open.clear()
        self._taken.clear()

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    def positions(self) -> dict[TopicPartition, int]:
        """Return, for each partition of which a record was taken, the first offset that is not acknowledged."""
        return {
            TopicPartition(*place): self._open[place][0].event.message.offset if place in self._open else last + 1
            for place, (_, last) in self._taken.items()
        }
