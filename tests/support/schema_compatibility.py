"""Whether a JSON Schema still fits what was made for an earlier one.

Two rules hold for every record, because its topic keeps what older programs wrote: no field is removed, and whatever
the earlier schema accepts, the new one accepts. Whoever *reads* a record must in turn understand what newer programs
write: only enumerations may grow there, and what was required stays so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

Schema = dict[str, Any]
Use = Literal["written", "read"]
"""What applications do with a record."""

_UPPER = {"maxLength", "maxItems", "maximum"}
_LOWER = {"minLength", "minItems", "minimum"}
_ANNOTATIONS = {"$schema", "$defs", "title", "description", "default"}
_COMPARED = {"$ref", "anyOf", "enum", "type", "properties", "required", "items", "additionalProperties"}
_ANYTHING = "anything"


def incompatibilities(old: Schema, new: Schema, use: Use) -> list[str]:
    """Return what does not fit, each with the place where it is; nothing, if the new schema is compatible."""
    return list(_Comparison(old, new, use).problems("$", old, new))


class _Comparison:
    def __init__(self, old: Schema, new: Schema, use: Use) -> None:
        self._old_definitions: dict[str, Schema] = old.get("$defs", {})
        self._new_definitions: dict[str, Schema] = new.get("$defs", {})
        self._use = use

    def problems(self, place: str, old: Schema, new: Schema) -> Iterator[str]:
        olds, news = _alternatives(old, self._old_definitions), _alternatives(new, self._new_definitions)
        if _ANYTHING not in news:
            for kind in olds.keys() - news.keys():
                yield f"{place}: {kind} is accepted no more"
        if self._use == "read":
            for kind in news.keys() - olds.keys():
                yield f"{place}: {kind} is new to those who read it"
        for kind in olds.keys() & news.keys():
            yield from self._same_kind(place, olds[kind], news[kind])

    def _same_kind(self, place: str, old: Schema, new: Schema) -> Iterator[str]:
        yield from self._enumeration(place, old, new)
        yield from self._limits(place, old, new)
        yield from self._fields(place, old.get("properties", {}), new.get("properties", {}))
        yield from self._required(place, set(old.get("required", ())), set(new.get("required", ())))
        for keyword in ("items", "additionalProperties"):
            if keyword in old or keyword in new:
                yield from self.problems(f"{place}[*]", old.get(keyword, {}), new.get(keyword, {}))

    def _enumeration(self, place: str, old: Schema, new: Schema) -> Iterator[str]:
        if "enum" not in new:
            if "enum" in old and self._use == "read":
                yield f"{place}: any word may come where there was a choice"
            return
        if "enum" not in old:
            yield f"{place}: only a choice of words is accepted where any was"
            return
        for word in sorted(set(old["enum"]) - set(new["enum"])):
            yield f"{place}: {word!r} is accepted no more"

    def _limits(self, place: str, old: Schema, new: Schema) -> Iterator[str]:
        for keyword in sorted((old.keys() | new.keys()) - _ANNOTATIONS - _COMPARED):
            before, after = old.get(keyword), new.get(keyword)
            if before == after:
                continue
            if keyword in _UPPER | _LOWER:
                if not _wider(keyword, before, after):
                    yield f"{place}: {keyword} is narrower, {before} before and {after} now"
                elif self._use == "read":
                    yield f"{place}: {keyword} is wider than those who read it know, {before} before and {after} now"
            elif after is not None or self._use == "read":
                yield f"{place}: {keyword} was {before!r} and is {after!r}"

    def _fields(self, place: str, old: dict[str, Schema], new: dict[str, Schema]) -> Iterator[str]:
        for name, schema in old.items():
            if name not in new:
                yield f"{place}.{name}: removed"
            else:
                yield from self.problems(f"{place}.{name}", schema, new[name])

    def _required(self, place: str, old: set[str], new: set[str]) -> Iterator[str]:
        for name in sorted(new - old):
            yield f"{place}.{name}: required, and was not"
        if self._use == "read":
            for name in sorted(old - new):
                yield f"{place}.{name}: required no more"


def _alternatives(schema: Schema, definitions: dict[str, Schema]) -> dict[str, Schema]:
    """Return the kinds of values that a schema accepts, each with its own part; annotations are left to the whole."""
    if "$ref" in schema:
        return _alternatives(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    if "anyOf" in schema:
        return {kind: each for part in schema["anyOf"] for kind, each in _alternatives(part, definitions).items()}
    if "enum" in schema:
        return {"string": schema}
    return {schema.get("type", _ANYTHING): schema}


def _wider(keyword: str, before: int | None, after: int | None) -> bool:
    if before is None or after is None:
        return after is None
    return after >= before if keyword in _UPPER else after <= before
