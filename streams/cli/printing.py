"""How changes are printed for people."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from rich.text import Text

from schemas.deltas import DeltaKind, Operation, ProfileDelta
from schemas.messages import DEFAULT_TENANT
from streams.cli.common import printable

if TYPE_CHECKING:
    from rich.console import Console

_SIGNS: Final[dict[Operation, tuple[str, str]]] = {
    "add": ("+", "green"),
    "append": ("+", "cyan"),
    "update": ("~", "yellow"),
    "organise": ("~", "yellow"),
    "shorten": ("~", "yellow"),
    "confirm": ("=", "dim"),
    "delete": ("-", "red"),
    "invalidate": ("✗", "red"),
    "overtaken": ("·", "dim"),
    "forget": ("✗", "red"),
}
"""The sign of each operation, and its style."""

_EVIDENCE_SHOWN: Final = 5
_INDENTATION: Final = 4


def local_time(moment: datetime) -> str:
    """Return a time in the reader's time zone, to the second."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def local_day(moment: datetime) -> str:
    """Return the day of a time in the reader's time zone."""
    return f"{moment.astimezone():%Y-%m-%d}"


def user_name(tenant_id: str, user_id: str) -> str:
    """Return a user's id, with the tenant's before it unless that is the default one."""
    return printable(user_id if tenant_id == DEFAULT_TENANT else f"{tenant_id}:{user_id}")


def item_name(kind: str, topic: str, sub_topic: str) -> str:
    """Return what a slot, fact, preference or tag is called: ``work/company``, ``fact/location``, ``tag/coffee``."""
    if kind == "profile":
        return "profile"
    return printable(f"{kind}/{topic}" if kind in {"fact", "preference"} else f"{topic}/{sub_topic}")


def print_delta(console: Console, delta: ProfileDelta) -> None:
    """Print a change: one line; on a terminal that is too narrow for it, its grounds begin another."""
    line = delta_line(delta)
    if not console.is_terminal or line.cell_len <= console.width:
        console.print(line, soft_wrap=True)
        return
    print_hanging(console, _change(delta))
    print_hanging(console, Text.assemble(" " * _INDENTATION, _grounds(delta)))


def print_hanging(console: Console, text: Text) -> None:
    """Print a line; where a terminal is too narrow for it, what does not fit is in further lines, set in."""
    if not console.is_terminal or text.cell_len <= console.width:
        console.print(text, soft_wrap=True)
        return
    first, *others = text.wrap(console, max(console.width - _INDENTATION, _INDENTATION))
    first.rstrip()
    console.print(first, soft_wrap=True)
    for line in others:
        line.rstrip()
        console.print(Text.assemble(" " * _INDENTATION, line), soft_wrap=True)


def delta_line(delta: ProfileDelta) -> Text:
    """Return one line that says who changed when, what it was and is, why, and which messages say so."""
    return Text.assemble(_change(delta), "  ", _grounds(delta))


def _change(delta: ProfileDelta) -> Text:
    return Text.assemble(
        (local_time(delta.recorded_at), "dim"),
        f"  {user_name(delta.tenant_id, delta.user_id)} v{delta.version}  ",
        _SIGNS[delta.op],
        (f" {item_name(delta.kind, delta.topic, delta.sub_topic)}", "bold"),
        f"  {_values(delta)}",
        (_details(delta), "dim"),
    )


def _grounds(delta: ProfileDelta) -> Text:
    more = len(delta.evidence) - _EVIDENCE_SHOWN
    evidence = ", ".join(delta.evidence[:_EVIDENCE_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return Text.assemble(
        (f"({printable(delta.reason)})  " if delta.reason else "", "italic"), (f"[{printable(evidence)}]", "dim")
    )


def _values(delta: ProfileDelta) -> str:
    if delta.op == "forget":
        return "everything is forgotten"
    if delta.op == "invalidate":
        return _value(delta.kind, delta.before)
    if delta.op == "overtaken":
        return f"{_value(delta.kind, delta.after)} stays, not {_value(delta.kind, delta.added)}"
    if delta.before in {None, delta.after}:
        return _value(delta.kind, delta.after)
    return f"{_value(delta.kind, delta.before)} → {_value(delta.kind, delta.after)}"


def _value(kind: DeltaKind, value: str | None) -> str:
    """Return a value for print; those of slots are in quotes, because they may be any words."""
    if value is None:
        return "nothing"
    return f"“{printable(value)}”" if kind == "slot" else printable(value)


def _details(delta: ProfileDelta) -> str:
    """Return what is to be said beside the text: how often it was said, how strong it is."""
    if delta.op == "invalidate":
        return "  no longer holds"
    if delta.after is None or delta.kind == "tag" or delta.op == "overtaken":
        return ""
    details = []
    if delta.op == "confirm":
        details.append(f"said again ×{delta.update_hits}")
    elif delta.kind != "slot":
        details.append(f"×{delta.update_hits}")
    if delta.preference is not None:
        before = delta.preference.strength_before
        details.append(
            "strength " + (f"{before:.2f} → " if before is not None else "") + f"{delta.preference.strength:.2f}"
        )
    return "".join(f"  {detail}" for detail in details)
