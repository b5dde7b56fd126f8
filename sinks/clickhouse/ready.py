"""Ready queries: SQL files with a name, a sentence that says what they tell, and parameters.

A file begins with comments: the sentence, then a line for each parameter, ``-- name = default: meaning``. Values travel
as ClickHouse's query parameters, never as text of the statement; the statement says their types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_PARAMETER: Final = re.compile(r"-- (\w+)(?: = (.+?))?: (.+)")


@dataclass(frozen=True)
class Parameter:
    """What a query wants to know.

    Attributes:
        name: of the parameter.
        default: its value where none is given; None: it must be given.
        meaning: for people.
    """

    name: str
    default: str | None
    meaning: str


@dataclass(frozen=True)
class ReadyQuery:
    """One query.

    Attributes:
        name: of the file, without its ending.
        summary: what it tells, one sentence.
        parameters: in the order of the file.
        sql: the statement.
    """

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    sql: str

    def values(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the value of each parameter.

        Raises:
            ValueError: when one is missing or there is none of that name; the message is a sentence that says which.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                raise ValueError(f"query {self.name} has no parameter {name!r}; it has {', '.join(known)}")
        values = {name: given.get(name, parameter.default) for name, parameter in known.items()}
        missing = [name for name, value in values.items() if value is None]
        if missing:
            raise ValueError(f"query {self.name} needs {' and '.join(missing)}: give --param {missing[0]}=...")
        return {name: value for name, value in values.items() if value is not None}


@cache
def ready_queries() -> dict[str, ReadyQuery]:
    """Return every ready query of this release, by its name."""
    folder = files("sinks.clickhouse").joinpath("ready_queries")
    found = (file for file in folder.iterdir() if file.name.endswith(".sql"))
    return {file.name[:-4]: _read(file.name[:-4], file.read_text("utf-8")) for file in sorted(found, key=str)}


def _read(name: str, text: str) -> ReadyQuery:
    lines = text.splitlines()
    comments = [line for line in lines if line.startswith("-- ")]
    parameters = tuple(
        Parameter(found[1], found[2], found[3]) for line in comments[1:] if (found := _PARAMETER.fullmatch(line))
    )
    sql = "\n".join(line for line in lines if not line.startswith("-- "))
    return ReadyQuery(name, comments[0].removeprefix("-- "), parameters, sql.strip())
