"""What the commands that read the archive have in common."""

from __future__ import annotations

import re
import shlex
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from streams.cli.common import CommandFailed, Options, did_you_mean, printable, stdout_console
from streams.cli.parameters import moment, quoted
from streams.cli.printing import local_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from sinks.clickhouse import ClickHouseArchive
    from sinks.clickhouse.ready import ReadyQuery

TIMES: Final = frozenset({"at", "since", "until"})
"""Parameters of ready queries that are moments."""

_EXAMPLES: Final = {"user": "anna", "topic": "work", "sub_topic": "company"}
_KIND: Final = re.compile(r"\{(\w+):(\w+)\}")
_WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")


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

    queries = ready_queries()
    if name not in queries:
        raise click.UsageError(
            f"there is no query {quoted(name)}{did_you_mean(name, queries)}: `profilestream query` lists them."
        )
    return queries[name]


def checked(query: ReadyQuery, given: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of a ready query that a person gave, times in UTC.

    Raises:
        click.UsageError: when one is missing, not known or unreadable; the message says which, and what can be read.
    """
    names = [parameter.name for parameter in query.parameters]
    for name in given:
        if name not in names:
            raise click.UsageError(
                f"query {query.name} has no parameter {quoted(name)}{did_you_mean(name, names)}: it has "
                f"{', '.join(names)}."
            )
    missing = [one.name for one in query.parameters if one.default is None and one.name not in given]
    if missing:
        values = {**given, **{name: _EXAMPLES.get(name, "VALUE") for name in missing}}
        example = " ".join(f"-p {shlex.quote(f'{name}={value}')}" for name, value in values.items())
        raise click.UsageError(
            f"query {query.name} needs --param {_enumeration(missing)}, for example "
            f"`profilestream query {query.name} {printable(example)}`."
        )
    kinds = dict(_KIND.findall(query.sql))
    values = {}
    for name, value in given.items():
        try:
            values[name] = _readable(name, value, kinds.get(name, "String"))
        except ValueError as error:
            raise click.UsageError(f"--param {name}: {error}.") from error
    return values


def _readable(name: str, value: str, kind: str) -> str:
    if name in TIMES:
        return utc(moment(value))
    if kind.startswith("UInt") and not _WHOLE_NUMBER.fullmatch(value):
        raise ValueError(f"{quoted(value)} is no whole number: give one such as 100")
    if kind.startswith("Float") and not _NUMBER.fullmatch(value):
        raise ValueError(f"{quoted(value)} is no number: give one such as 0.15")
    return value


def _enumeration(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def utc(time: datetime) -> str:
    """Return a moment as ready queries read it."""
    return time.astimezone(UTC).isoformat()


async def ready_rows(options: Options, name: str, parameters: Mapping[str, str]) -> list[dict[str, Any]]:
    """Run a ready query, with parameters that can be read, and return its rows."""
    async with reading_archive(options) as store:
        return await store.query(ready_query(name), parameters)


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
