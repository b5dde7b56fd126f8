"""The numbered changes of the schema, shipped as SQL files beside this module."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_FILE_NAME: Final = re.compile(r"(\d{4})_(\w+)\.sql")
_COMMENT: Final = re.compile(r"^\s*--.*$", re.MULTILINE)

CREATE_LEDGER: Final = """
CREATE TABLE IF NOT EXISTS schema_migrations
(
    version    UInt32,
    name       String,
    applied_at DateTime64(6, 'UTC') DEFAULT now64(6)
)
ENGINE = ReplacingMergeTree
ORDER BY version
"""
"""What has been applied; a repeat by a second worker that starts at the same time counts once under FINAL."""


@dataclass(frozen=True)
class Migration:
    """One change of the schema: statements that may run again without harm."""

    version: int
    name: str
    statements: tuple[str, ...]


@cache
def migrations() -> tuple[Migration, ...]:
    """Return every migration of this release, in order."""
    return tuple(sorted(_read(), key=lambda migration: migration.version))


def _read() -> Iterator[Migration]:
    for file in files("sinks.clickhouse").joinpath("migrations").iterdir():
        named = _FILE_NAME.fullmatch(file.name)
        if named is None:
            continue
        sql = _COMMENT.sub("", file.read_text(encoding="utf-8"))
        # A statement ends with a semicolon at the end of a line.
        statements = (statement.strip() for statement in re.split(r";[ \t]*(?:\n|$)", sql))
        yield Migration(int(named[1]), named[2], tuple(statement for statement in statements if statement))
