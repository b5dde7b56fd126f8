"""``profilestream similar-users``: whose profiles are like a user's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from streams.cli.common import (
    Options,
    json_option,
    print_json,
    printable,
    settings_options,
    stdout_console,
    whose,
)
from streams.cli.parameters import tenant_option, user_argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sinks.vectors import SimilarUser


@click.command(name="similar-users")
@user_argument
@tenant_option
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Users at the most.")
@json_option
@settings_options
def similar_users(user: str, tenant: str, limit: int, as_json: bool, options: Options) -> None:
    """Find users whose profiles are like USER's, the most alike first.

    What is compared are the slots, facts and preferences that hold now, by meaning. The number before a user tells how
    alike they are, 1 at the most; users who are plainly unlike are left out, and those of other tenants are not looked
    at.

    \b
    Examples:
      profilestream similar-users anna
      profilestream similar-users anna --tenant acme --limit 3 --json
    """
    found = asyncio.run(_similar(options, tenant, user, limit))
    if as_json:
        for each in found or ():
            print_json(each)
    elif found:
        _print_users(found)
    elif found is None:
        click.echo(f"Nothing is known of {whose(tenant, user)} yet.")
    else:
        click.echo(f"Nobody is like {whose(tenant, user)} yet.")


async def _similar(options: Options, tenant: str, user: str, limit: int) -> Sequence[SimilarUser] | None:
    from streams.stores import open_vectors

    async with open_vectors(options.load(), create=False) as index:
        return await index.similar_users(tenant, user, limit=limit)


def _print_users(found: Sequence[SimilarUser]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("alike", "user", box=None, pad_edge=False)
    for each in found:
        table.add_row(f"{each.score:.3f}", Text(printable(each.user_id), overflow="fold"))
    stdout_console().print(table)
