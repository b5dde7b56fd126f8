"""`computed`: short texts are read on the event loop, longer ones in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_CHARACTERS: Final = 8_000
"""What is read at once on the event loop: some tens of milliseconds at the most."""


def is_short(texts: Sequence[str]) -> bool:
    """Whether texts are read sooner than the event loop must go on; going to a thread and back takes longer then."""
    return sum(map(len, texts)) <= _CHARACTERS


async def computed(in_place: bool, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function here, or else in a thread."""
    if in_place:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)
