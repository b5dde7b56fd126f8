"""`Asked`: how two statements relate, put to the processor, with a record of what that cost."""

from __future__ import annotations

from typing import Literal

from agents.fact_processor import FactProcessor, Relation
from schemas.stages import Dropped, ModelCall


class Asked:
    """Questions of one flush.

    Attributes:
        calls: the model calls that were made.
        dropped: what could not be used of the answers.
    """

    def __init__(self, processor: FactProcessor) -> None:
        self.calls: list[ModelCall] = []
        self.dropped: list[Dropped] = []
        self._processor = processor

    async def relation(self, kind: Literal["fact", "preference"], known: str, new: str) -> Relation | None:
        """Return how a new statement relates to a known one, or None when the answer cannot be read.

        Raises:
            StageFailed: when the processor cannot compare them.
            StageUnavailable: when it cannot now.
        """
        related = await self._processor.relate(kind, known, new)
        self.calls += related.calls
        self.dropped += related.dropped
        return related.relation
