"""The two kinds of value that a model's answer holds, read leniently: `Text` and `Numbers`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Self

_ENTITY: Final = re.compile(r"&(lt|gt|amp|quot);")
_ENTITIES: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_NUMBER: Final = re.compile(r"[#\s]*(\d{1,9})\s*")
_NUMBER_SEPARATOR: Final = re.compile(r"[,;，、；]")
_BULLET: Final = re.compile(r"\s*(?:(?:[-*+–—]|\d{1,3}[.)])\s+|[•·‣▪●◦]\s*|\d{1,3}、\s*)")


class Text(str):
    """Text from an answer, as it is kept: outer white space off, prompt escapes undone, control characters out."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Read a text; numbers are taken as written, a list as its parts, and null as the empty text.

        Raises:
            ValueError: for anything else.
        """
        if value is None:
            return cls()
        if isinstance(value, list):
            return cls("; ".join(filter(None, (cls.parse(part) for part in value))))
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"expected a text, got {type(value).__name__}")
        text = str(value).encode("utf-8", "replace").decode()
        text = _ENTITY.sub(lambda match: _ENTITIES[match[1]], _CONTROL.sub("", text))
        return cls(text.strip())

    def without_bullet(self) -> str:
        """Return the text without the list signs before it: ``*``, ``-``, ``•``, ``1.``."""
        text = str(self)
        while match := _BULLET.match(text):
            text = text[match.end() :]
        return text.strip()


class Numbers(tuple[int, ...]):
    """Numbers that an answer cites; `unreadable` holds, as text, what was given in place of a number."""

    unreadable: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Read numbers from a list, a single number, or text such as ``"1, 3"``; never raises."""
        found: list[int] = []
        unreadable: list[str] = []
        for part in _parts(value):
            match = _NUMBER.fullmatch(part)
            if match:
                found.append(int(match[1]))
            else:
                unreadable.append(part)
        numbers = cls(dict.fromkeys(found))
        numbers.unreadable = tuple(unreadable)
        return numbers


def _parts(value: Any) -> Iterator[str]:
    if value is None:
        return
    if isinstance(value, list):
        for part in value:
            yield from _parts(part)
    elif isinstance(value, str):
        for part in _NUMBER_SEPARATOR.split(value.strip().strip("[]()")):
            if part.strip():
                yield part.strip()
    elif isinstance(value, float) and value.is_integer():
        yield str(int(value))
    else:
        yield str(value)
