"""`DeadLetters`: parks records that cannot be processed, untouched, with where and why in their headers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Final

from schemas.dead_letters import HEADER_PREFIX, DeadLetterReason
from schemas.stages import StageName
from streams.errors import RecordFailed
from streams.records import Event, header_items
from streams.sender import Outgoing, Sender

logger = logging.getLogger(__name__)

OMITTED_HEADER: Final = HEADER_PREFIX + "omitted"
"""On a dead letter without its record, because that is too large to be sent: the size of its value in bytes."""

NULL_HEADER: Final = HEADER_PREFIX + "null"
"""On a dead letter with an empty value: what of the record was null."""


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
        reasons = why.headers()
        replaced = {name for name, _ in reasons}
        own = [(name, value) for name, value in header_items(message.headers) if name not in replaced]
        letter = Outgoing(
            topic=self._topic,
            key=message.key,
            value=message.value,
            partition=message.partition,
            headers=[*own, *reasons],
            timestamp=message.timestamp,
        )
        if message.key is None and message.value is None:
            # A Kafka client refuses to send a record that is nothing at all.
            letter = replace(letter, value=b"", headers=[*letter.headers, (NULL_HEADER, b"key and value")])
        try:
            await self._sender.send(letter)
        except RecordFailed:
            # Larger than anything this program may send: the letter says where the record still lies.
            omitted = (OMITTED_HEADER, str(len(message.value or b"")).encode())
            await self._sender.send(replace(letter, key=None, value=b"", headers=[*reasons, omitted]))
        logger.warning(
            "%s: parked %s[%d]@%d in the dead letters: %s",
            stage,
            message.topic,
            message.partition,
            message.offset,
            failure,
        )
