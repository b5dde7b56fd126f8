"""``profilestream forget``: removes all that is known of a user, and says what it has removed from where."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click
import msgspec

from streams.cli.archive import missing_tables
from streams.cli.common import (
    EXIT_FAILED,
    CommandFailed,
    Options,
    complain,
    json_option,
    print_json,
    settings_options,
)
from streams.cli.parameters import seconds_option, tenant_option, user_argument
from streams.cli.unanswered import tell_while_waiting

if TYPE_CHECKING:
    from schemas.messages import ChatMessage
    from sinks.clickhouse import ClickHouseArchive
    from sinks.vectors import VectorIndex
    from streams.dead_letter_store import DeadLetterStore
    from streams.forgetting import Kept
    from streams.letters import Letters
    from streams.settings import Settings

_CHECK_EVERY: Final = 0.25
_DAY: Final = 86_400_000


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is of a user, by what holds it.

    Attributes:
        slots: of the profile; like the next three.
        facts: those that no longer hold included.
        preferences: how the user likes things to be.
        tags: of the catalogue.
        deltas: rows of the archive; like the next two. What says that the user was forgotten does not count.
        events: ends of flushes.
        tag_hits: tags given to flushes.
        vectors: points of the vector index.
        dead_letters: records that could not be processed, whatever was decided about them.
    """

    slots: int
    facts: int
    preferences: int
    tags: int
    deltas: int
    events: int
    tag_hits: int
    vectors: int
    dead_letters: int

    def __str__(self) -> str:
        """Return what there is in words."""
        present = {name: count for name, count in msgspec.structs.asdict(self).items() if count}
        return ", ".join(f"{count:,} {_NAMES[name]}" for name, count in present.items()) or "nothing"

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return any(msgspec.structs.astuple(self))


_NAMES: Final = {
    "slots": "slots",
    "facts": "facts",
    "preferences": "preferences",
    "tags": "tags",
    "deltas": "archived deltas",
    "events": "archived events",
    "tag_hits": "archived tag hits",
    "vectors": "vectors",
    "dead_letters": "dead letters",
}


class Stores:
    """The places that hold something of a user."""

    def __init__(self, archive: ClickHouseArchive, vectors: VectorIndex, letters: DeadLetterStore) -> None:
        self._archive = archive
        self._vectors = vectors
        self._letters = letters

    async def known(self, user: tuple[str, str]) -> tuple[Known, Letters]:
        """Count what there is of a user (tenant, user); return the dead letters of everybody as well."""
        from sinks.vectors import ALL_KINDS

        profile = await self._archive.profile(*user)
        letters = await self._letters.read()
        known = Known(
            slots=len(profile.slots),
            facts=len(profile.facts) + len(profile.replaced_facts),
            preferences=len(profile.preferences),
            tags=len(profile.tags),
            **await self._archive.count_user(*user),
            vectors=await self._vectors.count(*user, kinds=ALL_KINDS),
            dead_letters=len(_open_letters(user, letters)),
        )
        return known, letters

    async def until_empty(self, user: tuple[str, str], seconds: float) -> tuple[Known, Letters]:
        """Wait until there is nothing of a user and return what `known` does then, or when the time is up."""
        deadline = time.monotonic() + seconds
        while True:
            known, letters = await self.known(user)
            if not known or time.monotonic() >= deadline:
                return known, letters
            await asyncio.sleep(_CHECK_EVERY)


def _open_letters(user: tuple[str, str], letters: Letters) -> set[str]:
    """Return the ids of a user's dead letters that are not marked as forgotten."""
    return {letter.letter_id for letter in letters.all() if letter.user == user and letter.state != "forgotten"}


def _marked(among: set[str], letters: Letters) -> int:
    """Count those of these dead letters that the broker could not delete, and that are only marked."""
    return sum(letter.letter_id in among and letter.state == "forgotten" for letter in letters.all())


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed from where.

    Attributes:
        tenant_id: the user's tenant.
        user_id: the user.
        message_id: of the request.
        delta_id: of the change that tells subscribers.
        version: of the profile, which is empty as of this change.
        recorded_at: when the worker made it.
        removed: what there was before and is not any more.
        marked_dead_letters: dead letters that the broker does not delete: they are marked, and shown no more.
        kept: topics that hold what was written before, and for how long.
    """

    tenant_id: str
    user_id: str
    message_id: str | None
    delta_id: str
    version: int
    recorded_at: datetime
    removed: Known
    marked_dead_letters: int
    kept: list[Kept]


@click.command()
@user_argument
@tenant_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@seconds_option("--wait", explanation="How long a worker, and then the stores, may take.")
@json_option
@settings_options
@click.pass_context
def forget(ctx: click.Context, user: str, tenant: str, yes: bool, wait: float, as_json: bool, options: Options) -> None:
    """Remove all that is known of USER, and print what was removed from where.

    Profile, vectors, rows of the archive and dead letters are removed; what is in an open window, or still being
    processed, is dropped. Subscribers are told by a change of kind "profile" that holds nothing of what was known. What
    the user says afterwards is processed as that of a new user. It cannot be undone.

    Records on the topics stay until the broker removes them; the receipt names them. They bring nothing back, also when
    the chat topic is read again.

    A user is that of --tenant; the same id in another tenant is somebody else.

    \b
    Examples:
      profilestream forget anna
      profilestream forget anna --tenant acme --yes --json > receipt.json
    """
    from streams.forgetting import forget_request

    request = forget_request(tenant, user)
    if not (yes or sys.stdin.isatty()):
        raise click.UsageError("Nobody can be asked here: say --yes.")
    settings = options.load()
    before, letters = asyncio.run(_known(settings, request))
    if not (yes or click.confirm(f"There is of {_name(request)}: {before}. Forget all of it?", err=True)):
        complain("nothing was done")
        ctx.exit(EXIT_FAILED)
    receipt = asyncio.run(_forget(settings, request, before, letters, wait))
    if as_json:
        print_json(receipt)
    else:
        _print_receipt(receipt)


async def _known(settings: Settings, request: ChatMessage) -> tuple[Known, set[str]]:
    """Return what there is of the user, and the ids of the dead letters."""
    user = (request.tenant_id, request.user_id)
    async with _stores(settings) as stores:
        known, letters = await stores.known(user)
    return known, _open_letters(user, letters)


async def _forget(settings: Settings, request: ChatMessage, before: Known, letters: set[str], wait: float) -> Receipt:
    from streams.forgetting import forget, kept_topics

    user = (request.tenant_id, request.user_id)
    tombstone = await tell_while_waiting(settings.kafka, forget(settings.kafka, request, wait), wait)
    if tombstone is None:
        raise CommandFailed(
            f"no worker has forgotten {_name(request)} within {wait:g} s: the request is on the chat topic and is "
            "carried out once one runs (`profilestream worker` or `up`); repeat this command then for a receipt"
        )
    async with _stores(settings) as stores:
        left, letters_now = await stores.until_empty(user, wait)
        if left:
            raise CommandFailed(
                f"{_name(request)} is forgotten, but after {wait:g} s there still is: {left}. It is being removed, or "
                "was said since; `profilestream doctor` checks the services, and repeating this command is safe"
            )
        marked = _marked(letters, letters_now)
        return Receipt(
            tenant_id=request.tenant_id,
            user_id=request.user_id,
            message_id=request.message_id,
            delta_id=tombstone.delta_id,
            version=tombstone.version,
            recorded_at=tombstone.recorded_at,
            removed=msgspec.structs.replace(before, dead_letters=max(0, before.dead_letters - marked)),
            marked_dead_letters=marked,
            kept=await kept_topics(settings.kafka),
        )


@asynccontextmanager
async def _stores(settings: Settings) -> AsyncIterator[Stores]:
    from streams.dead_letter_store import DeadLetterStore
    from streams.stores import open_archive, open_vectors

    async with open_archive(settings.clickhouse) as archive, open_vectors(settings, create=False) as vectors:
        with missing_tables():
            yield Stores(archive, vectors, await DeadLetterStore.open(settings.kafka))


def _name(request: ChatMessage) -> str:
    from streams.cli.printing import user_name

    return user_name(request.tenant_id, request.user_id)


def _print_receipt(receipt: Receipt) -> None:
    from streams.cli.printing import local_time, user_name

    name = user_name(receipt.tenant_id, receipt.user_id)
    when = local_time(receipt.recorded_at)
    if receipt.removed or receipt.marked_dead_letters:
        click.echo(f"{name} was forgotten on {when}; the profile is empty as of version {receipt.version}.")
    else:
        click.echo(
            f"Nothing was known of {name}. What was still waiting in a window was dropped on {when}; subscribers are "
            f"told so with version {receipt.version}."
        )
    if receipt.removed:
        click.echo("Removed:")
        for field, count in msgspec.structs.asdict(receipt.removed).items():
            click.echo(f"  {count:>7,}  {_NAMES[field]}")
    if receipt.marked_dead_letters:
        click.echo(
            f"Not removed, because this broker deletes no records: {receipt.marked_dead_letters:,} dead letters, which "
            "are marked as forgotten and shown no more."
        )
    click.echo("Not removed, because Kafka does it by itself, are records from before on:")
    for kept in receipt.kept:
        click.echo(f"  {kept.topic}  ({_retention(kept)})")


def _retention(kept: Kept) -> str:
    if kept.compacted:
        return "compacted: until the broker next cleans it"
    if kept.retention_ms is None:
        return "as long as the broker keeps it"
    if kept.retention_ms < 0:
        return "kept until retention.ms is set or records are deleted"
    return f"kept for {kept.retention_ms / _DAY:.3g} days"
