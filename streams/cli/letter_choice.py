"""Which dead letters a command is about: by the beginnings of their ids, or by what they are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from schemas.stages import StageName
from streams.cli.common import CommandFailed
from streams.cli.parameters import LOCAL_TIME, Moment, Text

if TYPE_CHECKING:
    from streams.letters import Letter

R = TypeVar("R")

_STAGES: Final[tuple[StageName, ...]] = (
    "window",
    "summary",
    "extract",
    "tag",
    "domain",
    "facts",
    "facts_half",
    "preferences_half",
    "merge",
    "archive",
    "index",
)
"""Stages that park records."""


class Wanted(NamedTuple):
    """Which letters are meant; None means any."""

    stage: str | None
    reason: str | None
    user: str | None
    tenant: str | None
    since: datetime | None
    limit: int | None

    @property
    def anything(self) -> bool:
        """Whether this leaves the choice open."""
        return not any(self)

    def of(self, letters: Iterable[Letter]) -> list[Letter]:
        """Return the letters that are meant, in the order given."""
        return [letter for letter in letters if self._matches(letter)][: self.limit]

    def _matches(self, letter: Letter) -> bool:
        tenant, user = letter.user or (None, None)
        return (
            self.stage in {None, letter.why.stage}
            and self.reason in {None, letter.why.reason}
            and self.user in {None, user}
            and self.tenant in {None, tenant}
            and (self.since is None or letter.why.failed_at >= self.since)
        )


def wanted_options(command: Callable[..., R]) -> Callable[..., R]:
    """Give a command the options that choose letters, which it receives as `wanted`."""

    @click.option("--stage", type=click.Choice(_STAGES), help="Only what this stage could not process.")
    @click.option("--reason", type=Text(), help="Only letters with this reason, a code such as invalid_record.")
    @click.option("--user", type=Text(), help="Only records of this user.")
    @click.option("--tenant", type=Text(), help="Only records of this tenant.  [default: all]")
    @click.option(
        "--since",
        type=Moment(),
        metavar="WHEN",
        help=f"Only what failed since then: 30m, 2h, 7d, or a time ({LOCAL_TIME}).",
    )
    @click.option("--limit", type=click.IntRange(min=1), metavar="N", help="The first N at the most, the oldest first.")
    @functools.wraps(command)
    def with_options(*args: Any, **kwargs: Any) -> R:
        wanted = Wanted(**{name: kwargs.pop(name) for name in Wanted._fields})
        return command(*args, wanted=wanted, **kwargs)

    return with_options


def present(letters: Iterable[Letter], every: bool) -> list[Letter]:
    """Return the letters that lists show: those of users who are forgotten never."""
    return [letter for letter in letters if letter.state == "open" or (every and letter.state != "forgotten")]


def named(letters: Iterable[Letter], beginnings: Sequence[str]) -> list[Letter]:
    """Return the letters whose ids begin so, each once.

    Raises:
        CommandFailed: when one of these is the beginning of no id or of several, or its user is forgotten; where there
            are others, it says that nothing is done about those either.
    """
    letters = list(letters)
    found: dict[str, Letter] = {}
    for beginning in beginnings:
        try:
            letter = _named(letters, beginning)
        except CommandFailed as error:
            raise CommandFailed(f"{error}. Nothing was done" if len(beginnings) > 1 else str(error)) from None
        found[letter.letter_id] = letter
    return list(found.values())


def _named(letters: Iterable[Letter], beginning: str) -> Letter:
    from streams.cli.printing import local_time

    matches = [letter for letter in letters if beginning and letter.letter_id.startswith(beginning.lower())]
    shown = present(matches, every=True)
    if len(shown) > 1:
        raise CommandFailed(f"{len(shown)} dead letters have ids that begin with {beginning!r}: give more of it")
    if shown:
        return shown[0]
    if matches and (resolution := matches[0].resolution) is not None:
        raise CommandFailed(
            f"the user of the dead letter {matches[0].letter_id} was forgotten on "
            f"{local_time(resolution.resolved_at)}: it is shown and redriven no more"
        )
    raise CommandFailed(
        f"no dead letter has an id that begins with {beginning!r}: `profilestream deadletters list --all` prints them"
    )
