"""`Redriver`: sends the records of dead letters again, then writes down that it did.

Ended in between, it is safe to run again. A flush carries the same number of its repetition then, so it is applied
once. A chat message carries no number: where it goes to is written down before it is sent, and a second run looks there
whether it has arrived.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import InvalidTimestampError, KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

from schemas.codec import InvalidRecord
from schemas.dead_letters import REDRIVE_HEADER, Decision, Resolution
from schemas.deltas import FlushEvent
from schemas.flushes import FlushRef
from schemas.messages import ChatMessage, decode_message
from schemas.places import Place
from streams.dead_letter_store import DeadLetterStore
from streams.forgotten_letters import Forgotten, came_before, headings
from streams.kafka import unavailable
from streams.letters import Content, Letter, User
from streams.partitioning import partition_for
from streams.redrive import Again, CannotRedrive, record_again
from streams.spans import span

_CHUNK: Final = 100
"""Letters that are sent, and then noted as sent, at a time; well below `schemas.profiles.MAX_REDRIVEN`."""


_TOO_LARGE: Final = "the record is larger than the broker takes (max.message.bytes of its topic)"

_TOO_FAR_AHEAD: Final = "the broker does not take the record's timestamp (message.timestamp.after.max.ms of its topic)"


async def _nobody(_users: Iterable[User]) -> Sequence[FlushEvent]:
    return ()


class SentMessage(NamedTuple):
    """A chat message that was sent again.

    Attributes:
        place: where it lies now.
        message: what it says, None where this release cannot read it.
    """

    place: Place
    message: ChatMessage | None


class Redriven(NamedTuple):
    """What became of a letter.

    Attributes:
        letter: the letter.
        refused: why it was not sent again, None when it was.
        ends: id of the event that will end its flush, None where it has none of its own.
        message: the chat message that it was, if it was one.
    """

    letter: Letter
    refused: str | None = None
    ends: str | None = None
    message: SentMessage | None = None


class _Plan(NamedTuple):
    letter: Letter
    again: Again


class Redriver:
    """Sends records again.

    Args:
        store: the dead letters.
        client: a started producer.
        now: the wall clock.
        forgotten: says which users have been forgotten, as far as that is known.
    """

    def __init__(
        self,
        store: DeadLetterStore,
        client: AIOKafkaProducer,
        now: Callable[[], datetime],
        forgotten: Forgotten = _nobody,
    ) -> None:
        self._store = store
        self._client = client
        self._now = now
        self._forgotten = forgotten

    async def redrive(self, letters: Iterable[Letter]) -> AsyncGenerator[Redriven, None]:
        """Send the records of these letters again, and yield what became of each.

        Raises:
            KafkaUnavailable: when the broker does not answer; what was yielded is done, the rest may be tried again.
        """
        waiting: dict[str, Letter] = {}
        for letter in letters:
            if letter.state == "open":
                waiting[letter.letter_id] = letter
            else:
                yield Redriven(letter, f"it was {letter.state} before")
        chunk: list[_Plan] = []
        ends = await headings(self._forgotten, waiting.values())
        async with aclosing(self._store.contents(list(waiting.values()))) as contents:
            async for letter, content in contents:
                del waiting[letter.letter_id]
                try:
                    chunk.append(await self._plan(letter, content, ends.get(letter.user) if letter.user else None))
                except CannotRedrive as reason:
                    yield Redriven(letter, str(reason))
                if len(chunk) == _CHUNK:
                    for done in await self._send(chunk):
                        yield done
                    chunk = []
        for done in await self._send(chunk):
            yield done
        for letter in waiting.values():
            yield Redriven(letter, "it has been removed meanwhile")

    async def _plan(self, letter: Letter, content: Content, forgotten: FlushRef | None) -> _Plan:
        log_id, messages = self._store.log_id, self._store.topics.messages
        if forgotten is not None and came_before(letter, content, forgotten, log_id, messages):
            raise CannotRedrive("its user has been forgotten since")
        again = record_again(letter, content, self._store.topics)
        if letter.why.log_id is not None:
            # The log that it was carried from may have had another number of partitions.
            partitions = len(await self._client.partitions_for(again.topic))
            again = replace(again, partition=partition_for(again.key or b"", partitions))
        return _Plan(letter, again)

    async def _send(self, chunk: Sequence[_Plan]) -> list[Redriven]:
        places = await self._announce([plan for plan in chunk if plan.again.ends is None])
        refusals = await self._deliver([plan for plan in chunk if plan.letter.letter_id not in places], places)
        await self._note("redriven", [(plan.letter, None) for plan in chunk if plan.letter.letter_id not in refusals])
        return [
            Redriven(letter, refusals.get(letter.letter_id), again.ends, _message(again, places.get(letter.letter_id)))
            for letter, again in chunk
        ]

    async def _announce(self, messages: Iterable[_Plan]) -> dict[str, Place]:
        """Note where chat messages are about to be sent to; returns the places of those that are there already."""
        places: dict[TopicPartition, list[Letter]] = {}
        for letter, again in messages:
            places.setdefault(TopicPartition(again.topic, again.partition), []).append(letter)
        arrived: dict[str, Place] = {}
        for place, letters in places.items():
            begun = {letter.letter_id: letter.sent_from for letter in letters if letter.sent_from is not None}
            async with span(self._store.kafka, place) as sent:
                if begun:
                    async for record in sent.records(min(begun.values())):
                        if (named := _letter_named(record.headers)) in begun:
                            arrived.setdefault(named, Place(record.topic, record.partition, record.offset))
                await self._note(
                    "redriving", [(letter, sent.end) for letter in letters if letter.letter_id not in begun]
                )
        return arrived

    async def _deliver(self, plans: Iterable[_Plan], places: dict[str, Place]) -> dict[str, str]:
        """Send records, each on its own; returns why the broker does not take some, by their letters.

        Where the others lie is entered in `places`. One that the broker refuses would take those of its batch with it.
        """
        refusals: dict[str, str] = {}
        try:
            for letter, again in plans:
                try:
                    sent = await self._client.send_and_wait(
                        again.topic,
                        value=again.value,
                        key=again.key,
                        partition=again.partition,
                        timestamp_ms=again.timestamp,
                        headers=again.headers,
                    )
                    places[letter.letter_id] = Place(sent.topic, sent.partition, sent.offset)
                except (MessageSizeTooLargeError, RecordListTooLargeError):
                    refusals[letter.letter_id] = _TOO_LARGE
                except InvalidTimestampError:
                    refusals[letter.letter_id] = _TOO_FAR_AHEAD
        except KafkaError as error:
            raise unavailable(self._store.kafka, error) from error
        return refusals

    async def _note(self, decision: Decision, letters: Iterable[tuple[Letter, int | None]]) -> None:
        now = self._now()
        await self._store.resolve(
            self._client,
            [
                (
                    letter,
                    Resolution(
                        letter_id=letter.letter_id,
                        decision=decision,
                        reason="sent again",
                        resolved_at=now,
                        sent_from=sent_from,
                    ),
                )
                for letter, sent_from in letters
            ],
        )


def _letter_named(headers: Iterable[tuple[str, bytes]]) -> str:
    return (dict(headers).get(REDRIVE_HEADER) or b"").decode(errors="replace")


def _message(again: Again, place: Place | None) -> SentMessage | None:
    if again.ends is not None or place is None:
        return None
    try:
        return SentMessage(place, decode_message(again.value))
    except InvalidRecord:
        return SentMessage(place, None)
