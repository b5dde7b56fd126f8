"""`DeadLetters`: parks records that cannot be processed, untouched, with where and why in their headers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from schemas.dead_letters import NULL_HEADER, OMITTED_HEADER, TIMESTAMP_HEADER, DeadLetterReason, put_aside
from schemas.stages import StageName
from streams.errors import RecordFailed
from streams.failpoints import fail_point
from streams.letters import first_timestamp
from streams.metrics import DEAD_LETTERS
from streams.records import Event, Message, header_items
from streams.sender import TIMESTAMP_REFUSED, Outgoing, Sends

logger = logging.getLogger(__name__)


class DeadLetters:
    """Sends records to the dead-letter topic, into the partition of the same number as their own."""

    def __init__(self, sender: Sends, topic: str, now: Callable[[], datetime]) -> None:
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
        first = (TIMESTAMP_HEADER, str(max(0, round(written_at(message) * 1000))).encode())
        reasons.append(first)
        own = [(put_aside(name), value) for name, value in header_items(message.headers) if (name, value) != first]
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
            await self._send(letter)
        except RecordFailed:
            # Larger than anything this program may send: the letter says where the record still lies.
            omitted = (OMITTED_HEADER, str(len(message.value or b"")).encode())
            await self._send(replace(letter, key=None, value=b"", headers=[*reasons, omitted]))
        DEAD_LETTERS.labels(stage, failure.reason).inc()
        fail_point("park.after_send")
        logger.warning(
            "%s: parked %s[%d]@%d in the dead letters: %s",
            stage,
            message.topic,
            message.partition,
            message.offset,
            failure,
        )

    async def _send(self, letter: Outgoing) -> None:
        """Send a letter; where the topic refuses the record's timestamp, with the present one."""
        try:
            await self._sender.send(letter)
        except RecordFailed as error:
            if error.reason != TIMESTAMP_REFUSED or letter.timestamp is None:
                raise
            await self._sender.send(replace(letter, timestamp=None))


def written_at(message: Message) -> float:
    """Return when a record was written first, in seconds since the epoch: before it was sent again, if it was."""
    first = first_timestamp(header_items(message.headers)) if message.headers else None
    return message.timestamp if first is None else first / 1000
