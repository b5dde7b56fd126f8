"""`Result`: what a benchmark with a command of its own has measured, on the terminal, as JSON and as a page.

A page goes to ``benchmarks/results``, where figures are kept with the command, machine and settings that they are of.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.table import Table as TerminalTable
from rich.text import Text

from benchmarks.harness import CommandError
from benchmarks.kafka_jars import KafkaMissing
from benchmarks.load.machine import Machine
from benchmarks.load.report import Finding
from schemas.codec import encode
from streams.embedded.child import ServiceFailed
from streams.kafka import KafkaUnavailable
from streams.settings import SettingsError, describe, load_settings

RESULTS: Final = Path(__file__).parent / "results"
"""Where pages are kept."""

_SERVICES: Final = frozenset({"kafka", "clickhouse", "qdrant", "metrics"})
"""Groups of settings whose services are started for a run."""

_BUSY: Final = 0.25
"""Processes for each core that may want a processor before a run; with more the page says that it was disturbed."""


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Figures in rows.

    Attributes:
        title: what they are about; empty when the text around it says so.
        columns: names of the columns; the first one names the row.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured, and where and how.

    Attributes:
        title: what it is about.
        command: that measures it again.
        settings: what decided it, as people read it.
        findings: the figures that it is about, with their targets.
        tables: figures behind them.
        problems: what makes the figures worth nothing, a sentence each.
        data: what was measured, for programs.
        timed: whether a machine with other work to do gives other figures.
    """

    title: str
    command: str
    machine: Machine
    settings: dict[str, str]
    findings: tuple[Finding, ...]
    tables: tuple[Table, ...] = ()
    problems: tuple[str, ...] = ()
    data: dict[str, Any] = {}
    timed: bool = True

    @property
    def missed(self) -> list[Finding]:
        """Figures that are not what they should be."""
        return [finding for finding in self.findings if finding.met is False]


def add_options(parser: argparse.ArgumentParser, page: str) -> None:
    """Add the options that say what becomes of a result.

    Args:
        parser: of the command.
        page: name of its page among the results.
    """
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument(
        "--record", nargs="?", type=Path, const=RESULTS / page, metavar="FILE",
        help=f"write the result as a page; without FILE to benchmarks/results/{page}",
    )  # fmt: skip


def finish(result: Result, options: argparse.Namespace) -> int:
    """Show a result as the options of `add_options` say; returns 1 when a target is missed or something is wrong."""
    if options.record is not None:
        options.record.write_text(markdown(result), encoding="utf-8")
    if options.json:
        print(encode(result).decode())
    show(Console(stderr=options.json), result)
    return int(bool(result.missed or result.problems))


def say(what: str) -> None:
    """Tell on standard error how a benchmark goes on."""
    print(what, file=sys.stderr, flush=True)


def tenths(total: int, what: str) -> Callable[[float], None]:
    """Return what tells on standard error how many of `total` are done, once for each tenth of them."""
    told = 0

    def tell(done: float) -> None:
        nonlocal told
        reached = int(10 * done / total) if total else 0
        if reached > told:
            told = reached
            say(f"  {done:,.0f} of {total:,} {what}")

    return tell


def changed_settings() -> str:
    """Return the settings of this process that are not the defaults, but for where services are, as people read it."""
    found = [
        f"{one.name}={one.value}"
        for one in describe(load_settings())
        if one.source != "default" and one.name.partition(".")[0] not in _SERVICES
    ]
    return ", ".join(found) or "the defaults"


def performed(measure: Callable[[], Coroutine[Any, Any, Result]], done: Callable[[Result], int]) -> int:
    """Measure, hand the result to `done` and return its exit code; what cannot be run is said in a sentence.

    SIGTERM ends it as Ctrl-C does, so that all that was started for it ends as well.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return done(asyncio.run(measure()))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (KafkaMissing, KafkaUnavailable, ServiceFailed, CommandError, SettingsError, TimeoutError) as error:
        print(f"error: {error or 'something took too long'}", file=sys.stderr)
        return 1


def show(console: Console, result: Result) -> None:
    """Print a result for people."""
    for table in result.tables:
        console.print()
        console.print(_terminal(table.columns, table.rows, table.title))
    console.print()
    for name, value in result.settings.items():
        console.print(Text(f"{name}: {value}", "dim"), soft_wrap=True)
    console.print(Text(str(result.machine), "dim"), soft_wrap=True)
    console.print()
    marks = {True: "met", False: "missed", None: ""}
    rows = [(one.what, one.value, one.target, marks[one.met]) for one in result.findings]
    console.print(_terminal(("what", "measured", "target", ""), rows, ""))
    for problem in result.problems:
        console.print(Text(f"does not add up: {problem}", "bold red"), soft_wrap=True)


def _terminal(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> TerminalTable:
    table = TerminalTable(title=title or None, title_justify="left", box=None, pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, overflow="fold", justify="right" if title and position else "left")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def markdown(result: Result) -> str:
    """Return a result as a page."""
    return "\n".join(_lines(result)) + "\n"


def _lines(result: Result) -> Iterator[str]:
    machine = result.machine
    yield f"# {result.title}"
    yield ""
    if result.timed and machine.load > _BUSY * machine.cores:
        yield (
            f"**The machine was not quiet** ({machine.load:.1f} processes wanted its {machine.cores} cores in the "
            "minute before); to be run again with"
        )
        yield ""
    yield from ("```sh", result.command, "```", "")
    for problem in result.problems:
        yield from (f"**Does not add up:** {problem}.", "")
    rows = [(one.what, one.target, _measured(one)) for one in result.findings]
    yield from _rows(("what", "target", "measured"), rows)
    for table in result.tables:
        yield ""
        if table.title:
            yield from (f"## {table.title}", "")
        yield from _rows(table.columns, table.rows)
    yield ""
    yield from (f"- {name}: {value}" for name, value in result.settings.items())
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items() if name != "profilestream")
    yield f"- machine: {machine}"
    yield f"- versions: {versions}"


def _measured(finding: Finding) -> str:
    if finding.met is None:
        return finding.value
    return finding.value if finding.met else f"**{finding.value}, missed**"


def _rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
