"""`describe`: the docstring of a record, in its schema, shared out among the properties that it speaks of."""

from __future__ import annotations

import re
from typing import Any, Final

_ATTRIBUTES: Final = re.compile(r"\n\nAttributes:(?P<fields>(?:\n {4}.*)+)")
_FIELD: Final = re.compile(r"^ {4}(?P<name>\w+): (?P<text>.*(?:\n {5,}.*)*)", re.MULTILINE)
_ROLE: Final = re.compile(r"``(.+?)``")
_REFERENCE: Final = re.compile(r" \(`schemas\.[^)]*`\)")


def describe(definition: dict[str, Any]) -> dict[str, Any]:
    """Return a definition with a description of each property that its docstring explains.

    Args:
        definition: of one record, as ``msgspec.json.schema`` makes it.
    """
    text: str = definition.get("description", "")
    found = _ATTRIBUTES.search(text)
    if found is None:
        return definition | ({"description": _plain(text)} if text else {})
    fields = {match["name"]: _plain(match["text"]) for match in _FIELD.finditer(found["fields"])}
    properties = {
        name: ({"description": fields[name]} if name in fields else {}) | schema
        for name, schema in definition["properties"].items()
    }
    return definition | {"description": _plain(_ATTRIBUTES.sub("", text)), "properties": properties}


def _plain(text: str) -> str:
    """Return text without the marks of a docstring, each paragraph on one line."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
    return _ROLE.sub(r"`\1`", _REFERENCE.sub("", "\n\n".join(paragraphs)))
