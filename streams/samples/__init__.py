"""Sample conversations, written for this project: three people in Chinese, three in English.

Each file holds chat messages (`schemas.messages.ChatMessage`), one JSON object a line, in time order.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

_SUFFIX: Final = ".jsonl"


def sample_names() -> tuple[str, ...]:
    """Return the names of the conversations, in alphabetical order."""
    entries = (entry.name for entry in files(__name__).iterdir() if entry.name.endswith(_SUFFIX))
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in entries))


def sample_path(name: str) -> Path:
    """Return the file of a conversation.

    Raises:
        KeyError: when there is none of that name.
    """
    if name not in sample_names():
        raise KeyError(f"no sample called {name!r}: there are {', '.join(sample_names())}")
    return Path(str(files(__name__) / f"{name}{_SUFFIX}"))
