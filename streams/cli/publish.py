"""``profilestream publish``: files of JSON lines to the chat topic."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from streams.cli.common import (
    EXIT_REFUSED,
    CommandFailed,
    Options,
    json_option,
    name_of_input,
    on_terminal,
    place_of_line,
    print_json,
    printable,
    settings_options,
    stderr_console,
)
from streams.cli.parameters import TenantId

if TYPE_CHECKING:
    from streams.publishing import Publisher, Refusal
    from streams.settings import KafkaSettings


class Published(NamedTuple):
    """What became of the input."""

    sent: int
    refused: int
    users: int
    flushed: int
    seconds: float


@click.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE...",
)
@click.option("--tenant", type=TenantId(), help="Tenant of the lines that name none.  [default: default]")
@click.option("--flush", is_flag=True, help="Close the windows of all users at the end.")
@json_option
@settings_options
@click.pass_context
def publish(
    ctx: click.Context, files: tuple[Path, ...], tenant: str | None, flush: bool, as_json: bool, options: Options
) -> None:
    """Send chat messages from files of JSON lines; - reads standard input.

    Each line is one message: {"user_id": "anna", "role": "user", "content": "I moved to Lyon."} with, if known,
    "tenant_id", "session_id", "message_id", "speaker" and "occurred_at". Lines that cannot be processed are
    named and skipped, and the exit code is then 3.

    \b
    Examples:
      profilestream publish chat.jsonl
      zcat old/*.jsonl.gz | profilestream publish --flush -
    """
    settings = options.load()
    result = asyncio.run(_publish(settings.kafka, files, tenant, flush))
    if as_json:
        print_json(result._asdict())
    else:
        rate = result.sent / result.seconds if result.seconds else 0.0
        click.echo(
            f"{result.sent:,} messages of {result.users:,} users sent in {result.seconds:.1f} s ({rate:,.0f}/s), "
            f"{result.refused:,} refused" + (f", windows of {result.flushed:,} users closed" if flush else "")
        )
    if result.refused:
        ctx.exit(EXIT_REFUSED)


async def _publish(kafka: KafkaSettings, files: tuple[Path, ...], tenant: str | None, flush: bool) -> Published:
    from aiokafka.errors import KafkaError

    from streams.kafka import producer, unavailable
    from streams.lines import read_chunks
    from streams.publishing import Publisher
    from streams.topics import Topics, ensure_topics

    await ensure_topics(kafka)
    started = time.monotonic()
    async with producer(kafka) as client:
        with _progress(files) as (advance, complain):
            publisher = Publisher(client, Topics.of(kafka).messages, on_refused=complain, tenant=tenant)
            try:
                for file in files:
                    with _opened(file) as stream:
                        await publisher.publish(str(file), read_chunks(stream), lambda size: advance(publisher, size))
                if flush:
                    await publisher.flush_windows()
            except KafkaError as error:
                raise CommandFailed(
                    f"{publisher.sent:,} messages are acknowledged, but then: {unavailable(kafka, error)}"
                ) from error
            except OSError as error:
                raise CommandFailed(
                    f"{publisher.sent:,} messages are acknowledged, but then: cannot read {name_of_input(file)}: "
                    f"{error.strerror}"
                ) from error
    seconds = time.monotonic() - started
    return Published(publisher.sent, publisher.refused, publisher.users, publisher.flushed, seconds)


def _opened(file: Path) -> io.FileIO:
    return io.FileIO(0, closefd=False) if str(file) == "-" else io.FileIO(file)


@contextlib.contextmanager
def _progress(
    files: tuple[Path, ...],
) -> Iterator[tuple[Callable[[Publisher, int], None], Callable[[Refusal], None]]]:
    """Show a bar with count and rate on a terminal; give what moves it and what prints refusals above it."""
    console = stderr_console()

    def complain(refusal: Refusal) -> None:
        console.print(f"{place_of_line(refusal.source, refusal.line)}: {printable(refusal.reason)}", soft_wrap=True)

    if not on_terminal():
        yield (lambda publisher, size: None), complain
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    progress = Progress(
        TextColumn("publishing"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[sent]:,} messages, {task.fields[rate]:,.0f}/s"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with progress:
        task = progress.add_task("", total=_size(files), sent=0, rate=0.0)

        def advance(publisher: Publisher, size: int) -> None:
            elapsed = progress.tasks[task].elapsed or 0.0
            rate = publisher.sent / elapsed if elapsed else 0.0
            progress.update(task, advance=size, sent=publisher.sent, rate=rate)

        yield advance, complain


def _size(files: tuple[Path, ...]) -> int | None:
    """Return the size of all input in bytes, or None when a part of it comes through a pipe."""
    found = [os.stat(0 if str(file) == "-" else file) for file in files]
    regular = all(stat.S_ISREG(one.st_mode) for one in found)
    return sum(one.st_size for one in found) if regular else None
