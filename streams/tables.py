"""`DurableTable`: a Faust table whose writes are acknowledged by the broker before they are seen here.

Faust's own ``table[key] = value`` changes the local store at once and sends the changelog record later, without
telling whether it arrived. The outbox protocol needs the opposite order: first durable, then visible, then sent on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import faust

from schemas.codec import InvalidRecord, decode, encode
from streams.errors import DependencyDown
from streams.sender import Produce, delivered

Record = TypeVar("Record")

_KEPT: Final = 1_000
"""Records that a table keeps decoded: those of the users whose flushes are under way."""


class DurableTable(faust.Table[bytes, bytes]):
    """A table of bytes with awaited writes; recovered from its changelog like any Faust table.

    Attributes:
        produce: hands a record to the producer.
        guard: raises when this process may not write.
    """

    produce: Produce
    guard: Callable[[], None] = staticmethod(lambda: None)

    async def write(self, key: bytes, value: bytes, partition: int) -> None:
        """Write a value: returns when the broker has it, and only then shows it here.

        There must be one writer a key. `partition` is that of the source record: tables and topics have the same
        number of partitions.
        """

        self.guard()

        async def send() -> None:
            topic = self.changelog_topic.get_topic_name()
            await (await self.produce(topic, key, value, partition=partition, timestamp=None, headers=None))

        await delivered(send, f"a record of the table {self.name}")
        self.data[key] = value

    def read(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        store = self.data
        if key not in store:  # its `get` would raise and catch an error
            return None
        value: bytes = store[key]
        return value


class RecordTable(Generic[Record]):
    """A table of records of one type, which nobody changes.

    What was read or written last is kept decoded: each stage of a flush reads the record of its user.
    """

    def __init__(self, table: DurableTable, record_type: type[Record]) -> None:
        self._table = table
        self._type = record_type
        self._decoded: OrderedDict[bytes, tuple[bytes, Record]] = OrderedDict()

    async def write(self, key: bytes, record: Record, partition: int) -> None:
        """Write a record; returns when the broker has it.

        Raises:
            DependencyDown: when the broker did not take it.
            RecordFailed: when it is too large.
        """
        value = encode(record)
        await self._table.write(key, value, partition)
        self._keep(key, value, record)

    def read(self, key: bytes) -> Record | None:
        """Return the record of a key, or None.

        Raises:
            DependencyDown: when this release cannot read the record: everything waits until one runs that can.
        """
        value = self._table.read(key)
        if value is None:
            return None
        kept = self._decoded.get(key)
        if kept is not None and kept[0] is value:
            self._decoded.move_to_end(key)
            return kept[1]
        try:
            record = decode(value, self._type)
        except InvalidRecord as error:
            raise DependencyDown(
                f"the table holds a {self._type.__name__} that this release cannot read ({error}): run the release "
                "that wrote it"
            ) from error
        self._keep(key, value, record)
        return record

    def _keep(self, key: bytes, value: bytes, record: Record) -> None:
        self._decoded[key] = value, record
        self._decoded.move_to_end(key)
        if len(self._decoded) > _KEPT:
            self._decoded.popitem(last=False)


def durable_table(app: Any, name: str, partitions: int, guard: Callable[[], None]) -> DurableTable:
    """Create a table of bytes on an application; `guard` raises when this process may not write."""
    table = DurableTable(
        app,
        name=name,
        partitions=partitions,
        key_type=bytes,
        value_type=bytes,
        use_partitioner=True,
        help=f"state of {name}",
    )
    table.produce = app.produce
    table.guard = guard
    app.tables.add(table)
    return table
