"""`Spread`: a length or a delay that is always the same, or lognormal as those of chats and of models are."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final, Self

_Z99: Final = 2.3263478740408408
"""How many standard deviations above the mean a normal variable has its 99th percentile."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A positive quantity.

    Attributes:
        median: half of all values are below it.
        p99: 99 of 100 values are below it; None: every value is the median.
    """

    median: float
    p99: float | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``0.8`` (always that), or ``0.8:2.5`` (median and 99th percentile).

        Raises:
            ValueError: when it is neither; the message says what is wanted.
        """
        head, colon, tail = text.partition(":")
        try:
            median, p99 = float(head), float(tail) if colon else None
        except ValueError:
            raise ValueError(f"{text!r} is neither a number nor MEDIAN:P99, as 0.8 or 0.8:2.5") from None
        if not 0 < median < math.inf or (p99 is not None and not median < p99 < math.inf):
            raise ValueError(f"of {text!r} the median must be above 0, and the 99th percentile above the median")
        return cls(median, p99)

    @property
    def mean(self) -> float:
        """Mean of all values."""
        return self.median * math.exp(self._sigma**2 / 2)

    def draw(self, chance: random.Random) -> float:
        """Return a value."""
        return self.median if self.p99 is None else self.median * math.exp(chance.gauss(0.0, self._sigma))

    @property
    def _sigma(self) -> float:
        return 0.0 if self.p99 is None else math.log(self.p99 / self.median) / _Z99

    def __str__(self) -> str:
        return f"{self.median:g}" if self.p99 is None else f"{self.median:g}:{self.p99:g}"
