"""``profilestream search``: what is known of users, found by meaning and by words."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import click

from streams.cli.common import Options, json_option, print_json, printable, settings_options, stdout_console, whose
from streams.cli.parameters import Text, UserId, tenant_option
from streams.cli.printing import item_name, local_day

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sinks.vectors import Retrieval, VectorHit


@click.command()
@click.argument("text", type=Text())
@click.option("--user", type=UserId(), help="Only this user.  [default: all users of the tenant]")
@tenant_option
@click.option(
    "--kind",
    type=click.Choice(["slot", "fact", "preference", "gist"]),
    help="Only this kind; a gist is a line of what was talked about.  [default: all]",
)
@click.option(
    "--by",
    type=click.Choice(["both", "meaning", "words"]),
    default="both",
    show_default=True,
    help="By meaning, by the words themselves, or both.",
)
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Hits at the most.")
@json_option
@settings_options
def search(
    text: str, user: str | None, tenant: str, kind: str | None, by: str, limit: int, as_json: bool, options: Options
) -> None:
    """Find what is known of users and means about the same as TEXT, or has its words; the best hits come first.

    Hits are numbered from the best. "near" tells how near in meaning a hit is, 1 at the most, and what is plainly
    unrelated is left out; one that has the words of TEXT can come before one that is nearer. With --by meaning, the
    nearest come first.

    \b
    Examples:
      profilestream search "where do they live"
      profilestream search 喜欢喝什么 --user 李雷 --kind fact
      profilestream search "trip to Lisbon" --kind gist --json
    """
    if not text.strip():
        raise click.UsageError("TEXT is empty: say what to look for.")
    hits, known = asyncio.run(_search(options, text, tenant, user, kind, by, limit))
    if as_json:
        for hit in hits:
            print_json(hit)
    elif hits:
        _print_hits(hits)
    elif known:
        click.echo(f"None of the {known:,} things known of {_whom(tenant, user, kind)} is like that or has its words.")
    else:
        click.echo(f"Nothing is known of {_whom(tenant, user, kind)} that could be found yet.")


def _whom(tenant: str, user: str | None, kind: str | None) -> str:
    """Return whose things were searched, as the end of a sentence."""
    them = f"the users of tenant {printable(tenant)}" if user is None else whose(tenant, user)
    return them + (f" (of kind {kind})" if kind else "")


async def _search(
    options: Options, text: str, tenant: str, user: str | None, kind: str | None, by: str, limit: int
) -> tuple[Sequence[VectorHit], int]:
    """Return the hits and, where there are none, how many things were searched."""
    from sinks.vectors import SEARCHED_KINDS
    from streams.stores import open_vectors

    retrieval = cast("Retrieval", {"meaning": "dense", "words": "sparse"}.get(by, by))
    async with open_vectors(options.load(), create=False) as index:
        hits = await index.search(text, tenant_id=tenant, user_id=user, kind=kind, limit=limit, retrieval=retrieval)
        if hits:
            return hits, 0
        return hits, await index.count(tenant, user, kinds=[kind] if kind else SEARCHED_KINDS)


def hit_name(hit: VectorHit) -> str:
    """Return what a hit is called: a slot, fact or preference by its name, a gist by the day it was said on."""
    if hit.kind == "gist":
        return f"said {local_day(hit.said_at)}"
    return item_name(hit.kind, hit.topic, hit.sub_topic)


def _print_hits(hits: Sequence[VectorHit]) -> None:
    from rich import text
    from rich.table import Table

    table = Table("", "near", "user", "what", "value", box=None, pad_edge=False)
    for number, hit in enumerate(hits, 1):
        cells = (f"{number}.", f"{hit.score:.3f}", hit.user_id, hit_name(hit), hit.text)
        table.add_row(*(text.Text(printable(cell), overflow="fold") for cell in cells))
    stdout_console().print(table)
