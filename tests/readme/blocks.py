"""The fenced blocks of a Markdown file, and the commands of those that are for a shell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
FILES: Final = (ROOT / "README.md", ROOT / "client" / "README.md")

_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block.

    Attributes:
        file: the file's name from the root of the repository.
        line: number of its first line.
        language: what stands behind the fence.
        text: the block.
    """

    file: str
    line: int
    language: str
    text: str


class Command(NamedTuple):
    """A command of a block for a shell, its comment left out."""

    file: str
    line: int
    text: str


def blocks(*languages: str) -> Iterator[Block]:
    """Yield the blocks in these languages, in the order in which they stand."""
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        for found in _FENCE.finditer(text):
            if found[1] in languages:
                line = text.count("\n", 0, found.start(2)) + 1
                yield Block(path.relative_to(ROOT).as_posix(), line, found[1], found[2])


def commands() -> Iterator[Command]:
    """Yield every command of the blocks for a shell; one that is continued on the next line is one command."""
    for block in blocks("sh"):
        line = block.line
        for text in _lines(block.text):
            command = re.sub(r"\s+#.*", "", text.replace("\n", " ")).strip()
            if command and not command.startswith("#"):
                yield Command(block.file, line, command)
            line += text.count("\n") + 1


def _lines(text: str) -> Iterator[str]:
    whole = ""
    for line in text.splitlines():
        whole += line
        if line.endswith("|"):
            whole += "\n"
        elif line.endswith("\\"):
            whole = whole[:-1] + "\n"
        else:
            yield whole
            whole = ""
