"""``profilestream profile``, ``history`` and ``search``: what the archive and the vector store say of users."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import click

from schemas.messages import DEFAULT_TENANT
from streams.cli.common import (
    CommandFailed,
    Options,
    json_option,
    print_json,
    printable,
    settings_options,
    stdout_console,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from schemas.deltas import ProfileDelta
    from schemas.profiles import Profile
    from sinks.clickhouse import ClickHouseArchive
    from sinks.vectors import VectorHit

tenant_option = click.option("--tenant", default=DEFAULT_TENANT, show_default=True, help="The user's tenant.")


@click.command()
@click.argument("user")
@tenant_option
@json_option
@settings_options
def profile(user: str, tenant: str, as_json: bool, options: Options) -> None:
    """Print what is known of USER now.

    \b
    Examples:
      profilestream profile anna
      profilestream profile anna --json | jq -r '.slots[].value'
    """
    found = asyncio.run(_profile(options, tenant, user))
    if as_json:
        print_json(found)
    elif found.slots:
        print_profile(found)
    elif found.version:
        click.echo(f"Nothing is known of {printable(user)} any more: all was taken back.")
    else:
        click.echo(f"Nothing is known of {printable(user)} yet.")


async def _profile(options: Options, tenant: str, user: str) -> Profile:
    async with _archive(options) as store:
        return await store.profile(tenant, user)


@asynccontextmanager
async def _archive(options: Options) -> AsyncIterator[ClickHouseArchive]:
    """Open the archive for reading; making its tables is left to workers, who need the right to do so."""
    from sinks.errors import SinkRejected
    from streams.stores import open_archive

    async with open_archive(options.load().clickhouse) as store:
        try:
            yield store
        except SinkRejected as error:
            if "Code: 60." not in str(error):  # UNKNOWN_TABLE
                raise
            raise CommandFailed(
                "the archive has no tables yet: a worker makes them when it starts (`profilestream up` or `worker`)"
            ) from error


def print_profile(found: Profile) -> None:
    """Print a profile as a table for people."""
    from rich.table import Table
    from rich.text import Text

    from streams.cli.printing import local_time, user_name

    table = Table(
        title=Text(f"{user_name(found.tenant_id, found.user_id)}, version {found.version}"),
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    for heading in ("topic", "slot", "value", "said"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "said")
    topic = ""
    for slot in found.slots:
        shown = "" if slot.topic == topic else slot.topic
        topic = slot.topic
        inferred = " (inferred)" if slot.assertion == "inferred" else ""
        table.add_row(
            Text(printable(shown), "bold"),
            Text(printable(slot.sub_topic)),
            Text(printable(slot.value) + inferred),
            Text(local_time(slot.said_at), "dim"),
        )
    stdout_console().print(table)


@click.command()
@click.argument("user")
@tenant_option
@click.option("--topic", help="Only slots of this topic.")
@click.option("--sub-topic", help="Only this slot of the topic.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Changes at the most.")
@json_option
@settings_options
def history(
    user: str,
    tenant: str,
    topic: str | None,
    sub_topic: str | None,
    limit: int,
    as_json: bool,
    options: Options,
) -> None:
    """Print the changes of USER's profile.

    \b
    Examples:
      profilestream history anna
      profilestream history anna --topic work --sub-topic company
    """
    found = asyncio.run(_history(options, tenant, user, topic, sub_topic, limit))
    if as_json:
        for delta in found:
            print_json(delta)
        return
    if not found:
        click.echo(f"There are no such changes of {printable(user)} yet.")
        return
    from streams.cli.printing import delta_line

    console = stdout_console()
    for delta in found:
        console.print(delta_line(delta), soft_wrap=True)


async def _history(
    options: Options, tenant: str, user: str, topic: str | None, sub_topic: str | None, limit: int
) -> Sequence[ProfileDelta]:
    from schemas.profiles import unify

    async with _archive(options) as store:
        return await store.history(
            tenant,
            user,
            topic=unify(topic) if topic else None,
            sub_topic=unify(sub_topic) if sub_topic else None,
            limit=limit,
        )


@click.command()
@click.argument("text")
@click.option("--user", help="Only this user.  [default: all users of the tenant]")
@tenant_option
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Hits at the most.")
@json_option
@settings_options
def search(text: str, user: str | None, tenant: str, limit: int, as_json: bool, options: Options) -> None:
    """Find what is known of users and means about the same as TEXT.

    \b
    Examples:
      profilestream search "where do they live"
      profilestream search 喜欢喝什么 --user 李雷
    """
    if not text.strip():
        raise click.UsageError("TEXT is empty: say what to look for.")
    hits = asyncio.run(_search(options, text, tenant, user, limit))
    if as_json:
        for hit in hits:
            print_json(hit)
    elif hits:
        _print_hits(hits)
    else:
        click.echo("Nothing is known that could be found yet.")


async def _search(options: Options, text: str, tenant: str, user: str | None, limit: int) -> Sequence[VectorHit]:
    from streams.stores import open_vectors

    async with open_vectors(options.load(), create=False) as index:
        return await index.search(text, tenant_id=tenant, user_id=user, limit=limit)


def _print_hits(hits: Sequence[VectorHit]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("score", "user", "slot", "value", box=None, pad_edge=False)
    for hit in hits:
        cells = (f"{hit.score:.3f}", hit.user_id, f"{hit.topic}/{hit.sub_topic}", hit.text)
        table.add_row(*(Text(printable(cell), overflow="fold") for cell in cells))
    stdout_console().print(table)
