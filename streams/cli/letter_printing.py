"""How dead letters are printed: lines and pages for people, objects for programs."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
from rich.text import Text

from schemas.messages import LATEST
from streams.cli.common import printable
from streams.cli.printing import local_time, user_name

if TYPE_CHECKING:
    from rich.console import Console

    from streams.letters import Content, Letter


def letter_line(letter: Letter, characters: int) -> Text:
    """Return one line about a letter, with so many characters of its id."""
    why = letter.why
    state = "" if letter.state == "open" else f"  {letter.state}"
    return Text.assemble(
        (letter.letter_id[:characters], "bold"),
        (f"  {local_time(why.failed_at)}", "dim"),
        f"  {why.stage:<8}  ",
        (printable(why.reason), "red" if not state else "dim"),
        f"  {_user(letter)}  ",
        (_place(letter), "dim"),
        f"  {printable(why.detail)}",
        (state, "italic"),
    )


def letter_object(letter: Letter) -> dict[str, object]:
    """Return what is known of a letter for programs, without the record in it."""
    why, resolution = letter.why, letter.resolution
    tenant, user = letter.user or (None, None)
    return {
        "id": letter.letter_id,
        "state": letter.state,
        "stage": why.stage,
        "reason": why.reason,
        "detail": why.detail,
        "tenant_id": tenant,
        "user_id": user,
        "topic": why.topic,
        "partition": why.partition,
        "offset": why.offset,
        "attempts": why.attempts,
        "failed_at": why.failed_at,
        "resolved_at": None if resolution is None or letter.state == "open" else resolution.resolved_at,
        "resolved_because": None if resolution is None or letter.state == "open" else resolution.reason,
    }


def whole_letter_object(letter: Letter, content: Content, objection: str | None) -> dict[str, object]:
    """Return a letter with its record for programs; `objection` says why it cannot be redriven."""
    return {
        **letter_object(letter),
        "redrivable": objection is None,
        "objection": objection,
        "timestamp": _moment(content.timestamp),
        "headers": [[name, _text(value or b"")] for name, value in content.headers],
        **_bytes("key", content.key),
        **_bytes("value", content.value),
    }


def _bytes(name: str, data: bytes | None) -> dict[str, object]:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {name: None, f"{name}_base64": base64.b64encode(data or b"").decode()}


def print_letter(console: Console, letter: Letter, content: Content, objection: str | None) -> None:
    """Print a letter with its record for people; `objection` says why it cannot be redriven."""
    why = letter.why
    rows = [
        ("letter", letter.letter_id),
        ("state", "open" if letter.state == "open" else decision(letter)),
        ("stage", why.stage),
        ("reason", f"{printable(why.reason)}: {printable(why.detail)}"),
        ("failed", f"{local_time(why.failed_at)}, {'1 try' if why.attempts == 1 else f'{why.attempts} tries'}"),
        ("user", _user(letter)),
        ("record", f"{_place(letter)}, {local_time(_moment(content.timestamp))}"),
        *([("redrive", _redrive(objection))] if letter.state == "open" else []),
        ("key", "null" if content.key is None else printable(_text(content.key))),
        *(("header", f"{printable(name)}: {printable(_text(value or b''))}") for name, value in content.headers),
    ]
    for name, text in rows:
        console.print(Text.assemble((f"{name:<8}", "dim"), "  ", text), soft_wrap=True)
    if content.value is None:
        console.print(Text.assemble(("value     ", "dim"), "null"))
        return
    console.print(Text.assemble(("value     ", "dim"), f"{len(content.value):,} bytes"))
    for line in value_lines(content.value):
        console.print(Text(line), soft_wrap=True)


def value_lines(value: bytes) -> list[str]:
    """Return a value as lines that are safe to print: JSON with its structure, everything else as it is."""
    try:
        text = _text(msgspec.json.format(value, indent=2))
    except (msgspec.DecodeError, RecursionError):
        text = _text(value)
    return [printable(line) for line in text.split("\n")]


def _text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def _user(letter: Letter) -> str:
    return "(nobody's)" if letter.user is None else user_name(*letter.user)


def _place(letter: Letter) -> str:
    why = letter.why
    return f"{printable(why.topic)}[{why.partition}]@{why.offset}"


def decision(letter: Letter) -> str:
    """Return what was decided about a letter that is no longer open, when, and why."""
    resolution = letter.resolution
    if resolution is None:
        return letter.state
    return f"{letter.state} on {local_time(resolution.resolved_at)}: {printable(resolution.reason)}"


def _redrive(objection: str | None) -> str:
    return "possible" if objection is None else f"not possible: {printable(objection)}"


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(min(max(milliseconds / 1000, 0.0), LATEST.timestamp()), UTC)
