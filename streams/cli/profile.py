"""``profilestream profile`` and ``history``: what the archive says of users."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click

from streams.cli.archive import print_rows, reading_archive, ready_rows, utc
from streams.cli.common import (
    Options,
    json_option,
    print_json,
    settings_options,
    stdout_console,
    whose,
)
from streams.cli.deltas import kind_option
from streams.cli.parameters import LOCAL_TIME, Moment, Text, tenant_option, user_argument
from streams.cli.printing import item_name, local_time, print_delta
from streams.cli.profile_printing import former_facts, print_profile, profile_object

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from schemas.deltas import ProfileDelta
    from schemas.profiles import Profile

_CHANGES: Final = 10_000
"""Changes of facts in which former ones are looked for: the newest."""


@click.command()
@user_argument
@tenant_option
@click.option(
    "--replaced", is_flag=True, help="Also print facts that no longer hold, each once, and until when they last did."
)
@click.option(
    "--as-of",
    type=Moment(),
    metavar="TIME",
    help=f"As it was then: 2026-03-01, 2026-03-01T12:00 ({LOCAL_TIME}), or an age such as 7d.",
)
@click.option(
    "--clock",
    type=click.Choice(["recorded", "said"]),
    help="With --as-of: what had been recorded by then, or said by then.  [default: recorded]",
)
@json_option
@settings_options
def profile(
    user: str, tenant: str, replaced: bool, as_of: datetime | None, clock: str | None, as_json: bool, options: Options
) -> None:
    """Print what is known of USER now: slots, facts and preferences by category, tags; or what was known then.

    For people, at most 50 facts, those last confirmed, 20 preferences, the strongest, and 10 tags, the most frequent.
    With --json it is one object that has all of them, and the facts that no longer hold; with --as-of an object a line
    for each thing that was known. That nothing is known is an answer: the exit code is 0.

    \b
    Examples:
      profilestream profile anna --replaced
      profilestream profile anna --as-of 2026-03-01 --clock said
      profilestream profile anna --json | jq -r '.slots[].value'
      profilestream profile anna --json | jq -r '.facts[][].fact'
    """
    if as_of is not None:
        if replaced:
            raise click.UsageError("--replaced is of the present profile: leave it out, or --as-of.")
        _print_past(options, tenant, user, as_of, clock or "recorded", as_json)
        return
    if clock is not None:
        raise click.UsageError("--clock needs --as-of: the present profile is the same by both.")
    found, changes, last = asyncio.run(_profile(options, tenant, user))
    former = former_facts(found, changes) if replaced else []
    if as_json:
        print_json(profile_object(found, changes))
    elif found.slots or found.facts or found.preferences or found.tags or former:
        print_profile(found, former=former)
    elif last is not None and last.op == "forget":
        click.echo(f"Nothing is known of {whose(tenant, user)}, who was forgotten on {local_time(last.recorded_at)}.")
    elif found.version:
        click.echo(f"Nothing is known of {whose(tenant, user)} any more: all was taken back.")
    else:
        click.echo(f"Nothing is known of {whose(tenant, user)} yet.")


def _print_past(options: Options, tenant: str, user: str, as_of: datetime, clock: str, as_json: bool) -> None:
    parameters = {"tenant": tenant, "user": user, "at": utc(as_of), "clock": clock}
    rows = asyncio.run(ready_rows(options, "profile_as_of", parameters))
    if as_json:
        for row in rows:
            print_json(row)
    elif rows:
        shown = ("value", "said_at", "recorded_at", "version")
        print_rows(
            [
                {"what": item_name(row["kind"], row["topic"], row["sub_topic"]), **{key: row[key] for key in shown}}
                for row in rows
            ]
        )
    else:
        click.echo(f"Nothing was known of {whose(tenant, user)} then.")


async def _profile(
    options: Options, tenant: str, user: str
) -> tuple[Profile, Sequence[ProfileDelta], ProfileDelta | None]:
    """Return a profile, the changes of its facts, and the last change of all."""
    async with reading_archive(options) as store:
        found = await store.profile(tenant, user)
        last = await store.history(tenant, user, limit=1)
        return found, await store.history(tenant, user, kind="fact", limit=_CHANGES), next(iter(last), None)


@click.command()
@user_argument
@tenant_option
@kind_option
@click.option("--topic", type=Text(), help="Only this topic of slots, or category of facts and preferences.")
@click.option("--sub-topic", type=Text(), help="Only this slot of the topic or, with --kind tag, this tag.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Changes at the most.")
@json_option
@settings_options
def history(
    user: str,
    tenant: str,
    kind: str | None,
    topic: str | None,
    sub_topic: str | None,
    limit: int,
    as_json: bool,
    options: Options,
) -> None:
    """Print the changes of USER's profile.

    Each begins with when (local time), whose, which version, and a sign: + new or longer, ~ rewritten, = said again,
    - gone, ✗ contradicted by a newer fact.

    \b
    Examples:
      profilestream history anna
      profilestream history anna --topic work --sub-topic company
      profilestream history anna --kind fact --topic location
    """
    found = asyncio.run(_history(options, tenant, user, kind, topic, sub_topic, limit))
    if as_json:
        for delta in found:
            print_json(delta)
        return
    if not found:
        click.echo(f"There are no such changes of {whose(tenant, user)} yet.")
        return
    console = stdout_console()
    for delta in found:
        print_delta(console, delta)


async def _history(
    options: Options,
    tenant: str,
    user: str,
    kind: str | None,
    topic: str | None,
    sub_topic: str | None,
    limit: int,
) -> Sequence[ProfileDelta]:
    from schemas.profiles import unify

    async with reading_archive(options) as store:
        return await store.history(
            tenant,
            user,
            kind=kind,
            topic=unify(topic) if topic else None,
            sub_topic=unify(sub_topic) if sub_topic and kind != "tag" else sub_topic,
            limit=limit,
        )
