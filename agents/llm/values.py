"""The kinds of value that a model's answer holds, read leniently: `Text`, `Texts`, `Numbers`, `Reference`, `Share`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final, Self

_REFERENCE_LIMIT: Final = 500

UNKNOWN: Final = 0.5
"""A share that is not given."""

_ENTITY: Final = re.compile(r"&(lt|gt|amp|quot);")
_ENTITIES: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_NUMBER: Final = re.compile(r"[#\s]*(\d{1,9})\s*")
_NUMBER_SEPARATOR: Final = re.compile(r"[,;，、；]")
_SHARE: Final = re.compile(r"\s*(-?\d{1,9}(?:\.\d{0,20})?|-?\.\d{1,20})\s*(%?)\s*")
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
        start = 0
        while match := _BULLET.match(self, start):
            start = match.end()
        return self[start:].strip()


class Texts(tuple[Text, ...]):
    """Texts of a list; `unreadable` holds what was given in place of a text."""

    unreadable: tuple[str, ...] = ()

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Read a list; a single text counts as a list of one, an object with one text in it as that text.

        Raises:
            ValueError: for anything else.
        """
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list):
            raise ValueError(f"expected a list, got {type(value).__name__}")
        found: list[Text] = []
        unreadable: list[str] = []
        for part in value:
            inner = next(iter(part.values())) if isinstance(part, dict) and len(part) == 1 else part
            if isinstance(inner, str | int | float) and not isinstance(inner, bool):
                found.append(Text.parse(inner))
            else:
                unreadable.append(str(part))
        texts = cls(found)
        texts.unreadable = tuple(unreadable)
        return texts


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


class Reference(str):
    """What was given as the number of one shown item; empty for none."""

    __slots__ = ()

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Read a number, or the text in its place; never raises. Of a list it is the first part."""
        if isinstance(value, list):
            return cls.parse(value[0]) if value else cls()
        if value is None:
            return cls()
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        text = str(value).encode("utf-8", "replace").decode().strip().strip("[]()").strip()
        return cls(text[:_REFERENCE_LIMIT])

    @property
    def number(self) -> int | None:
        """The number, or None where the text is not one."""
        match = _NUMBER.fullmatch(self)
        return int(match[1]) if match else None


class Share(float):
    """A number from 0 to 1."""

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Read a number or a text with one, also in per cent; never raises.

        What lies outside becomes 0 or 1, what is no number `UNKNOWN`.
        """
        unknown = cls(UNKNOWN)
        if isinstance(value, str):
            match = _SHARE.fullmatch(value)
            if match is None:
                return unknown
            value = float(match[1]) / (100 if match[2] else 1)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return unknown
        share = cls(min(max(value, 0), 1))
        return unknown if math.isnan(share) else share


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
