"""``profilestream query`` and ``events``: ready questions to the archive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from streams.cli.archive import checked, print_rows, ready_query, ready_rows, utc
from streams.cli.common import Options, json_option, print_json, settings_options, stdout_console, whose
from streams.cli.parameters import LOCAL_TIME, Moment, Text, quoted, tenant_option, user_argument

if TYPE_CHECKING:
    from datetime import datetime


@click.command()
@click.argument("name", type=Text(), required=False)
@click.option(
    "-p", "--param", "given", type=Text(), multiple=True, metavar="NAME=VALUE", help="A parameter of the query."
)
@click.option("--sql", "show_sql", is_flag=True, help="Print the query's SQL instead of running it.")
@json_option
@settings_options
def query(name: str | None, given: tuple[str, ...], show_sql: bool, as_json: bool, options: Options) -> None:
    """Run the ready query NAME on the archive; without a name, list them with their parameters.

    Times are given as 2026-03-01, 2026-03-01T12:00 or an age such as 7d, and printed in local time; those given with an
    offset are read by it. Days that a query counts by, and times in the SQL that --sql prints, are in UTC.

    \b
    Examples:
      profilestream query
      profilestream query slot_holders -p topic=work -p sub_topic=company
      profilestream query model_usage -p since=2026-03-01 -p prompt_price=0.15 --json
      profilestream query fill_rates --sql
    """
    if name is None:
        _list(as_json)
        return
    if show_sql:
        click.echo(ready_query(name).sql)
        return
    parameters = checked(ready_query(name), dict(_pair(text) for text in given))
    _print(asyncio.run(ready_rows(options, name, parameters)), as_json)


@click.command()
@user_argument
@tenant_option
@click.option("--tag", type=Text(), default="*", help="Only events with this tag, or this TAG=VALUE.")
@click.option("--text", type=Text(), default="*", help="Only those that have these words in them.")
@click.option(
    "--since",
    type=Moment(),
    metavar="TIME",
    help=f"Only what was said from then on: 2026-03-01, 2026-03-01T12:00 ({LOCAL_TIME}), or an age such as 7d.",
)
@click.option("--until", type=Moment(), metavar="TIME", help="Only what was said before then, likewise.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Rows at the most.")
@json_option
@settings_options
def events(
    user: str,
    tenant: str,
    tag: str,
    text: str,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    as_json: bool,
    options: Options,
) -> None:
    """Print what USER talked about, newest first: the bullets of the summaries.

    \b
    Examples:
      profilestream events anna
      profilestream events anna --text chess --since 2026-01-01
      profilestream events anna --tag emotion=happy --json
    """
    parameters = {"tenant": tenant, "user": user, "tag": tag, "text": text, "limit": str(limit)}
    parameters |= {name: utc(time) for name, time in (("since", since), ("until", until)) if time is not None}
    rows = asyncio.run(ready_rows(options, "user_events", parameters))
    if rows or as_json:
        _print(
            rows if as_json else [{key: row[key] for key in ("occurred_at", "text", "tags")} for row in rows], as_json
        )
    else:
        click.echo(f"There are no such events of {whose(tenant, user)}.")


def _print(rows: list[dict[str, object]], as_json: bool) -> None:
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        print_rows(rows)
    else:
        click.echo("There are no such rows.")


def _list(as_json: bool) -> None:
    from sinks.clickhouse.ready import ready_queries

    for found in ready_queries().values():
        if as_json:
            print_json({"name": found.name, "summary": found.summary, "parameters": found.parameters})
            continue
        console = stdout_console()
        console.print(found.name, style="bold")
        console.print(f"  {found.summary}")
        for parameter in found.parameters:
            default = "required" if parameter.default is None else parameter.default
            console.print(f"    {parameter.name} ({default}): {parameter.meaning}", style="dim")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--param {quoted(text)} is not of the form NAME=VALUE.")
    return name, value
