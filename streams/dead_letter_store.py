"""`DeadLetterStore`: reads the dead-letter topic, and writes down what is decided about the letters on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from schemas.codec import InvalidRecord
from schemas.dead_letters import Resolution
from streams.kafka import cluster_id, unavailable
from streams.letters import Content, Letter, Letters, read_content, read_entry
from streams.settings import KafkaSettings
from streams.tail import tail
from streams.topics import Topics


class DeadLetterStore:
    """The dead letters of one message log; their topic is all there is to them.

    Args:
        kafka: where the broker is.
        log_id: name of the message log.
    """

    def __init__(self, kafka: KafkaSettings, log_id: str) -> None:
        self.kafka = kafka
        self.log_id = log_id
        self.topics = Topics.of(kafka)

    @classmethod
    async def open(cls, kafka: KafkaSettings) -> Self:
        """Return the store of the broker that the settings name.

        Raises:
            KafkaUnavailable: when the broker does not answer.
        """
        return cls(kafka, kafka.log_id or await cluster_id(kafka))

    async def read(self) -> Letters:
        """Read the topic to its end.

        Raises:
            KafkaUnavailable: when the broker does not answer.
        """
        letters = Letters(self.log_id)
        async with aclosing(tail(self.kafka, self.topics.dead_letters)) as records:
            async for record in records:
                letters.add(record)
        return letters

    async def contents(self, letters: Iterable[Letter]) -> AsyncGenerator[tuple[Letter, Content], None]:
        """Yield these letters, each once, with the record that is in it, those of a partition in their order.

        Raises:
            KafkaUnavailable: when the broker does not answer.
        """
        wanted = {letter.letter_id: letter for letter in letters}
        if not wanted:
            return
        async with aclosing(tail(self.kafka, self.topics.dead_letters)) as records:
            async for record in records:
                try:
                    entry = read_entry(record, self.log_id)
                except InvalidRecord:
                    continue
                if isinstance(entry, Letter) and (letter := wanted.pop(entry.letter_id, None)):
                    yield letter, read_content(record)
                    if not wanted:
                        return

    async def resolve(self, client: AIOKafkaProducer, resolutions: Iterable[tuple[Letter, Resolution]]) -> None:
        """Write down decisions; returns when the broker has them.

        Raises:
            KafkaUnavailable: when the broker does not take them.
        """
        try:
            partitions = len(await client.partitions_for(self.topics.dead_letters))
            pending = [
                await client.send(
                    self.topics.dead_letters,
                    value=b"",
                    key=letter.key,
                    # The log that a letter was carried from may have had more partitions.
                    partition=letter.why.partition % partitions,
                    headers=resolution.headers(),
                )
                for letter, resolution in resolutions
            ]
            await asyncio.gather(*pending)
        except KafkaError as error:
            raise unavailable(self.kafka, error) from error
