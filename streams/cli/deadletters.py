"""``profilestream deadletters``: the records that could not be processed, and what becomes of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from streams.cli.common import (
    EXIT_FAILED,
    EXIT_REFUSED,
    CommandFailed,
    Group,
    Options,
    complain,
    json_option,
    print_json,
    printable,
    settings_options,
    stdout_console,
)
from streams.cli.letter_choice import Wanted, named, present, wanted_options
from streams.cli.parameters import Text, seconds_option

if TYPE_CHECKING:
    from schemas.deltas import FlushEvent
    from streams.dead_letter_store import DeadLetterStore
    from streams.letters import Content, Letter, User
    from streams.redrive_waiting import RedriveWait
    from streams.redriving import Redriven
    from streams.settings import ClickHouseSettings

SHOWN: Final = 12
"""Characters of an id that lists show; any beginning that no other id has will do."""

_COMPLAINTS: Final = 5
"""Unreadable records that are named one by one."""


@click.group(cls=Group)
def deadletters() -> None:
    """See what could not be processed, and have it processed again.

    A record that a stage could not process, after the last try, is parked on the dead-letter topic as it came. Its
    flush has ended as failed, and everything else went on. Once the cause is mended, `redrive` has it processed after
    all. Letters are named by the beginning of their id, as `list` prints it.
    """


@deadletters.command("list", short_help="List letters, the oldest first.")
@wanted_options
@click.option("--all", "every", is_flag=True, help="Also letters that were redriven or discarded.")
@json_option
@settings_options
def list_letters(wanted: Wanted, every: bool, as_json: bool, options: Options) -> None:
    """List letters, the oldest first: id, when, stage, reason, user, record, what went wrong.

    \b
    Examples:
      profilestream deadletters list --stage extract --since 2h
      profilestream deadletters list --all --json | jq -r 'select(.state == "discarded") | .id'
    """
    from streams.cli.letter_printing import letter_line, letter_object

    letters = wanted.of(present(asyncio.run(_letters(options))[1], every))
    if as_json:
        for letter in letters:
            print_json(letter_object(letter))
        return
    console = stdout_console()
    for letter in letters:
        console.print(letter_line(letter, SHOWN), soft_wrap=True)
    if not letters:
        complain("there are no such dead letters")


@deadletters.command(short_help="Count letters by stage and reason.")
@wanted_options
@click.option("--all", "every", is_flag=True, help="Also letters that were redriven or discarded.")
@json_option
@settings_options
def count(wanted: Wanted, every: bool, as_json: bool, options: Options) -> None:
    """Count letters by stage and reason, the most frequent first.

    \b
    Examples:
      profilestream deadletters count
      profilestream deadletters count --json
    """
    letters = wanted.of(present(asyncio.run(_letters(options))[1], every))
    counts = Counter((letter.why.stage, letter.why.reason, letter.state) for letter in letters)
    for (stage, reason, state), number in counts.most_common():
        if as_json:
            print_json({"stage": stage, "reason": reason, "state": state, "count": number})
        else:
            click.echo(f"{number:>7,}  {stage:<8}  {printable(reason)}" + (f"  {state}" if every else ""))
    if not as_json:
        click.echo(f"{len(letters):>7,}  {'letters' if every else 'open letters'}")


@deadletters.command(short_help="Print a letter and the record in it.")
@click.argument("letter", type=Text(), metavar="ID")
@json_option
@settings_options
def show(letter: str, as_json: bool, options: Options) -> None:
    """Print a letter: where it comes from, what went wrong, and the record in it.

    A value is printed with line breaks where it is JSON, otherwise as its bytes. With --json the key and the value are
    text, or under key_base64 and value_base64 where they are not UTF-8.

    \b
    Examples:
      profilestream deadletters show 3f2c
      profilestream deadletters show 3f2c --json | jq -r .value
    """
    from streams.cli.letter_printing import print_letter, whole_letter_object

    found, content, objection = asyncio.run(_show(options, letter))
    if as_json:
        print_json(whole_letter_object(found, content, objection))
    else:
        print_letter(stdout_console(), found, content, objection)


async def _show(options: Options, beginning: str) -> tuple[Letter, Content, str | None]:
    from streams.redrive import CannotRedrive, record_again

    store, letters = await _letters(options)
    letter = named(letters, [beginning])[0]
    async with aclosing(store.contents([letter])) as contents:
        async for _, content in contents:
            if letter.state != "open":
                return letter, content, f"it was {letter.state} before"
            try:
                record_again(letter, content, store.topics)
            except CannotRedrive as reason:
                return letter, content, str(reason)
            return letter, content, None
    raise CommandFailed(f"the dead letter {letter.letter_id} has been removed meanwhile")


@deadletters.command(short_help="Send records again.")
@click.argument("ids", type=Text(), nargs=-1, metavar="[ID]...")
@wanted_options
@click.option("--all", "every", is_flag=True, help="All open letters.")
@seconds_option(
    "--wait", explanation="Wait so long for what was sent to be processed, and print what becomes of it.", default=None
)
@json_option
@settings_options
@click.pass_context
def redrive(
    ctx: click.Context,
    ids: tuple[str, ...],
    wanted: Wanted,
    every: bool,
    wait: float | None,
    as_json: bool,
    options: Options,
) -> None:
    """Send records of open letters again: those named, those that the options choose, or --all.

    What failed is processed again, and only that: the branches of a flush that had answered do not answer twice. What
    the profile has learnt meanwhile stays; a value that was said before the present one is recorded and does not
    replace it. Run twice, or ended on the way and run again, it changes nothing more. What fails again is a new letter.
    Letters of what a user said before being forgotten are refused.

    With --wait, a chat message that can be read by now has ended once it is taken: to see that, the window of its user
    is closed at once, as `profilestream flush` does.

    The exit code is 3 where a letter could not be sent again or, with --wait, one failed again, and 1 where one has not
    ended in time.

    \b
    Examples:
      profilestream deadletters redrive 3f2a91bc-0d4 --wait 60
      profilestream deadletters redrive --stage extract --reason model_unavailable
    """
    if bool(ids) + every + (not wanted.anything) != 1:
        raise click.UsageError("Say which letters: their ids, or options that choose some, or --all.")
    ctx.exit(asyncio.run(_redrive(options, ids, wanted, wait, as_json)))


async def _redrive(options: Options, ids: Sequence[str], wanted: Wanted, wait: float | None, as_json: bool) -> int:
    from streams.kafka import producer
    from streams.redrive_waiting import RedriveWait
    from streams.redriving import Redriver
    from streams.topics import ensure_topics

    store, letters = await _letters(options)
    chosen = named(letters, ids) if ids else wanted.of(present(letters, every=False))
    partitions = await ensure_topics(store.kafka)
    async with AsyncExitStack() as stack:
        ends = None
        if wait is not None and chosen:
            ends = await stack.enter_async_context(RedriveWait.open(store, chosen, partitions))
        client = await stack.enter_async_context(producer(store.kafka))
        redriver = Redriver(store, client, partial(datetime.now, UTC), partial(_forgotten, options.load().clickhouse))
        results = []
        async with aclosing(redriver.redrive(chosen)) as redriven:
            async for result in redriven:
                results.append(result)
                if not as_json:
                    click.echo(f"{result.letter.letter_id[:SHOWN]}  {_said(result)}")
        sent = [result for result in results if result.refused is None]
        if not as_json:
            click.echo(f"{len(sent):,} sent again, {len(results) - len(sent):,} not")
        if ends is not None and wait is not None and sent:
            await _say_who_works(store)
            await ends.until_ended(sent, client, wait)
    outcomes = {result.letter.letter_id: _outcome(result, ends) for result in results}
    for result in results:
        outcome = outcomes[result.letter.letter_id]
        if as_json:
            print_json(_result_object(result, outcome, waited=wait is not None))
        elif wait is not None and result.refused is None:
            click.echo(f"{result.letter.letter_id[:SHOWN]}  {outcome}")
    if wait is not None and (left := sum(outcomes[result.letter.letter_id].name is None for result in sent)):
        complain(
            f"{left:,} of them have not ended within {wait:g} s; they will, once a worker has come to them: "
            "`profilestream doctor` says whether the services answer"
        )
        return EXIT_FAILED
    failed = any(outcome.name == "failed" for outcome in outcomes.values())
    return EXIT_REFUSED if failed or len(sent) < len(results) else 0


async def _say_who_works(store: DeadLetterStore) -> None:
    from streams.waiting import worker_count

    if await worker_count(store.kafka) == 0:
        complain(
            "no worker is running: what was sent is processed once one does (`profilestream worker` or `up`); waiting "
            "for it"
        )


async def _forgotten(clickhouse: ClickHouseSettings, users: Iterable[User]) -> Sequence[FlushEvent]:
    """Ask the archive which users were forgotten; where it does not answer, say that nothing is known of that."""
    from sinks.errors import SinkRejected, SinkUnavailable
    from streams.stores import open_archive

    wanted = set(users)
    if not wanted:
        return ()
    try:
        async with open_archive(clickhouse) as archive:
            return await archive.forgotten(wanted)
    except (SinkUnavailable, SinkRejected) as error:
        complain(f"whether users have been forgotten since is not known: {printable(str(error))}")
        return ()


class Outcome(NamedTuple):
    """What became of a record that was sent again.

    Attributes:
        name: as in the event that ended its flush, of a chat message ``taken`` or ``failed``; None until it is known.
        errors: what failed, by branch or stage.
        delta_ids: the changes that it made.
    """

    name: str | None = None
    errors: Mapping[str, str] = {}
    delta_ids: Sequence[str] = ()

    def __str__(self) -> str:
        """Return it in words."""
        match self.name:
            case None:
                return "not ended yet"
            case "failed":
                problems = "; ".join(f"{branch}: {problem}" for branch, problem in self.errors.items())
                return printable(f"failed again, in a new letter: {problems}")
            case "taken":
                return "taken by a worker"
            case name:
                return f"{name}, {len(self.delta_ids)} changes"


def _outcome(result: Redriven, ends: RedriveWait | None) -> Outcome:
    if ends is None:
        return Outcome()
    if result.message is not None:
        place = result.message.place
        if place in ends.parked:
            return Outcome("failed", {"window": ends.parked[place]})
        return Outcome("taken" if place in ends.taken else None)
    event = ends.events.get(result.ends or "")
    return Outcome() if event is None else Outcome(event.outcome, event.errors, event.delta_ids)


def _said(result: Redriven) -> str:
    if result.refused is None:
        return "sent again"
    return f"not sent again: {printable(result.refused)}"


def _result_object(result: Redriven, outcome: Outcome, *, waited: bool) -> dict[str, object]:
    found: dict[str, object] = {
        "id": result.letter.letter_id,
        "sent": result.refused is None,
        "refused": result.refused,
        "event_id": result.ends,
    }
    if waited:
        found |= {"outcome": outcome.name, "errors": outcome.errors, "delta_ids": outcome.delta_ids}
    return found


@deadletters.command(short_help="Close letters without processing their records.")
@click.argument("ids", type=Text(), nargs=-1, required=True, metavar="ID...")
@click.option("--reason", type=Text(), required=True, metavar="TEXT", help="Why; it is kept with the letter.")
@json_option
@settings_options
@click.pass_context
def discard(ctx: click.Context, ids: tuple[str, ...], reason: str, as_json: bool, options: Options) -> None:
    """Close letters without processing their records; they stay on the topic.

    A letter that was closed before keeps its reason, and the others are closed; the exit code is 3 then. Where one of
    the ids is that of no letter, nothing is done, and the exit code is 1.

    \b
    Examples:
      profilestream deadletters discard 3f2a91bc-0d4 --reason "a test message"
      profilestream deadletters list --stage archive --json | jq -r .id |
        xargs profilestream deadletters discard --reason "written by a newer version"
    """
    if not reason.strip():
        raise click.UsageError("--reason is empty.")
    ctx.exit(asyncio.run(_discard(options, ids, reason, as_json)))


async def _discard(options: Options, ids: Sequence[str], reason: str, as_json: bool) -> int:
    from schemas.dead_letters import Resolution
    from streams.cli.letter_printing import decision
    from streams.kafka import producer

    store, letters = await _letters(options)
    chosen = named(letters, ids)
    now = datetime.now(UTC)
    resolutions = [
        (letter, Resolution(letter_id=letter.letter_id, decision="discarded", reason=reason, resolved_at=now))
        for letter in chosen
        if letter.state == "open"
    ]
    async with producer(store.kafka) as client:
        await store.resolve(client, resolutions)
    for letter in chosen:
        is_open = letter.state == "open"
        if as_json:
            because = reason if is_open or letter.resolution is None else letter.resolution.reason
            state = "discarded" if is_open else letter.state
            print_json({"id": letter.letter_id, "discarded": is_open, "state": state, "resolved_because": because})
        else:
            said = "discarded" if is_open else f"not discarded, because it was {decision(letter)}"
            click.echo(f"{letter.letter_id[:SHOWN]}  {said}")
    return 0 if len(resolutions) == len(chosen) else EXIT_REFUSED


async def _letters(options: Options) -> tuple[DeadLetterStore, list[Letter]]:
    """Read the topic; what on it is no letter is complained about."""
    from streams.dead_letter_store import DeadLetterStore

    store = await DeadLetterStore.open(options.load().kafka)
    letters = await store.read()
    for partition, offset, reason in letters.unreadable[:_COMPLAINTS]:
        complain(f"partition {partition} offset {offset} holds no dead letter: {printable(reason)}")
    if (more := len(letters.unreadable) - _COMPLAINTS) > 0:
        complain(f"{more} more records hold none")
    return store, letters.all()
