"""``profilestream up``: the embedded services and a worker in the foreground."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from streams.cli.common import CommandFailed, Options, json_option, print_json, settings_options, stderr_console

if TYPE_CHECKING:
    from rich.console import Console

    from streams.draining import Drained
    from streams.running import Embedded


@click.command()
@json_option
@settings_options
def up(as_json: bool, options: Options) -> None:
    """Run broker, ClickHouse, Qdrant and a worker on this machine until Ctrl-C.

    The other commands find them by themselves, from any terminal of the same user. The data directory keeps the
    archive, the vectors and the dead letters; profiles and letters are restored from it at the next start.

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
    from streams.running import Embedded, stop_signals

    console = stderr_console()
    data_dir = (options.data_dir or default_data_dir()).absolute()
    console.print(f"starting the services in {data_dir} ...")
    await require_model(options.load({}))
    async with Embedded.open(data_dir, options.load) as embedded:
        with stop_signals() as stop:
            _say_ready(embedded, as_json)
            await embedded.run(stop)
            console.print(
                "stopping: closing windows and bringing everything into the stores (Ctrl-C again: at once) ..."
            )
            drained = await embedded.drain(lambda left: _say_waiting(console, left))
        failed = embedded.worker.failed_flushes
    if drained.complete:
        console.print("stopped; everything is in the archive.")
    if drained.parked:
        console.print(
            f"Parked because a service did not answer: {drained.parked} records. They are dead letters now: once it "
            "answers and `profilestream up` runs again, `profilestream deadletters redrive --reason stopped` finishes "
            "them."
        )
    if embedded.late:
        console.print(
            f"Published while it stopped: {embedded.late} messages. They are dead letters now: once `profilestream up` "
            "runs again, `profilestream deadletters redrive --reason stopped` has them processed."
        )
    if failed:
        console.print(f"Failed flushes: {failed}. Their messages are in no profile; the log above says why.")
    if open_letters := embedded.letters.open:
        console.print(
            f"Open dead letters: {open_letters}. They are kept in the data directory: once `profilestream up` runs "
            "again, `profilestream deadletters list` shows them."
        )
    if not drained.complete:
        raise CommandFailed(_missing(drained))


def _say_waiting(console: Console, left: int) -> None:
    what = f"{left} records to reach the stores" if left else "messages to be read"
    console.print(f"waiting for {what} (Ctrl-C again loses them) ...")


def _missing(drained: Drained) -> str:
    if drained.archive_left:
        return (
            f"{drained.archive_left} records did not reach the archive and are lost; the log above says what failed: "
            "once that is mended, publish their messages again"
        )
    if drained.index_left:
        return (
            f"{drained.index_left} records are archived and not in the vector index; the log above says what failed: "
            "once that is mended and `profilestream up` runs again, `profilestream reindex` makes the index anew"
        )
    return "not every message could be read before the stop, and those that were not are lost: publish them again"


def _say_ready(embedded: Embedded, as_json: bool) -> None:
    from streams.processors import processor_name

    settings = embedded.settings
    addresses = {
        "kafka": settings.kafka.bootstrap_servers,
        "clickhouse": settings.clickhouse.url,
        "qdrant": settings.qdrant.url,
        "processor": processor_name(settings.model),
        "metrics": embedded.worker.metrics_address or "off",
    }
    if as_json:
        print_json(addresses)
        return
    console = stderr_console()
    for name, address in addresses.items():
        console.print(f"  {name:<11}{address}")
    console.print("ready. In another terminal:\n  profilestream publish FILE\n  profilestream deltas --follow")
