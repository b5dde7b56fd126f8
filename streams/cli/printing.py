"""How changes and values are printed for people."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from rich.text import Text

from schemas.deltas import ProfileDelta
from schemas.messages import DEFAULT_TENANT
from streams.cli.common import printable

_STYLES: Final = {"add": "green", "update": "yellow", "append": "cyan", "confirm": "dim", "delete": "red"}
_EVIDENCE_SHOWN: Final = 5


def local_time(moment: datetime) -> str:
    """Return a time in the reader's time zone, to the second."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def user_name(tenant_id: str, user_id: str) -> str:
    """Return a user's id, with the tenant's before it unless that is the default one."""
    return printable(user_id if tenant_id == DEFAULT_TENANT else f"{tenant_id}:{user_id}")


def delta_line(delta: ProfileDelta) -> Text:
    """Return one line that says who changed when, what it was and is, why, and which messages say so."""
    more = len(delta.evidence) - _EVIDENCE_SHOWN
    evidence = ", ".join(delta.evidence[:_EVIDENCE_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return Text.assemble(
        (local_time(delta.recorded_at), "dim"),
        f"  {user_name(delta.tenant_id, delta.user_id)} v{delta.version}  ",
        (f"{delta.op:<7}", _STYLES.get(delta.op, "")),
        (f" {printable(delta.topic)}/{printable(delta.sub_topic)}", "bold"),
        f": {_value(delta.before)} → {_value(delta.after)}",
        (f"  ({printable(delta.reason)})" if delta.reason else "", "italic"),
        (f"  [{printable(evidence)}]", "dim"),
    )


def _value(value: str | None) -> str:
    return "nothing" if value is None else f"“{printable(value)}”"
