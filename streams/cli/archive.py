"""What the commands that read the archive have in common."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from streams.cli.common import CommandFailed, Options, printable, stdout_console
from streams.cli.printing import local_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from sinks.clickhouse import ClickHouseArchive
    from sinks.clickhouse.ready import ReadyQuery


@asynccontextmanager
async def reading_archive(options: Options) -> AsyncIterator[ClickHouseArchive]:
    """Open the archive for reading; making its tables is left to workers, who need the right to do so."""
    from streams.stores import open_archive

    async with open_archive(options.load().clickhouse) as store:
        with missing_tables():
            yield store


@contextmanager
def missing_tables() -> Iterator[None]:
    """Read from the archive, and say what to do where its tables are missing.

    Raises:
        CommandFailed: when they are.
    """
    from sinks.errors import SinkRejected

    try:
        yield
    except SinkRejected as error:
        if "Code: 60." not in str(error):  # UNKNOWN_TABLE
            raise
        raise CommandFailed(
            "the archive has no tables yet, or those of an older release: a worker makes them when it starts "
            "(`profilestream up` or `worker`), and so does `profilestream migrate`"
        ) from error


def ready_query(name: str) -> ReadyQuery:
    """Return the ready query of that name.

    Raises:
        click.UsageError: when there is none.
    """
    from sinks.clickhouse.ready import ready_queries

    query = ready_queries().get(name)
    if query is None:
        raise click.UsageError(f"there is no query {name!r}: `profilestream query` lists them.")
    return query


async def ready_rows(options: Options, name: str, parameters: Mapping[str, str]) -> list[dict[str, Any]]:
    """Run a ready query and return its rows.

    Raises:
        click.UsageError: when there is no such query, or a parameter is missing, not known or unreadable.
    """
    from sinks.errors import SinkRejected

    query = ready_query(name)
    async with reading_archive(options) as store:
        try:
            return await store.query(query, parameters)
        except ValueError as error:
            raise click.UsageError(f"{error}.") from error
        except SinkRejected as error:
            if not any(f"Code: {code}." in str(error) for code in _UNREADABLE):
                raise
            given = ", ".join(f"{name}={value}" for name, value in parameters.items())
            raise click.UsageError(
                f"one of the values cannot be read ({given}): times are such as 2026-03-01 or 2026-03-01T12:00:00Z, "
                "numbers such as 100."
            ) from error


_UNREADABLE = frozenset({6, 27, 38, 41, 72, 457})
"""ClickHouse's errors about a value that is no number or no time: CANNOT_PARSE_..., BAD_QUERY_PARAMETER."""


def print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as a table for people, times in their zone."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*rows[0], box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(printable(cell(value)), overflow="fold") for value in row.values()))
    stdout_console().print(table)


def cell(value: object) -> str:
    """Return a value as it is printed in a table."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return local_time(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)
