"""`Place`: where a record lies on its topic."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """A record's topic, partition and offset."""

    topic: str
    partition: int
    offset: int
