"""`Position`: a place on the topic of deltas that a subscription can go on from."""

from __future__ import annotations

from typing import Self

import msgspec


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """A place on the topic of deltas: everything before it has been given out, nothing after it.

    Attributes:
        log_id: id of the Kafka cluster.
        topic: full name of the topic.
        offsets: the next offset in each partition.
    """

    log_id: str
    topic: str
    offsets: dict[int, int]

    def dump(self) -> str:
        """Return it as text, to be stored; `load` reads it back."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def load(cls, text: str) -> Self:
        """Read a position back.

        Raises:
            ValueError: for text that `dump` did not make.
        """
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise ValueError(f"not a position: {error}") from error
