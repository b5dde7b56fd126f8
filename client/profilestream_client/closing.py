"""`close_whole`: a Kafka client is closed to the end, and whoever is cancelled meanwhile still is."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def close_whole(closing: Coroutine[Any, Any, None]) -> None:
    """Wait until a client is closed, and raise a cancellation that comes in the meantime only then.

    aiokafka swallows the cancellation of whoever waits for its `close` or `stop`: the task would go on for ever.

    Args:
        closing: what the client's `close()` or `stop()` returned.
    """
    task = asyncio.create_task(closing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
