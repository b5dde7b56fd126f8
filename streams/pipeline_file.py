"""Reads the pipeline configuration, the YAML file that says what a profile may hold.

Whatever is wrong with a file is found before anything starts, and all of it at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from schemas.pipeline import PipelineConfig
from streams.pipeline_reader import read_pipeline
from streams.yaml_tree import TreeLoader

MAX_BYTES: Final = 1_000_000
"""Largest file that is read; the longest sensible one has a few tens of thousands."""


class Problem(NamedTuple):
    """Something wrong with a file.

    Attributes:
        file: the file's path as it was given.
        line: from 1; 0 when the problem is the file itself.
        column: from 1; 0 likewise.
        where: the key, such as ``event_tags[0].name``; empty when the problem is not about one.
        what: what is wrong.
    """

    file: str
    line: int
    column: int
    where: str
    what: str

    def __str__(self) -> str:
        """Return the problem in the form that editors and terminals can jump to."""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return ": ".join(part for part in (place, self.where, self.what) if part)


class PipelineFileError(Exception):
    """The file cannot be used; the message has a line for each problem.

    Attributes:
        problems: all of them, in the order of the file.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


def load_pipeline(path: Path | None) -> PipelineConfig:
    """Return the configuration of a file, or the defaults where there is none or it is empty.

    Names of topics, slots and tags are unified (`schemas.profiles.unify`).

    Raises:
        PipelineFileError: when the file cannot be read, is larger than `MAX_BYTES`, is not YAML in UTF-8, or has
            unknown keys, wrong values or names that are given twice.
    """
    if path is None:
        return PipelineConfig()
    root = _root(_text(path), path)
    if root is None:
        return PipelineConfig()
    config, found = read_pipeline(root)
    if config is None:
        raise PipelineFileError([Problem(str(path), *fault) for fault in found])
    return config


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise _wrong(path, f"is larger than {MAX_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
        raise _wrong(path, "is not UTF-8", *_place(before, len(before))) from error


def _root(text: str, path: Path) -> yaml.Node | None:
    """Return the document's node, or None when there is no document."""
    try:
        loader = TreeLoader(text)
    except yaml.reader.ReaderError as error:
        what = f"the character U+{int(error.character):04X} cannot stand in a YAML file"
        raise _wrong(path, what, *_place(text, error.position)) from error
    try:
        root = loader.get_single_node()
        empty = isinstance(root, yaml.ScalarNode) and root.tag == "tag:yaml.org,2002:null"
        return None if empty else root
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark or loader.get_mark()
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise _wrong(path, f"no valid YAML: {what}", mark.line + 1, mark.column + 1) from error
    except (ValueError, OverflowError) as error:  # an escape such as "\UFFFFFFFF", which is no character
        mark = loader.get_mark()
        raise _wrong(path, f"no valid YAML: {error}", mark.line + 1, mark.column + 1) from error
    finally:
        loader.dispose()


def _wrong(path: Path, what: str, line: int = 0, column: int = 0) -> PipelineFileError:
    return PipelineFileError([Problem(str(path), line, column, "", what)])


def _place(text: str, position: int) -> Iterator[int]:
    """Yield line and column of a position in a text."""
    yield text.count("\n", 0, position) + 1
    yield position - text.rfind("\n", 0, position)
