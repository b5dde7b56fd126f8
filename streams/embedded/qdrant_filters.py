"""Qdrant's filters in JSON, translated to those of the engine; what is not understood is refused."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final
from uuid import UUID

import qdrant_edge as edge

_CLAUSES: Final = ("must", "should", "must_not")
_BOUNDS: Final = frozenset({"gt", "gte", "lt", "lte"})


class FilterRefused(ValueError):
    """A filter that is malformed or not served; the message says which part."""


def to_filter(value: dict[str, Any]) -> edge.Filter:
    """Translate a filter; a clause without conditions does not restrict anything.

    Raises:
        FilterRefused: for every part that is malformed or not served.
    """
    _only(value, _CLAUSES, "a filter")
    must, should, must_not = (_conditions(value.get(clause)) or None for clause in _CLAUSES)
    return edge.Filter(must=must, should=should, must_not=must_not)


def _conditions(part: Any) -> list[Any]:
    if part is None:
        return []
    return [_condition(each) for each in (part if isinstance(part, list) else [part])]


def _condition(value: Any) -> Any:
    fields = _object(value, "a condition")
    if not fields:
        raise FilterRefused("a condition is empty")
    if fields.keys() <= set(_CLAUSES):
        return to_filter(fields)
    if "key" in fields:
        return _field_condition(fields)
    if len(fields) == 1:
        (name, content), *_ = fields.items()
        if name == "is_empty":
            return edge.IsEmptyCondition(key=_key(content))
        if name == "has_id":
            return edge.HasIdCondition({_point_id(each) for each in _list(content, name)})
        if name == "nested":
            _only(_object(content, name), {"key", "filter"}, name)
            inner = to_filter(_object(content.get("filter"), "the filter of nested"))
            return edge.NestedCondition(key=_string(content.get("key"), "key"), filter=inner)
    raise FilterRefused(f"a condition with {_names(fields)} is not served")


def _field_condition(fields: dict[str, Any]) -> Any:
    given = {name: content for name, content in fields.items() if content is not None and name != "key"}
    key = _string(fields["key"], "key")
    if given.keys() == {"match"}:
        return edge.FieldCondition(key=key, match=_match(given["match"]))
    if given.keys() == {"range"}:
        return edge.FieldCondition(key=key, range=_range(given["range"]))
    raise FilterRefused(f"the condition on {key!r} needs match or range, and only one; it has {_names(given)}")


def _match(value: Any) -> Any:
    fields = _object(value, "match")
    if len(fields) == 1:
        (name, content), *_ = fields.items()
        # The engine's binding takes a boolean for the number 0 or 1, which matches no boolean.
        if name == "value" and (isinstance(content, str) or type(content) is int):
            return edge.MatchValue(content)
        if name in {"any", "except"}:
            values = _list(content, name)
            if not (all(isinstance(v, str) for v in values) or all(type(v) is int for v in values)):
                raise FilterRefused(f"{name} needs strings only or integers only")
            return edge.MatchAny(values) if name == "any" else edge.MatchExcept(values)
    raise FilterRefused(f"match with {_names(fields)} is not served: value (text or integer), any or except is")


def _range(value: Any) -> Any:
    fields = {name: bound for name, bound in _object(value, "range").items() if bound is not None}
    _only(fields, _BOUNDS, "range")
    if fields and all(isinstance(bound, str) for bound in fields.values()):
        return edge.RangeDateTime(**fields)
    if all(isinstance(bound, int | float) and not isinstance(bound, bool) for bound in fields.values()):
        return edge.RangeFloat(**fields)
    raise FilterRefused("the bounds of range are numbers only or RFC 3339 dates only")


def _point_id(value: Any) -> Any:
    try:
        if type(value) is int and value >= 0:
            return value
        return UUID(value)
    except (ValueError, AttributeError, TypeError) as error:
        raise FilterRefused(f"{value!r} is not a point id: an unsigned integer or a UUID") from error


def _key(value: Any) -> str:
    fields = _object(value, "is_empty")
    _only(fields, {"key"}, "is_empty")
    return _string(fields.get("key"), "key")


def _only(fields: dict[str, Any], allowed: Collection[str], what: str) -> None:
    unknown = {name: content for name, content in fields.items() if name not in allowed}
    if unknown:
        raise FilterRefused(f"{what} with {_names(unknown)} is not served")


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FilterRefused(f"{what} must be an object")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise FilterRefused(f"{what} must be a list")
    return value


def _string(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise FilterRefused(f"{what} must be a text")
    return value


def _names(fields: dict[str, Any]) -> str:
    return ", ".join(sorted(fields)) or "nothing"
