"""``profilestream worker`` and ``restore``: for services of one's own, named by the settings."""

from __future__ import annotations

import click

from streams.cli.common import Options, json_option, print_json, settings_options, stderr_console


@click.command()
@settings_options
def worker(options: Options) -> None:
    """Run a worker until SIGTERM or Ctrl-C; run several to share the partitions.

    \b
    Examples:
      PROFILESTREAM_KAFKA__BOOTSTRAP_SERVERS=kafka:9092 profilestream worker
      profilestream worker --settings production.yaml
    """
    from streams.logs import configure_logs
    from streams.running import run

    configure_logs()
    run(_worker(options))


async def _worker(options: Options) -> None:
    from streams.cli.checks import require_model
    from streams.running import open_worker, stop_signals, until_stopped

    settings = options.load()
    console = stderr_console()
    console.print(f"joining the group {settings.kafka.group_id} at {settings.kafka.bootstrap_servers} ...")
    await require_model(settings)
    with stop_signals() as stop:
        async with open_worker(settings, embedded=False) as running:
            if running.metrics_address:
                console.print(f"metrics at {running.metrics_address}")
            console.print("ready.")
            await until_stopped(running, stop)
            console.print("stopping: finishing what is running ...")


@click.command()
@click.option("--overwrite", is_flag=True, help="Write even where the table has records.")
@json_option
@settings_options
def restore(overwrite: bool, as_json: bool, options: Options) -> None:
    """Rebuild the table of profiles from the archive in ClickHouse, after a cluster was lost.

    Stop every worker first. Each profile gets the version that it had, so the next change follows on.

    \b
    Examples:
      profilestream restore
      profilestream restore --settings production.yaml --overwrite --json
    """
    import asyncio

    users = asyncio.run(_restore(overwrite, options))
    if as_json:
        print_json({"users": users})
    else:
        click.echo(f"restored the profiles of {users:,} users.")


async def _restore(overwrite: bool, options: Options) -> int:
    from rich.progress import Progress

    from streams.restore import restore_profiles
    from streams.stores import open_archive

    settings = options.load()
    console = stderr_console()
    async with open_archive(settings.clickhouse) as store:
        await store.migrate()
        total = (await store.counts())["users"]
        with Progress(console=console, disable=not console.is_terminal) as bar:
            task = bar.add_task("users", total=total)
            return await restore_profiles(
                store.profiles(),
                settings.kafka,
                overwrite=overwrite,
                progress=lambda done: bar.update(task, completed=done),
            )
