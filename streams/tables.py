"""`DurableTable`: a Faust table whose writes are acknowledged by the broker before they are seen here.

Faust's own ``table[key] = value`` changes the local store at once and sends the changelog record later, without
telling whether it arrived. The outbox protocol needs the opposite order: first durable, then visible, then sent on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import faust

from schemas.codec import InvalidRecord, decode, encode
from streams.errors import DependencyDown
from streams.sender import delivered

Record = TypeVar("Record")


class DurableTable(faust.Table[bytes, bytes]):
    """A table of bytes with awaited writes; recovered from its changelog like any Faust table.

    Attributes:
        guard: raises when this process may not write.
    """

    guard: Callable[[], None] = staticmethod(lambda: None)

    async def write(self, key: bytes, value: bytes, partition: int) -> None:
        """Write a value: returns when the broker has it, and only then shows it here.

        There must be one writer a key. `partition` is that of the source record: tables and topics have the same
        number of partitions.
        """

        self.guard()

        async def send() -> None:
            await (await self.changelog_topic.send(key=key, value=value, partition=partition))

        await delivered(send, f"a record of the table {self.name}")
        self.data[key] = value

    def read(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""
        value: bytes | None = self.data.get(key)
        return value


class RecordTable(Generic[Record]):
    """A table of records of one type."""

    def __init__(self, table: DurableTable, record_type: type[Record]) -> None:
        self._table = table
        self._type = record_type

    async def write(self, key: bytes, record: Record, partition: int) -> None:
        """Write a record; returns when the broker has it.

        Raises:
            DependencyDown: when the broker did not take it.
            RecordFailed: when it is too large.
        """
        await self._table.write(key, encode(record), partition)

    def read(self, key: bytes) -> Record | None:
        """Return the record of a key, or None.

        Raises:
            DependencyDown: when this release cannot read the record: everything waits until one runs that can.
        """
        value = self._table.read(key)
        if value is None:
            return None
        try:
            return decode(value, self._type)
        except InvalidRecord as error:
            raise DependencyDown(
                f"the table holds a {self._type.__name__} that this release cannot read ({error}): run the release "
                "that wrote it"
            ) from error


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
    table.guard = guard
    app.tables.add(table)
    return table
