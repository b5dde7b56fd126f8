"""``profilestream doctor``: the settings with their sources, and the state of every service."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from streams.cli.common import (
    EXIT_FAILED,
    Options,
    json_option,
    print_json,
    printable,
    settings_options,
    stdout_console,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from streams.cli.checks import Check
    from streams.settings import Shown


@click.command()
@json_option
@settings_options
@click.pass_context
def doctor(ctx: click.Context, as_json: bool, options: Options) -> None:
    """Print the settings, check every service, and say what is wrong and what to do.

    Secrets are not printed. The settings are those of this shell; of a `profilestream up` that runs, it also says what
    its worker uses. The exit code is 1 when anything is wrong.

    \b
    Examples:
      profilestream doctor
      profilestream doctor --settings production.yaml --json | jq 'select(.ok == false)'
    """
    from streams.cli.checks import run_checks
    from streams.registry import find
    from streams.settings import describe

    settings = options.load()
    shown = describe(settings)
    if as_json:
        for setting in shown:
            print_json({"setting": setting.name, "value": setting.value, "source": setting.source})
    else:
        _print_settings(shown)
    up = find(options.data_dir)
    theirs = up is not None and up.settings.get("kafka", {}).get("bootstrap_servers")
    checks = asyncio.run(run_checks(settings, up if theirs == settings.kafka.bootstrap_servers else None))
    if as_json:
        for check in checks:
            print_json(check)
    else:
        _print_checks(checks)
    if not all(check.ok for check in checks):
        ctx.exit(EXIT_FAILED)


def _print_settings(shown: Sequence[Shown]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for setting in shown:
        style = "dim" if setting.source == "default" else ""
        table.add_row(*(Text(printable(cell), style, overflow="fold") for cell in setting))
    stdout_console().print(table)


def _print_checks(checks: Sequence[Check]) -> None:
    from rich.text import Text

    console = stdout_console()
    console.print()
    for check in checks:
        mark = ("ok     ", "green") if check.ok else ("WRONG  ", "bold red")
        console.print(Text.assemble(mark, (f"{check.check}: ", "bold"), printable(check.found)), soft_wrap=True)
        if check.advice:
            console.print(Text(f"       {printable(check.advice)}"), soft_wrap=True)
