"""`Nearest`: which of a user's known statements are near to a new one in meaning."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from operator import mul
from typing import Final, NamedTuple

from agents.wording import spelling_similarity
from schemas.facts import without_subject
from streams.errors import DependencyDown

logger = logging.getLogger(__name__)

Embed = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[float]]]]
"""Embeds statements: vectors of length 1, in the order of the texts. Raises `DependencyDown` when it cannot."""

_LIMIT: Final = 10.0
"""Seconds that an embedder may take; two hundred statements that it does not know yet take the shipped one five."""

_PAUSE: Final = 30.0
"""Seconds for which an embedder that failed is not asked again: a flush does not wait for it."""


SAME_MATTER: Final = 0.75
"""Where the scale of similarities has "about the same matter", whatever the embedder's own numbers are."""


class Near(NamedTuple):
    """A known statement: its place in the sequence that was given, and its similarity on the common scale."""

    place: int
    similarity: float


class Nearest:
    """Compares a statement with those that are in the profile now, whether the vector store has them yet or not.

    While the embedder does not answer, statements are compared by their spelling: a flush does not fail for want of
    vectors, and what is said again in other words may be kept twice.

    Cosine similarities mean different things with different embedders. So they are put on one scale, on which 0 is
    unrelated, `SAME_MATTER` about the same matter, and 1 the same; the embedder says which cosine the second one is.
    Statements are compared without "User ...", which they all begin with.

    Args:
        embed: embeds statements; what was embedded before should cost it nothing.
        same_matter: the embedder's cosine of two statements about the same matter.

    Attributes:
        by_spelling: how often statements were compared by spelling.
    """

    def __init__(
        self, embed: Embed, same_matter: float = SAME_MATTER, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.by_spelling = 0
        self._embed = embed
        self._same_matter = same_matter
        self._monotonic = monotonic
        self._quiet_until = 0.0

    async def find(self, text: str, known: Sequence[str], *, limit: int, floor: float) -> list[Near]:
        """Return at most `limit` known statements of at least that similarity, the nearest first."""
        if not known:
            return []
        vectors = await self._vectors([without_subject(each) for each in (text, *known)])
        if vectors is None:
            self.by_spelling += 1
            similarities = [spelling_similarity(text, each) for each in known]
        else:
            similarities = [self._scaled(sum(map(mul, vectors[0], vector))) for vector in vectors[1:]]
        near = [Near(place, similarity) for place, similarity in enumerate(similarities) if similarity >= floor]
        return sorted(near, key=lambda each: -each.similarity)[:limit]

    def _scaled(self, cosine: float) -> float:
        if cosine < self._same_matter:
            return cosine / self._same_matter * SAME_MATTER
        return SAME_MATTER + (cosine - self._same_matter) / (1.0 - self._same_matter) * (1.0 - SAME_MATTER)

    async def _vectors(self, texts: Sequence[str]) -> Sequence[Sequence[float]] | None:
        if self._monotonic() < self._quiet_until:
            return None
        try:
            async with asyncio.timeout(_LIMIT):
                return await self._embed(texts)
        except (DependencyDown, TimeoutError) as error:
            reason = str(error) or f"no answer within {_LIMIT:.0f} s"
            logger.warning("facts are compared by spelling for %.0f s: %s", _PAUSE, reason)
            self._quiet_until = self._monotonic() + _PAUSE
            return None
