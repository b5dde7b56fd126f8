"""What the stages that read a batch need of it: parts that a model can be given at once, and its messages' headings."""

from __future__ import annotations

from msgspec.structs import replace

from schemas.flushes import BatchMessage, FlushBatch
from schemas.stages import MessageRef
from streams.tokens import count_tokens, split_text


def batch_parts(batch: FlushBatch, budget: int) -> list[FlushBatch]:
    """Return consecutive parts of a batch, each within the budget; a message that is larger is cut in several."""
    parts: list[list[BatchMessage]] = [[]]
    room = budget
    for message in batch.messages:
        for piece in split_text(message.content, budget):
            tokens = count_tokens(piece)
            if parts[-1] and tokens > room:
                parts.append([])
                room = budget
            parts[-1].append(replace(message, content=piece))
            room -= tokens
    return [replace(batch, messages=tuple(part)) for part in parts]


def references(batch: FlushBatch) -> tuple[MessageRef, ...]:
    """Return the batch's messages without their text."""
    return tuple(
        MessageRef(message_id=message.message_id, role=message.role, occurred_at=message.occurred_at)
        for message in batch.messages
    )
