"""A task that is cancelled while it closes a Kafka client closes it and ends, for aiokafka would let it go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from streams.kafka import admin, consumer, producer
from streams.settings import KafkaSettings


@pytest.mark.parametrize("opened", [admin, consumer, producer])
async def test_a_task_that_is_cancelled_while_it_closes_a_client_ends(
    opened: Callable[[KafkaSettings], AbstractAsyncContextManager[Any]], kafka: KafkaSettings
) -> None:
    closing = asyncio.Event()

    async def follow() -> None:
        async with opened(kafka):
            closing.set()
        await asyncio.Event().wait()  # for ever

    task = asyncio.create_task(follow())
    await closing.wait()
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=5)
    assert done == {task}
    assert task.cancelled()
