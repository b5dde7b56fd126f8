"""`DeadLetters`: parks records that cannot be processed, untouched, with where and why in their headers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from schemas.dead_letters import HEADER_PREFIX, DeadLetterReason
from schemas.stages import StageName
from streams.errors import RecordFailed
from streams.records import Event, header_items
from streams.sender import Outgoing, Sender

logger = logging.getLogger(__name__)


class DeadLetters:
    """Sends records to the dead-letter topic, into the partition of the same number as their own."""

    def __init__(self, sender: Sender, topic: str, now: Callable[[], datetime]) -> None:
        self._sender = sender
        self._topic = topic
        self._now = now

    async def park(self, event: Event, stage: StageName, failure: RecordFailed, attempts: int = 1) -> None:
        """Park a record; returns when the broker has it.

        Raises:
            DependencyDown: when the broker does not take it; nothing has been acknowledged then.
        """
        message = event.message
        why = DeadLetterReason(
            stage=stage,
            reason=failure.reason,
            detail=failure.detail,
            topic=message.topic,
            partition=message.partition,
            offset=message.offset,
            attempts=attempts,
            failed_at=self._now(),
        )
        own = [(name, value) for name, value in header_items(message.headers) if not name.startswith(HEADER_PREFIX)]
        await self._sender.send(
            Outgoing(
                topic=self._topic,
                key=message.key,
                value=message.value,
                partition=message.partition,
                headers=[*own, *why.headers()],
                timestamp=message.timestamp,
            )
        )
        logger.warning(
            "%s: parked %s[%d]@%d in the dead letters: %s",
            stage,
            message.topic,
            message.partition,
            message.offset,
            failure,
        )
