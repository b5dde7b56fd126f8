"""``profilestream reindex``: the vector index made anew from the archive."""

from __future__ import annotations

import asyncio

import click
import msgspec

from streams.cli.common import Options, json_option, print_json, settings_options, stderr_console


class Reindexed(msgspec.Struct, frozen=True, kw_only=True):
    """What was filled and taken into use.

    Attributes:
        collection: the one that was filled.
        alias: the name under which it is in use.
        users: of how many it holds what is known.
        before: the collection that was in use before, null where there was none or it is the same.
        deleted: whether that one was deleted.
    """

    collection: str
    alias: str
    users: int
    before: str | None
    deleted: bool


@click.command()
@click.option("--delete-old", is_flag=True, help="Then delete the collection that was in use before.")
@json_option
@settings_options
def reindex(delete_old: bool, as_json: bool, options: Options) -> None:
    """Fill the collection of the embedding model that is set from the archive, and take it into use.

    For another embedding model: set it, restart the workers, which from then on write to a collection beside the old
    one, and run this. Searches use the old collection until the new one is full, if they still have the old settings.
    When it is interrupted, run it again: what is there already is not embedded a second time.

    \b
    Examples:
      profilestream reindex
      PROFILESTREAM_EMBEDDING__KIND=e5 profilestream reindex --delete-old
    """
    done = asyncio.run(_reindex(options, delete_old))
    if as_json:
        print_json(done)
        return
    click.echo(f"{done.collection} holds what is known of {done.users:,} users, and is in use as {done.alias}.")
    if done.before is not None:
        click.echo(
            f"{done.before} is deleted."
            if done.deleted
            else f"{done.before} is not searched any more: delete it once no worker writes to it."
        )


async def _reindex(options: Options, delete_old: bool) -> Reindexed:
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    from sinks.vectors.reindexing import reindex as fill
    from streams.stores import open_archive, open_vectors

    settings = options.load()
    console = stderr_console()
    async with open_archive(settings.clickhouse) as archive, open_vectors(settings, create=False) as index:
        await archive.migrate()
        before = await index.in_use()
        total = (await archive.counts())["users"]
        columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
            task = bar.add_task("users", total=total)
            users = await fill(archive, index, lambda done: bar.update(task, completed=done))
        replaced = before if before != index.collection else None
        if replaced is not None and delete_old:
            await index.delete_collection(replaced)
        return Reindexed(
            collection=index.collection,
            alias=index.alias,
            users=users,
            before=replaced,
            deleted=replaced is not None and delete_old,
        )
