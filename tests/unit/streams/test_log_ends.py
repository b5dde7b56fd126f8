"""Where the partitions of the chat topic end is one question: each answer waits for a fetch that finds nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError
from faust.types import TP

from agents.moved import Log
from streams.errors import DependencyDown
from streams.runtime import Runtime


class Consumer:
    """Answers with ten times a partition's number, and keeps the questions."""

    def __init__(self, error: Exception | None = None) -> None:
        self.questions: list[tuple[TP, ...]] = []
        self._error = error

    async def highwaters(self, *places: TP) -> dict[TP, int]:
        self.questions.append(places)
        if self._error is not None:
            raise self._error
        return {place: 10 * place.partition for place in places}


async def ask(consumer: Consumer, partitions: Any) -> list[int]:
    runtime: Any = SimpleNamespace(
        topics=SimpleNamespace(messages="chat"), partitions=4, app=SimpleNamespace(consumer=consumer)
    )
    return await Runtime.log_ends(runtime, partitions)


async def test_all_partitions_are_asked_for_at_once() -> None:
    consumer = Consumer()

    async def ends(partitions: Any) -> list[int]:
        return await ask(consumer, partitions)

    assert await Log("log", 4, ends).ends() == [0, 10, 20, 30]
    assert consumer.questions == [tuple(TP("chat", partition) for partition in range(4))]


async def test_a_partition_that_there_is_not_is_empty_and_asked_for_nowhere() -> None:
    consumer = Consumer()
    assert await ask(consumer, [3, 9]) == [30, 0]
    assert await ask(consumer, [9]) == [0]
    assert consumer.questions == [(TP("chat", 3),)]


async def test_a_broker_that_does_not_say_is_asked_again() -> None:
    with pytest.raises(DependencyDown, match="the end of chat is not known"):
        await ask(Consumer(KafkaConnectionError()), [1])
