"""`insist`: does something until it succeeds, because giving up would lose a record."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from streams.backoff import Backoff
from streams.errors import DependencyDown, RecordFailed
from streams.metrics import RETRIES

logger = logging.getLogger(__name__)


async def insist(name: str, call: Callable[[], Awaitable[None]], backoff: Backoff) -> None:
    """Call until it returns, with growing waits between the tries.

    Args:
        name: who insists, for log lines.
        call: must be safe to repeat.
        backoff: the waits.

    Raises:
        RecordFailed: at once, when that is what the call says: no other try would help.
    """
    tries = 0
    while True:
        tries += 1
        try:
            await call()
        except RecordFailed:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if being_cancelled(error):
                raise
            if not isinstance(error, DependencyDown):
                logger.error("%s: unexpected error", name, exc_info=error)
            RETRIES.labels(name, "service").inc()
            delay = backoff.delay(tries, error.retry_after if isinstance(error, DependencyDown) else None)
            logger.warning("%s: %s; trying again in %.1f s", name, error or type(error).__name__, delay)
            await asyncio.sleep(delay)
        else:
            if tries > 1:
                logger.info("%s: succeeded at try %d", name, tries)
            return


def being_cancelled(error: BaseException) -> bool:
    """Whether an exception says that this very task is to end, and not only something that it waited for."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)
