"""``profilestream deltas``: the topic of profile changes, for people or as JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

import click

from streams.cli.common import (
    Options,
    complain,
    json_option,
    print_json,
    printable,
    settings_options,
    stdout_console,
)

if TYPE_CHECKING:
    from schemas.deltas import ProfileDelta
    from streams.settings import KafkaSettings


class Wanted(NamedTuple):
    """Which deltas to print; None means any."""

    user: str | None = None
    tenant: str | None = None
    topic: str | None = None

    def matches(self, delta: ProfileDelta) -> bool:
        """Whether this delta is wanted."""
        from schemas.profiles import unify

        return (
            self.user in {None, delta.user_id}
            and self.tenant in {None, delta.tenant_id}
            and (self.topic is None or unify(self.topic) == delta.topic)
        )


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on with changes as they happen.")
@click.option("--user", help="Only this user.")
@click.option("--tenant", help="Only this tenant.  [default: all]")
@click.option("--topic", help="Only slots of this topic.")
@click.option(
    "--from-start/--from-end",
    default=True,
    help="Begin with the oldest change there is, or (with --follow) with the next.  [default: --from-start]",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N changes.")
@json_option
@settings_options
def deltas(
    follow: bool,
    user: str | None,
    tenant: str | None,
    topic: str | None,
    from_start: bool,
    limit: int | None,
    as_json: bool,
    options: Options,
) -> None:
    """Print profile changes: what a slot was, what it is now, why, and which messages say so.

    \b
    Examples:
      profilestream deltas --user anna
      profilestream deltas --follow --from-end --json | jq .after
    """
    if not (from_start or follow):
        raise click.UsageError("--from-end needs --follow: there is nothing after the end yet.")
    settings = options.load()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_print(settings.kafka, Wanted(user, tenant, topic), from_start, follow, limit, as_json))


async def _print(
    kafka: KafkaSettings, wanted: Wanted, from_start: bool, follow: bool, limit: int | None, as_json: bool
) -> None:
    from schemas.codec import InvalidRecord, decode
    from schemas.deltas import ProfileDelta
    from streams.cli.printing import delta_line
    from streams.tail import tail
    from streams.topics import Topics

    console = stdout_console()
    printed = 0
    async with aclosing(tail(kafka, Topics.of(kafka).deltas, from_start=from_start, follow=follow)) as records:
        async for record in records:
            try:
                delta = decode(record.value, ProfileDelta)
            except InvalidRecord as error:
                complain(f"partition {record.partition} offset {record.offset} holds no delta: {printable(str(error))}")
                continue
            if not wanted.matches(delta):
                continue
            if as_json:
                print_json(delta)
            else:
                console.print(delta_line(delta), soft_wrap=True)
            sys.stdout.flush()
            printed += 1
            if printed == limit:
                return
    if not printed and not as_json:
        complain("there are no such changes on the topic; `profilestream history USER` asks the archive")
