"""Keeps aiokafka 0.14 from asking for the cluster's metadata without a pause.

While a partition has no leader, its producer and its consumer ask for new metadata in a loop whose only wait is that
for the answer. A broker that has just gone refuses at once: thousands of tries, and log lines, a second, for as long as
it is away, on the event loop that everything else runs on.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final
from weakref import WeakKeyDictionary

from aiokafka.client import AIOKafkaClient

_ask: Final = AIOKafkaClient._metadata_update
_asked: Final[WeakKeyDictionary[AIOKafkaClient, float]] = WeakKeyDictionary()


async def _ask_patiently(self: AIOKafkaClient, *arguments: Any) -> Any:
    since = time.monotonic() - _asked.get(self, 0.0)
    await asyncio.sleep(max(0.0, self._retry_backoff - since))
    try:
        return await _ask(self, *arguments)
    finally:
        _asked[self] = time.monotonic()


def be_patient() -> None:
    """Let `retry_backoff_ms` pass between two requests for metadata of a client, in all clients of this process."""
    AIOKafkaClient._metadata_update = _ask_patiently
