"""Headers that say where a dead letter came from and why; its key, value and own headers stay untouched."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from schemas.stages import StageName

HEADER_PREFIX: Final = "profilestream-"
_DETAIL_LIMIT: Final = 1_000


class DeadLetterReason(msgspec.Struct, frozen=True, kw_only=True):
    """Where a record failed and why.

    Attributes:
        stage: the stage that could not process it.
        reason: a short code, for counting (``invalid_record``, ``model_unavailable``, ...).
        detail: one sentence for people.
        topic: the topic that the record was read from.
        partition: its partition.
        offset: its offset.
        attempts: how often it was tried.
        failed_at: when it was given up, by the worker's clock.
    """

    stage: StageName
    reason: str
    detail: str
    topic: str
    partition: int
    offset: int
    attempts: int
    failed_at: datetime

    def headers(self) -> list[tuple[str, bytes]]:
        """Return the Kafka headers that carry this reason."""
        values: dict[str, str] = {
            "stage": self.stage,
            "reason": self.reason,
            "detail": self.detail[:_DETAIL_LIMIT],
            "topic": self.topic,
            "partition": str(self.partition),
            "offset": str(self.offset),
            "attempts": str(self.attempts),
            "failed-at": self.failed_at.astimezone(UTC).isoformat(),
        }
        return [(HEADER_PREFIX + name, value.encode()) for name, value in values.items()]

    @classmethod
    def from_headers(cls, headers: Iterable[tuple[str, bytes]]) -> DeadLetterReason:
        """Read the reason back.

        Raises:
            KeyError: when one of the headers is missing.
            ValueError: when one of them is malformed.
        """
        found = {
            name.removeprefix(HEADER_PREFIX).replace("-", "_"): (value or b"").decode()
            for name, value in headers
            if name.startswith(HEADER_PREFIX)
        }
        return cls(
            stage=found["stage"],  # type: ignore[arg-type]
            reason=found["reason"],
            detail=found["detail"],
            topic=found["topic"],
            partition=int(found["partition"]),
            offset=int(found["offset"]),
            attempts=int(found["attempts"]),
            failed_at=datetime.fromisoformat(found["failed_at"]),
        )
