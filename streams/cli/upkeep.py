"""``profilestream migrate`` and ``verify``: the archive's tables, and whether what they say agrees."""

from __future__ import annotations

import asyncio

import click

from streams.cli.archive import reading_archive
from streams.cli.common import CommandFailed, Options, json_option, print_json, settings_options, stderr_console


@click.command()
@json_option
@settings_options
def migrate(as_json: bool, options: Options) -> None:
    """Bring the archive's tables to this release's form; a worker does it too when it starts.

    Safe to repeat, and beside running workers. A user of ClickHouse who may not change tables can leave it to this
    command: a worker that finds nothing missing changes nothing.

    \b
    Examples:
      profilestream migrate
      PROFILESTREAM_CLICKHOUSE__USER=owner profilestream migrate --json
    """
    applied = asyncio.run(_migrate(options))
    if as_json:
        print_json({"applied": applied})
    else:
        click.echo(f"applied {', '.join(map(str, applied))}." if applied else "nothing was missing.")


async def _migrate(options: Options) -> list[int]:
    from streams.stores import open_archive

    async with open_archive(options.load().clickhouse) as store:
        return await store.migrate()


@click.command()
@json_option
@settings_options
def verify(as_json: bool, options: Options) -> None:
    """Rebuild every profile from the deltas alone, and compare it with the table that workers go by.

    What differs is looked at again for some seconds, since it may be under way. Ends with 1, and a line for each user,
    when something still does.

    \b
    Examples:
      profilestream verify
      profilestream verify --json
    """
    users, differing = asyncio.run(_verify(options))
    for tenant, user, what in differing:
        if as_json:
            print_json({"tenant_id": tenant, "user_id": user, "differs": what})
        else:
            click.echo(f"{tenant}:{user}: {what}")
    if differing:
        raise CommandFailed(
            f"{len(differing)} of {users} users differ: archive the delta topic again from its start, or rebuild the "
            "table with `profilestream restore`"
        )
    if as_json:
        print_json({"users": users, "differing": 0})
    else:
        click.echo(f"the profiles of {users} users agree.")


async def _verify(options: Options) -> tuple[int, list[tuple[str, str, str]]]:
    from rich.progress import Progress

    from streams.verify import verify_profiles

    settings = options.load()
    console = stderr_console()
    async with reading_archive(options) as store:
        total = (await store.counts())["users"]
        with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
            task = bar.add_task("users", total=total)
            return await verify_profiles(store, settings.kafka, progress=lambda done: bar.update(task, completed=done))
