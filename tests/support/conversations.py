"""Real conversations, for tests that want more than invented ones; they are not part of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_VARIABLE = "PROFILESTREAM_TEST_CONVERSATIONS"


def conversation_files() -> list[Path]:
    """Return the files, from the folder that a variable names or from one beside the checkout; skips without any."""
    checkout = Path(__file__).parents[2]
    named = os.environ.get(_VARIABLE)
    folders = [Path(named)] if named else sorted(checkout.parent.glob("*/data"))
    files = [file for folder in folders for file in sorted(folder.glob("memorybank_*.jsonl"))]
    if not files:
        pytest.skip(f"there are no memorybank_*.jsonl files; {_VARIABLE} names their folder")
    return files
