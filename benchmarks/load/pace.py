"""`Pace`: when each message is due."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast messages are sent; whatever the shape, `rate` is the mean.

    Attributes:
        rate: messages a second; None: as fast as possible.
        burst: seconds with messages and seconds without, in turn.
        ramp: from nothing to twice the rate, evenly.
    """

    rate: float | None = None
    burst: tuple[float, float] | None = None
    ramp: bool = False

    def due(self, number: int, messages: int) -> float:
        """Return after how many seconds a message is due.

        Args:
            number: which one, from 0.
            messages: of the whole run.
        """
        if self.rate is None:
            return 0.0
        if self.ramp:
            return messages / self.rate * math.sqrt(number / messages)
        if self.burst is None:
            return number / self.rate
        period = sum(self.burst)
        cycles, rest = divmod(number / self.rate, period)
        return cycles * period + rest * self.burst[0] / period

    def __str__(self) -> str:
        if self.rate is None:
            return "as fast as possible"
        shape = f", {self.burst[0]:g} s on and {self.burst[1]:g} s off" if self.burst else ""
        return f"{self.rate:,g} a second" + (", rising evenly from nothing to twice that" if self.ramp else shape)
