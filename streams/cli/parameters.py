"""What arguments and options may hold, text, ids of users and tenants, moments; and those that commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import click
import msgspec

from schemas import messages
from streams.cli.common import printable

R = TypeVar("R")

_FOREIGN: Final = re.compile("[\udc80-\udcff]")
"""How Python writes the bytes of an argument that are not UTF-8."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_AGE: Final = re.compile(r"(\d+)([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

SECONDS: Final = 120.0
"""How long a command waits unless told otherwise: longer than `kafka.session_timeout`, with time for the work."""

LOCAL_TIME: Final = "local time unless it has an offset"
"""What the help of an option says of a time that is given to it."""


def quoted(text: str) -> str:
    """Return an argument as an error shows it, with bytes that are not UTF-8 as escapes."""
    text = _FOREIGN.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)
    return f"'{printable(text)}'"


class Text(click.ParamType):
    """Text in UTF-8: what is stored and searched can hold no other."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text."""
        text = str(value)
        if _SURROGATE.search(text):
            self.fail(f"{quoted(text)} is not UTF-8: give it from a terminal or file whose encoding is.", param, ctx)
        return text


class UserId(Text):
    """The id of a user."""

    name = "user"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the id."""
        text = super().convert(value, param, ctx)
        if not _fits(text, messages.UserId):
            size = f"{len(text):,}" if text else "none"
            self.fail(f"the id of a user has 1 to 256 characters, and this one {size}: give another.", param, ctx)
        return text


class TenantId(Text):
    """The id of a tenant."""

    name = "tenant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the id."""
        text = super().convert(value, param, ctx)
        if not _fits(text, messages.TenantId):
            self.fail(
                f"{quoted(text)} cannot be a tenant: its id has 1 to 64 letters, digits, '_', '.' and '-'.", param, ctx
            )
        return text


def _fits(text: str, kind: Any) -> bool:
    try:
        msgspec.convert(text, kind)
    except msgspec.ValidationError:
        return False
    return True


class Moment(click.ParamType):
    """A moment, or how long ago it was; without an offset it is in the reader's time zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the moment."""
        if isinstance(value, datetime):
            return value
        try:
            return moment(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)


def moment(text: str) -> datetime:
    """Return the moment that a text names.

    Raises:
        ValueError: when it names none; the message is a sentence that says which forms do.
    """
    try:
        if text == "now":
            return datetime.now(UTC)
        if age := _AGE.fullmatch(text):
            found = datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})
        else:
            found = datetime.fromisoformat(text).astimezone()
        if messages.EARLIEST <= found <= messages.LATEST:
            return found
    except (ValueError, OverflowError, OSError):
        pass
    raise ValueError(
        f"{quoted(text)} is no time: give a date (2026-03-01), a date and time (2026-03-01T12:00, with Z or +01:00 if "
        "it is not local), an age (30m, 2h, 7d) or now"
    )


user_argument = click.argument("user", type=UserId())

tenant_option = click.option(
    "--tenant", type=TenantId(), default=messages.DEFAULT_TENANT, show_default=True, help="The user's tenant."
)


def seconds_option(
    name: str, *, explanation: str, default: float | None = SECONDS
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return the option, of this name, that limits how long a command waits for what others do.

    Args:
        name: with its dashes.
        explanation: what is waited for, for ``--help``.
        default: seconds; None: without the option it does not wait.
    """
    return click.option(
        name,
        type=click.FloatRange(min=0, min_open=True),
        default=default,
        show_default=default is not None,
        metavar="SECONDS",
        help=explanation,
    )
