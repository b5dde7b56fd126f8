"""What a source of settings gives: values by name, each with the place where it stands."""

from __future__ import annotations

from typing import NamedTuple


class Value(NamedTuple):
    """A value as a source gives it, not yet validated, and where it was found."""

    value: object
    source: str


Layer = dict[str, Value]
"""The values of one source by their full names (``kafka.group_id``)."""
