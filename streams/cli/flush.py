"""``profilestream flush``: closes a user's window now, and waits for what comes of it where that is wanted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
import msgspec

from streams.cli.common import (
    EXIT_FAILED,
    EXIT_REFUSED,
    Options,
    complain,
    json_option,
    print_json,
    printable,
    settings_options,
)
from streams.cli.parameters import seconds_option, tenant_option, user_argument

if TYPE_CHECKING:
    from schemas.deltas import FlushEvent
    from schemas.flushes import FlushRef
    from schemas.messages import ChatMessage
    from schemas.places import Place
    from streams.settings import KafkaSettings
    from streams.waiting import FlushWait


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a flush ended.

    Attributes:
        flush_id: its id.
        lane: of a window ``memo``; ``facts``: of a message that was read at once.
        trigger: why it was made; ``flush``: because of this command or another like it.
        messages: how many it holds.
        outcome: as in the event that ended it; null when it has not ended yet.
        first_version: version of the first change that it made; null when it made none.
        last_version: likewise of the last.
        errors: what failed, by branch.
    """

    flush_id: str
    lane: str
    trigger: str
    messages: int
    outcome: str | None
    first_version: int | None
    last_version: int | None
    errors: dict[str, str]


@click.command()
@user_argument
@tenant_option
@click.option("--wait", is_flag=True, help="Wait until what was open is processed, and print what has come of it.")
@seconds_option("--timeout", explanation="How long to wait.")
@json_option
@settings_options
@click.pass_context
def flush(
    ctx: click.Context, user: str, tenant: str, wait: bool, timeout: float, as_json: bool, options: Options
) -> None:
    """Close USER's window now, instead of waiting until it is full or idle.

    The request is a record of the chat topic, behind all messages that were published before it: those are processed,
    and what comes of them appears on the delta topic. Where no window is open nothing happens.

    With --wait, the exit code is 3 when something could not be processed, and 1 when it has not ended in time.

    \b
    Examples:
      profilestream flush anna
      profilestream flush anna --wait
      profilestream flush anna --tenant acme --wait --timeout 300 --json
    """
    from streams.control import control_message

    request = control_message("flush", tenant, user)
    kafka = options.load().kafka
    if wait:
        ctx.exit(_report(asyncio.run(_send_and_wait(kafka, request, timeout)), request, timeout, as_json=as_json))
    place = asyncio.run(_send(kafka, request))
    if as_json:
        print_json({"tenant_id": tenant, "user_id": user, **place._asdict()})
    else:
        click.echo(f"asked to close the window of {printable(user)}, if one is open.")


async def _send(kafka: KafkaSettings, request: ChatMessage) -> Place:
    from streams.control import send_control

    return await send_control(kafka, request)


async def _send_and_wait(kafka: KafkaSettings, request: ChatMessage, seconds: float) -> FlushWait:
    from streams.cli.unanswered import tell_while_waiting
    from streams.waiting import wait_for_flush

    place = await _send(kafka, request)
    return await tell_while_waiting(kafka, wait_for_flush(kafka, request, place, seconds), seconds)


def _report(wait: FlushWait, request: ChatMessage, seconds: float, *, as_json: bool) -> int:
    """Print what has come of the messages; returns the exit code."""
    ended = [_ended(ref, event) for ref, event in wait.ended()]
    if as_json:
        fields = {"tenant_id": request.tenant_id, "user_id": request.user_id, **wait.flush._asdict()}
        closed = wait.closed_window if wait.closed_window or wait.accounted else None
        parked = [{"offset": offset, "reason": reason} for offset, reason in sorted(wait.parked.items())]
        print_json({**fields, "closed_window": closed, "complete": wait.complete, "flushes": ended, "parked": parked})
    else:
        _print(wait, ended, request)
    if not wait.complete:
        complain(
            f"not all of it was processed within {seconds:g} s; it will be, and `profilestream deltas --follow` prints "
            "what comes of it. See with `profilestream doctor` whether the services answer, and whether a worker runs"
        )
        return EXIT_FAILED
    return EXIT_REFUSED if wait.parked or any(one.outcome == "failed" for one in ended) else 0


def _print(wait: FlushWait, ended: list[Ended], request: ChatMessage) -> None:
    from streams.cli.printing import user_name

    name = user_name(request.tenant_id, request.user_id)
    if wait.accounted and not wait.closed_window and not wait.parked:
        closed_before = any(one.lane == "memo" for one in ended)
        click.echo(f"no window of {name} was open{' any more' if closed_before else ''}.")
    for one in ended:
        what = f"window of {one.messages} messages" if one.lane == "memo" else "message that was read at once"
        click.echo(f"{what}: {_outcome(one)}")
    for offset, reason in sorted(wait.parked.items()):
        click.echo(f"message at offset {offset}: parked in the dead letters: {printable(reason)}")


def _outcome(one: Ended) -> str:
    match one.outcome:
        case None:
            return "not processed yet"
        case "failed":
            problems = "; ".join(f"{branch}: {problem}" for branch, problem in one.errors.items())
            return f"failed, and parked in the dead letters (`profilestream deadletters list`): {printable(problems)}"
        case "applied" if one.first_version != one.last_version:
            return f"applied, versions {one.first_version} to {one.last_version}"
        case "applied" if one.first_version is not None:
            return f"applied, version {one.first_version}"
        case "applied":
            return "applied, without a change of the profile"
        case "empty":
            return "nothing to be kept was said"
        case _:
            return f"{one.outcome}"


def _ended(ref: FlushRef, event: FlushEvent | None) -> Ended:
    return Ended(
        flush_id=ref.flush_id,
        lane=ref.lane,
        trigger=ref.trigger,
        messages=ref.message_count,
        outcome=event.outcome if event else None,
        first_version=event.first_version if event else None,
        last_version=event.last_version if event else None,
        errors=event.errors if event else {},
    )
