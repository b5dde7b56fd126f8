"""``profilestream up``: the embedded services and a worker in the foreground."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from streams.cli.common import CommandFailed, Options, json_option, print_json, settings_options, stderr_console

if TYPE_CHECKING:
    from streams.running import Embedded


@click.command()
@json_option
@settings_options
def up(as_json: bool, options: Options) -> None:
    """Run broker, ClickHouse, Qdrant and a worker on this machine until Ctrl-C.

    The other commands find them by themselves, from any terminal of the same user. The data directory keeps the
    archive and the vectors; profiles are restored from it at the next start.

    \b
    Examples:
      profilestream up
      profilestream up --data-dir ./state
    """
    from streams.logs import configure_logs
    from streams.running import run

    configure_logs()
    run(_up(options, as_json))


async def _up(options: Options, as_json: bool) -> None:
    from streams.cli.checks import require_model
    from streams.registry import default_data_dir
    from streams.running import DRAIN_SECONDS, Embedded, stop_signals

    console = stderr_console()
    data_dir = (options.data_dir or default_data_dir()).absolute()
    console.print(f"starting the services in {data_dir} ...")
    await require_model(options.load({}))
    async with Embedded.open(data_dir, options.load) as embedded:
        with stop_signals() as stop:
            _say_ready(embedded, as_json)
            await embedded.run(stop)
        console.print("stopping: closing windows and bringing everything into the stores (Ctrl-C again: at once) ...")
        if not await embedded.worker.drain(DRAIN_SECONDS):
            raise CommandFailed("not everything reached the stores before the stop; the log above says what failed")
        failed = embedded.worker.failed_flushes
    if failed:
        raise CommandFailed(
            f"stopped, but {failed} flushes failed and their messages are not in any profile: the dead letters that "
            "held them went with the embedded broker, and the log above says why they failed"
        )
    console.print("stopped; everything is in the archive.")


def _say_ready(embedded: Embedded, as_json: bool) -> None:
    from streams.processors import uses_model

    settings = embedded.settings
    addresses = {
        "kafka": settings.kafka.bootstrap_servers,
        "clickhouse": settings.clickhouse.url,
        "qdrant": settings.qdrant.url,
        "processor": settings.model.name if uses_model(settings.model) else "rules",
    }
    if as_json:
        print_json(addresses)
        return
    console = stderr_console()
    for name, address in addresses.items():
        console.print(f"  {name:<11}{address}")
    console.print("ready. In another terminal:\n  profilestream publish FILE\n  profilestream deltas --follow")
