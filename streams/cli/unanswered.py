"""Waiting for a worker at the terminal: whoever waits is told why nothing may be coming."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from streams.cli.common import complain

if TYPE_CHECKING:
    from streams.settings import KafkaSettings

T = TypeVar("T")

_SOON: Final = 5.0
"""Seconds in which a worker that runs has usually answered."""


async def tell_while_waiting(kafka: KafkaSettings, work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Await what a worker does; say at once when none is running, and after some seconds that one may have died.

    Args:
        kafka: where the broker is.
        work: what is awaited; it limits its time itself.
        seconds: to how much.
    """
    from streams.waiting import worker_count

    task = asyncio.ensure_future(work)
    try:
        if await worker_count(kafka) == 0:
            complain(
                "no worker is running: what was asked for is done once one does (`profilestream worker` or `up`); "
                f"waiting up to {seconds:g} s for it"
            )
        elif not (await asyncio.wait({task}, timeout=_SOON))[0]:
            complain(
                "no answer yet: the users of a worker that was killed stand still until the others take them over, "
                f"{kafka.session_timeout:g} s later (kafka.session_timeout); waiting up to {seconds:g} s"
            )
        return await task
    finally:
        task.cancel()
