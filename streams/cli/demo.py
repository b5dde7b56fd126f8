"""``profilestream demo``: everything at work on a conversation, from the first message to the search."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from streams.cli.common import CommandFailed, Options, printable, settings_options, stdout_console

if TYPE_CHECKING:
    from rich.console import Console

    from schemas.deltas import ProfileDelta
    from streams.cli.watch import Watcher
    from streams.lines import Line
    from streams.running import Embedded
    from streams.settings import Settings

_STILL: Final = 180.0
"""Seconds without anything happening after which the demo gives up."""

_DEMO: Final = {"window": {"by_session": True}, "lanes": {"drain": 0}}
"""A window for each session, so that profiles are seen to change; on Ctrl-C nothing is finished."""

_OTHER_COLUMNS: Final = 46
"""Of the history as a table: version, operation, day and lines take so much room, three values the rest."""

_NARROWEST: Final = 11

_CHUNK: Final = 1 << 18

_SAMPLE_QUESTIONS: Final = ("someone who enjoys being outdoors", "喜欢音乐的人")


@click.command()
@click.argument("chat", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="[CHAT]")
@settings_options
def demo(chat: Path | None, options: Options) -> None:
    """Show everything at work on the sample conversations, or on CHAT, a file of JSON lines of your own.

    Runs on embedded services in a temporary folder, which is removed at the end. Where OPENAI_API_KEY and
    OPENAI_MODEL are set (and OPENAI_BASE_URL for another server), that model reads the conversation; otherwise rules
    do.

    \b
    Examples:
      profilestream demo
      profilestream demo chat.jsonl
    """
    from streams.logs import configure_logs
    from streams.running import run

    configure_logs(30)
    if chat is not None and chat.is_file():  # a pipe can be read only once
        _require_message(chat)
    run(_demo(chat, options))


async def _demo(chat: Path | None, options: Options) -> None:
    from streams.cli.checks import require_model
    from streams.running import stop_signals

    console = stdout_console()
    await require_model(options.load({}))
    _heading(console, "Starting a broker, ClickHouse, Qdrant and a worker on this machine")
    with tempfile.TemporaryDirectory(prefix="profilestream-") as folder, stop_signals() as stop:
        playing = asyncio.create_task(_play(console, chat, options, Path(folder)))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({playing, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if playing.done():
            playing.result()
            return
        console.print("stopping ...")
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        raise KeyboardInterrupt


def _require_message(chat: Path) -> None:
    """Look whether a file has any message, before services are started for it.

    Raises:
        CommandFailed: when it has none, or cannot be read.
    """
    from schemas.codec import InvalidRecord
    from streams.publishing import read_line

    wrong, otherwise = "", "it is empty"
    try:
        for line in _lines(chat):
            try:
                if read_line(line)[1].type == "message":
                    return
                otherwise = "it has only control events"
            except InvalidRecord as error:
                wrong = wrong or f"line {line.number}: {error}"
    except OSError as error:
        raise CommandFailed(f"{printable(str(chat))} cannot be read: {error.strerror}") from error
    raise CommandFailed(
        f"{printable(str(chat))} holds no message that can be processed ({printable(wrong) or otherwise}): "
        "`profilestream publish --help` shows how a line must be"
    )


def _lines(file: Path) -> Iterator[Line]:
    """Yield the lines of a file that are not blank."""
    from schemas.messages import MAX_MESSAGE_BYTES
    from streams.lines import LineSplitter

    splitter = LineSplitter(MAX_MESSAGE_BYTES)
    with file.open("rb") as stream:
        found = chain.from_iterable(map(splitter.feed, iter(lambda: stream.read(_CHUNK), b"")))
        yield from (line for line in chain(found, splitter.finish()) if line.data is None or line.data.strip())


async def _play(console: Console, chat: Path | None, options: Options, folder: Path) -> None:
    """Run the services and the worker for as long as the show takes."""
    from streams.cli.watch import Watcher
    from streams.running import Embedded

    async with Embedded.open(folder, lambda services: options.load({**services, **_DEMO})) as embedded:
        _say_processor(console, embedded.settings)
        watcher = Watcher(console, embedded.settings.kafka)
        show = asyncio.create_task(_show(console, chat, embedded, watcher))
        failing = asyncio.create_task(embedded.run(asyncio.Event()))
        try:
            await asyncio.wait({show, failing}, return_when=asyncio.FIRST_COMPLETED)
            if failing.done():
                failing.result()
            show.result()
        finally:
            show.cancel()
            failing.cancel()
            await asyncio.gather(show, failing, return_exceptions=True)


def _heading(console: Console, text: str) -> None:
    console.print(f"\n── {text} ", style="bold")


def _say_processor(console: Console, settings: Settings) -> None:
    from streams.processors import uses_model

    if uses_model(settings.model):
        console.print(f"The model {settings.model.name} reads the conversation.")
    elif os.environ.get("OPENAI_API_KEY"):
        console.print("OPENAI_API_KEY is set, but no model is named (OPENAI_MODEL): rules read the conversation.")
    else:
        console.print("No model is set (OPENAI_API_KEY, OPENAI_MODEL): rules read the conversation, offline.")


async def _show(console: Console, chat: Path | None, embedded: Embedded, watcher: Watcher) -> None:
    settings = embedded.settings
    async with watcher:
        await _publish(console, chat, settings, watcher)
        _heading(console, "Windows close, and profiles change")
        await watcher.until_done(_STILL)
    if watcher.failed:
        raise CommandFailed(
            f"{watcher.failed} flushes could not be processed, as said above: `profilestream doctor` checks the model"
        )
    if not watcher.deltas:
        console.print("The conversation says nothing about its users that was understood.")
        return
    if embedded.worker.outstanding is not None:
        await embedded.worker.outstanding.wait_empty()
    tenant_id, user_id = _most_changed(watcher.deltas)
    await _show_profile(console, settings, tenant_id, user_id)
    await _show_history(console, settings, tenant_id, user_id)
    await _show_search(console, settings, watcher.deltas, own=chat is not None)
    _say_next(console)


async def _publish(console: Console, chat: Path | None, settings: Settings, watcher: Watcher) -> None:
    from streams.kafka import producer
    from streams.lines import read_chunks
    from streams.publishing import Publisher
    from streams.samples import sample_names, sample_path
    from streams.topics import Topics

    files = [chat] if chat else [sample_path(name) for name in sample_names()]
    _heading(console, f"Publishing {', '.join(file.name for file in files)}")
    async with producer(settings.kafka) as client:
        publisher = Publisher(
            client,
            Topics.of(settings.kafka).messages,
            on_refused=lambda refusal: console.print(f"{printable(refusal.source)}:{refusal.line}: {refusal.reason}"),
        )
        for file in files:
            with file.open("rb", buffering=0) as stream:
                await publisher.publish(str(file), read_chunks(stream), lambda _size: None)
        if not publisher.messages:
            raise CommandFailed(f"{chat} holds no message that can be processed; see `profilestream publish --help`")
        watcher.expect(publisher.messages)
        console.print(f"{publisher.messages} messages of {publisher.users} users.")
        await publisher.flush_windows()


def _most_changed(deltas: list[ProfileDelta]) -> tuple[str, str]:
    """Return the user whose profile was rewritten most often: the most to see."""
    changes = Counter((delta.tenant_id, delta.user_id) for delta in deltas)
    changes.update((delta.tenant_id, delta.user_id) for delta in deltas if delta.op in {"update", "delete"})
    changes.update((delta.tenant_id, delta.user_id) for delta in deltas if delta.op in {"update", "delete"})
    return changes.most_common(1)[0][0]


async def _show_profile(console: Console, settings: Settings, tenant_id: str, user_id: str) -> None:
    from streams.cli.profile_printing import print_profile
    from streams.stores import open_archive

    _heading(console, f"What is known of {printable(user_id)} now  (profilestream profile {printable(user_id)})")
    async with open_archive(settings.clickhouse) as store:
        print_profile(await store.profile(tenant_id, user_id))


async def _show_history(console: Console, settings: Settings, tenant_id: str, user_id: str) -> None:
    import aiohttp

    _heading(console, "How it came about, asked of ClickHouse with SQL")
    sql = (
        "SELECT version, op,\n"
        "    if(sub_topic = '', kind, topic) || '/' || if(sub_topic = '', topic, sub_topic)\n"
        "        AS what, before, after, toDate(said_at) AS said\n"
        f"FROM {settings.clickhouse.database}.profile_deltas FINAL\n"
        "WHERE tenant_id = {tenant:String} AND user_id = {user:String}\n"
        "    AND op NOT IN ('add', 'confirm')\n"
        "ORDER BY version LIMIT 12"
    )
    console.print(sql, style="cyan")
    parameters = {"param_tenant": tenant_id, "param_user": user_id, "default_format": "PrettyCompactMonoBlock"}
    parameters |= {"output_format_pretty_color": "0", "output_format_pretty_row_numbers": "0"}
    if console.is_terminal:
        parameters["output_format_pretty_max_value_width"] = str(max(_NARROWEST, (console.width - _OTHER_COLUMNS) // 3))
    async with (
        aiohttp.ClientSession() as session,
        session.post(settings.clickhouse.url, params=parameters, data=sql.encode()) as answer,
    ):
        text = await answer.text()
        if answer.status != 200:
            raise CommandFailed(f"ClickHouse does not answer the query: {text[:300]}")
    console.print(printable_lines(text), soft_wrap=True)


def printable_lines(text: str) -> str:
    """Return text of several lines with what could command a terminal escaped."""
    return "\n".join(printable(line) for line in text.splitlines())


async def _show_search(console: Console, settings: Settings, deltas: list[ProfileDelta], *, own: bool) -> None:
    from rich.text import Text

    from streams.cli.printing import print_hanging
    from streams.cli.search import hit_name
    from streams.stores import open_vectors

    questions = ((deltas[-1].after or deltas[-1].topic)[:80],) if own else _SAMPLE_QUESTIONS
    async with open_vectors(settings) as vectors:
        for question in questions:
            _heading(console, f'Who is it?  (profilestream search "{printable(question)}")')
            hits = await vectors.search(question, tenant_id=deltas[-1].tenant_id, limit=3)
            for number, hit in enumerate(hits, 1):
                what = f"{printable(hit_name(hit))}: {printable(hit.text)}"
                found = f"  {number}. {printable(hit.user_id)}  {what}  (near {hit.score:.3f})"
                print_hanging(console, Text(found))


def _say_next(console: Console) -> None:
    _heading(console, "Where to go next")
    console.print(
        "In the environment that this ran in (. .venv/bin/activate after make demo):\n"
        "  profilestream up                  the same services, with their data kept\n"
        "  profilestream publish chat.jsonl  your own messages, from another terminal\n"
        "  profilestream deltas --follow     every change as it happens\n"
        "  profilestream doctor              the settings, a check of every service\n"
        "  README.md                         services and a model of your own"
    )
