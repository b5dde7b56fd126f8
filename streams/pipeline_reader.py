"""From YAML nodes to a `PipelineConfig`: checks every value against the type of its key, and keeps its place.

The types are those of `schemas.pipeline`: a key that is added there is read, checked and suggested here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec
import msgspec.inspect as mi
import yaml

from schemas.pipeline import CatalogueTag, EventTagDefinition, PipelineConfig, SubTopic, Topic
from schemas.profiles import unify


def _spaced(name: str) -> str:
    """Return a name as it is to be shown, in one line."""
    return " ".join(name.split())


class _Naming(NamedTuple):
    """How the items of a list are told apart: no two may have names that are one when unified.

    Attributes:
        key: that holds the name.
        form: that the name is kept in.
    """

    key: str
    form: Callable[[str], str]


_NAMES: Final[dict[type, _Naming]] = {
    Topic: _Naming("topic", unify),
    SubTopic: _Naming("name", unify),
    EventTagDefinition: _Naming("name", unify),
    CatalogueTag: _Naming("name", _spaced),
}
"""Items of other kinds have no name: what is given twice holds twice."""

_YAML: Final = "tag:yaml.org,2002:"
_KINDS: Final = {
    f"{_YAML}str": "text",
    f"{_YAML}int": "a number",
    f"{_YAML}float": "a number",
    f"{_YAML}bool": "true or false",
    f"{_YAML}timestamp": "a date",
    f"{_YAML}null": "nothing",
}
_UNFIT: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
"""Characters that belong into no text."""

_WHOLE: Final = re.compile("-?(?:0|[1-9][0-9]{0,14})")
"""Whole numbers that mean the same to everybody: 010 is 8 for YAML, and 1:30 is 90."""

_DECIMAL: Final = re.compile(rf"{_WHOLE.pattern}(?:\.[0-9]{{1,15}})?")


class Fault(NamedTuple):
    """Something wrong with a value: its place, counted from 1, its key, and what it is."""

    line: int
    column: int
    where: str
    what: str


def read_pipeline(root: yaml.Node) -> tuple[PipelineConfig | None, list[Fault]]:
    """Return the configuration that a document holds, or None and everything that is wrong with it in order."""
    reader = _Reader()
    values = reader.struct(root, _struct_type(mi.type_info(PipelineConfig)), "")
    if reader.faults:
        return None, sorted(reader.faults)
    return msgspec.convert(values, PipelineConfig), []


class _Reader:
    """Turns nodes into plain values; what is wrong is added to `faults`, and what is returned then is of no use."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def struct(self, node: yaml.Node, kind: mi.StructType, where: str) -> dict[str, object]:
        fields = {field.encode_name: field for field in kind.fields}
        found: dict[str, object] = {}
        if not isinstance(node, yaml.MappingNode):
            self._wrong(
                node, where, f"must be keys with values, such as `{next(iter(fields))}: ...`, not {_kind(node)}"
            )
            return found
        lines: dict[str, int] = {}
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
            place = f"{where}.{name}".lstrip(".")
            if name not in fields:
                self._wrong(key, place, f"there is no such key{_did_you_mean(name, fields)}")
            elif name in lines:
                self._wrong(key, place, f"is set twice, first in line {lines[name]}")
            else:
                lines[name] = _line(key)
                self._field(found, value, fields[name], place)
        for name, field in fields.items():
            if field.required and name not in lines:
                self._wrong(node, where, f"'{name}' is missing")
        return found

    def _field(self, found: dict[str, object], node: yaml.Node, field: mi.Field, where: str) -> None:
        """Add a key's value; a list, a group of keys or a text that is left empty is as good as not given."""
        if _scalar(node, "null") is None:
            found[field.encode_name] = self._value(node, field.type, where)
        elif field.required:
            self._wrong(node, where, "must not be empty")
        elif _choices(field.type) or not isinstance(
            field.type, mi.VarTupleType | mi.UnionType | mi.StructType | mi.StrType
        ):
            self._wrong(node, where, "has no value: give it one or leave the key out")

    def _value(self, node: yaml.Node, kind: mi.Type, where: str) -> object:
        if choices := _choices(kind):
            return self._choice(node, choices, where)
        match kind:
            case mi.UnionType(types=types):
                return self._value(node, next(one for one in types if not isinstance(one, mi.NoneType)), where)
            case mi.StructType():
                return self.struct(node, kind, where)
            case mi.VarTupleType(item_type=item):
                return self._items(node, item, where)
            case mi.BoolType():
                return self._switch(node, where)
            case mi.IntType(ge=lowest, le=highest):
                return self._number(node, lowest, highest, where)
            case mi.FloatType(ge=lowest, le=highest):
                return self._decimal(node, lowest, highest, where)
            case mi.StrType():
                return self._text(node, where)
        raise TypeError(f"{where}: values of the type {kind} cannot be read")

    def _items(self, node: yaml.Node, kind: mi.Type, where: str) -> list[object]:
        if not isinstance(node, yaml.SequenceNode):
            self._wrong(node, where, f"must be a list, its items beginning with `- `, not {_kind(node)}")
            return []
        items = [self._item(each, kind, f"{where}[{number}]") for number, each in enumerate(node.value)]
        if isinstance(kind, mi.StructType) and (naming := _NAMES.get(kind.cls)):
            self._name(node.value, items, naming, where)
        return items

    def _item(self, node: yaml.Node, kind: mi.Type, where: str) -> object:
        empty = isinstance(kind, mi.StrType) and _scalar(node, "null") is not None
        value = None if empty else self._value(node, kind, where)
        if empty or value == "":
            self._wrong(node, where, "must not be empty")
        return value

    def _name(self, nodes: list[yaml.Node], items: list[object], naming: _Naming, where: str) -> None:
        """Bring the items' names into their form; each may be there once."""
        key = naming.key
        lines: dict[str, int] = {}
        for number, (node, item) in enumerate(zip(nodes, items, strict=True)):
            if not isinstance(item, dict) or not isinstance(item.get(key), str):
                continue
            place = f"{where}[{number}].{key}"
            name = item[key] = naming.form(item[key])
            if not name:
                self._wrong(_value_of(node, key), place, "must not be empty")
            elif unify(name) in lines:
                what = f"'{name}' is defined twice, first in line {lines[unify(name)]}"
                self._wrong(_value_of(node, key), place, what)
            else:
                lines[unify(name)] = _line(_value_of(node, key))

    def _choice(self, node: yaml.Node, choices: list[str], where: str) -> str | None:
        text = _scalar(node, "str")
        if text in choices:
            return text
        given = f"'{node.value}'" if isinstance(node, yaml.ScalarNode) else _kind(node)
        what = f"must be {' or '.join(choices)}" if len(choices) < 3 else f"must be one of {', '.join(choices)}"
        self._wrong(node, where, f"{what}, not {given}{_did_you_mean(text or '', choices)}")
        return None

    def _switch(self, node: yaml.Node, where: str) -> bool | None:
        switch = yaml.SafeLoader.bool_values.get((_scalar(node, "bool") or "").lower())
        if switch is None:
            self._wrong(node, where, f"must be true or false, not {_kind(node)}")
        return switch

    def _number(self, node: yaml.Node, lowest: int | None, highest: int | None, where: str) -> int | None:
        digits = _WHOLE.fullmatch(_scalar(node, "int") or "")
        if digits is None:
            self._wrong(node, where, "must be a whole number, in decimal digits and without quotes")
            return None
        number = int(digits[0])
        self._within(node, number, lowest, highest, where)
        return number

    def _decimal(self, node: yaml.Node, lowest: float | None, highest: float | None, where: str) -> float | None:
        digits = _DECIMAL.fullmatch(_scalar(node, "float") or _scalar(node, "int") or "")
        if digits is None:
            self._wrong(node, where, "must be a number such as 0.75, in decimal digits and without quotes")
            return None
        number = float(digits[0])
        self._within(node, number, lowest, highest, where)
        return number

    def _within(self, node: yaml.Node, number: float, lowest: float | None, highest: float | None, where: str) -> None:
        if lowest is not None and highest is not None and not lowest <= number <= highest:
            self._wrong(node, where, f"must be from {lowest:.15g} to {highest:.15g}, not {number:.15g}")
        elif lowest is not None and number < lowest:
            self._wrong(node, where, f"must be at least {lowest:.15g}, not {number:.15g}")
        elif highest is not None and number > highest:
            self._wrong(node, where, f"must be at most {highest:.15g}, not {number:.15g}")

    def _text(self, node: yaml.Node, where: str) -> str | None:
        text = _scalar(node, "str")
        if text is None:
            hint = ": put it in quotes" if isinstance(node, yaml.ScalarNode) else ""
            self._wrong(node, where, f"must be text, not {_kind(node)}{hint}")
            return None
        unfit = _UNFIT.search(text)
        if unfit is not None:
            self._wrong(node, where, f"the character U+{ord(unfit[0]):04X} cannot stand in a text")
        return text.strip()

    def _wrong(self, node: yaml.Node, where: str, what: str) -> None:
        self.faults.append(Fault(_line(node), node.start_mark.column + 1, where, what))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _scalar(node: yaml.Node, tag: str) -> str | None:
    """Return what a scalar of that kind was written as, or None when the node is no such scalar."""
    return str(node.value) if isinstance(node, yaml.ScalarNode) and node.tag == f"{_YAML}{tag}" else None


def _value_of(mapping: yaml.Node, name: str) -> yaml.Node:
    found: yaml.Node = next(value for key, value in mapping.value if key.value == name)
    return found


def _choices(kind: mi.Type) -> list[str]:
    """Return the words that a value of that kind may be; none when it may be another thing than a word."""
    kinds = kind.types if isinstance(kind, mi.UnionType) else (kind,)
    literals = [one for one in kinds if isinstance(one, mi.LiteralType)]
    return [str(value) for one in literals for value in one.values] if len(literals) == len(kinds) else []


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.CollectionNode):
        return "a list" if isinstance(node, yaml.SequenceNode) else "keys with values"
    return _KINDS.get(node.tag, f"a value of the kind {node.tag.removeprefix(_YAML)}")


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return f", did you mean '{close[0]}'?" if close else ""


def _struct_type(kind: mi.Type) -> mi.StructType:
    assert isinstance(kind, mi.StructType)  # noqa: S101 - a configuration is a struct, and its lists hold structs
    return kind
