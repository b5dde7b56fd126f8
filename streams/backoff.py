"""`Backoff`: how long to wait before the next try."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential waits with jitter.

    Attributes:
        first: seconds before the second try.
        limit: longest wait in seconds, also for what a service asks for.
    """

    first: float = 0.5
    limit: float = 30.0

    def delay(self, attempt: int, retry_after: float | None = None) -> float:
        """Return the seconds to wait after the failed try number `attempt` (from 1).

        Half of the wait is random, so that many waiting lanes do not come back at the same moment. A service's
        own `retry_after` is honoured as a minimum, up to the limit.
        """
        exponential = min(self.limit, self.first * 2.0 ** min(attempt - 1, 32))
        wait = exponential * (0.5 + random.random() / 2)
        return min(self.limit, max(wait, retry_after or 0.0))
