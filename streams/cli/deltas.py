"""``profilestream deltas``: the topic of profile changes, for people or as JSON lines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

import click

from schemas.deltas import DeltaKind, ProfileDelta
from schemas.messages import DEFAULT_TENANT
from streams.cli.common import (
    Options,
    complain,
    json_option,
    print_json,
    printable,
    settings_options,
    stdout_console,
)
from streams.cli.parameters import TenantId, Text, UserId

if TYPE_CHECKING:
    from streams.settings import KafkaSettings

_CHECK_EVERY: Final = 5.0
"""Seconds between two looks at whether the broker that is followed still answers."""

_STOP_SECONDS: Final = 5.0

_REMEMBERED: Final = 100_000
"""Changes, the newest, among which a repeat is recognised."""

kind_option = click.option(
    "--kind", type=click.Choice(get_args(DeltaKind)), help="Only changes of this kind.  [default: all]"
)


class Wanted(NamedTuple):
    """Which deltas to print; None means any."""

    user: str | None = None
    tenant: str | None = None
    topic: str | None = None
    kind: str | None = None

    def matches(self, delta: ProfileDelta) -> bool:
        """Whether this delta is wanted."""
        from schemas.profiles import unify

        return (
            self.user in {None, delta.user_id}
            and self.tenant in {None, delta.tenant_id}
            and self.kind in {None, delta.kind}
            and (self.topic is None or unify(self.topic) == delta.topic)
        )


class Repeats:
    """Tells the deltas that came before: a worker that was killed publishes its last ones again, with the same ids.

    Args:
        remembered: how many of the newest ids are kept.
    """

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._remembered = remembered
        self._ids: OrderedDict[str, None] = OrderedDict()

    def has(self, delta: ProfileDelta) -> bool:
        """Whether this delta came before; from now on it did."""
        if delta.delta_id in self._ids:
            self._ids.move_to_end(delta.delta_id)
            return True
        self._ids[delta.delta_id] = None
        if len(self._ids) > self._remembered:
            self._ids.popitem(last=False)
        return False


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on with changes as they happen.")
@click.option("--user", type=UserId(), help="Only this user.")
@click.option("--tenant", type=TenantId(), help="Only this tenant.  [default: all; with --user: default]")
@kind_option
@click.option("--topic", type=Text(), help="Only this topic of slots, or category of facts and preferences.")
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
    kind: str | None,
    topic: str | None,
    from_start: bool,
    limit: int | None,
    as_json: bool,
    options: Options,
) -> None:
    """Print profile changes: what something was, what it is now, why, and which messages say so.

    Each begins with when (local time), whose, which version, and a sign: + new or longer, ~ rewritten, = said again,
    - gone, ✗ contradicted by a newer fact. With --follow it goes on for ever, also where the broker is gone for
    a while.

    Each is printed once: one that a worker published again after a crash is recognised by its id among the last 100,000
    changes printed.

    \b
    Examples:
      profilestream deltas --user anna
      profilestream deltas --follow --kind preference
      profilestream deltas --follow --from-end --json | jq .after
    """
    if not (from_start or follow):
        raise click.UsageError("--from-end needs --follow: there is nothing after the end yet.")
    if user is not None and tenant is None:
        tenant = DEFAULT_TENANT
    settings = options.load()
    printing = _print(settings.kafka, Wanted(user, tenant, topic, kind), from_start, follow, limit, as_json)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_until_interrupted(printing) if follow else printing)


async def _until_interrupted(following: Coroutine[Any, Any, None]) -> None:
    """Follow until Ctrl-C; what does not end by then within a few seconds, as a broker's answer, is not waited for."""
    task = asyncio.create_task(following)
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted.set)
    waiting = asyncio.create_task(interrupted.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        loop.remove_signal_handler(signal.SIGINT)
    if interrupted.is_set():
        task.cancel()
        await asyncio.wait({task}, timeout=_STOP_SECONDS)
        if not task.done():
            sys.stdout.flush()
            os._exit(0)
    if not task.cancelled():
        task.result()


async def _print(
    kafka: KafkaSettings, wanted: Wanted, from_start: bool, follow: bool, limit: int | None, as_json: bool
) -> None:
    from schemas.codec import InvalidRecord, decode
    from streams.cli.printing import print_delta
    from streams.tail import tail
    from streams.topics import Topics

    console = stdout_console()
    printed = 0
    repeats = Repeats()
    async with (
        _telling_silence(kafka) if follow else contextlib.nullcontext(),
        aclosing(tail(kafka, Topics.of(kafka).deltas, from_start=from_start, follow=follow)) as records,
    ):
        async for record in records:
            try:
                delta = decode(record.value, ProfileDelta)
            except InvalidRecord as error:
                complain(f"partition {record.partition} offset {record.offset} holds no delta: {printable(str(error))}")
                continue
            if not wanted.matches(delta) or repeats.has(delta):
                continue
            if as_json:
                print_json(delta)
            else:
                print_delta(console, delta)
            sys.stdout.flush()
            printed += 1
            if printed == limit:
                return
    if not printed and not as_json:
        complain("there are no such changes on the topic; `profilestream history USER` asks the archive")


@asynccontextmanager
async def _telling_silence(kafka: KafkaSettings) -> AsyncIterator[None]:
    """Say when the broker answers no more and when it answers again; a consumer only waits."""
    task = asyncio.create_task(_tell_silence(kafka))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _tell_silence(kafka: KafkaSettings) -> None:
    from streams.kafka import KafkaUnavailable, admin

    answers = True
    while True:
        await asyncio.sleep(_CHECK_EVERY)
        before = answers
        try:
            async with admin(kafka):
                answers = True
        except KafkaUnavailable:
            answers = False
        if answers != before:
            complain(
                f"Kafka at {kafka.bootstrap_servers} {'answers again' if answers else 'does not answer; still trying'}"
            )
