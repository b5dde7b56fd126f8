"""The settings file: YAML with a section for each group, read with line numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from streams.settings.values import Layer, Value
from streams.yaml_tree import TreeLoader

DEFAULT_FILE: Final = "profilestream.yaml"
"""Read from the working directory when no other file is named."""

FILE_SETTINGS: Final = frozenset({"pipeline_file", "kafka.ssl_cafile"})
"""Settings that name files; a relative one is meant from the folder of the settings file."""


_MOST_BITS: Final = 64
"""Of a number: in hexadecimal digits YAML takes numbers that Python does not write out."""


def read_settings_file(path: Path, problems: list[str]) -> Layer:
    """Return the values of a settings file; what is wrong with it is added to `problems`, a line each."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        problems.append(f"the settings file {path} is not UTF-8")
        return {}
    except OSError as error:
        problems.append(f"the settings file {path} cannot be read: {error.strerror}")
        return {}
    try:
        return _read(text, path, problems)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        problems.append(f"{path} line {line}: no valid YAML: {error.problem}")
    except (yaml.YAMLError, ValueError) as error:
        problems.append(f"{path}: no valid YAML: {str(error).splitlines()[0]}")
    return {}


def _read(text: str, path: Path, problems: list[str]) -> Layer:
    loader = TreeLoader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return {}
        if not isinstance(root, yaml.MappingNode):
            problems.append(f"{path}: must hold settings, such as `kafka:` with `partitions: 4` below it")
            return {}
        layer: Layer = {}
        for name, node in _entries(root):
            source = f"{path} line {node.start_mark.line + 1}"
            if name in layer:
                problems.append(f"{source}: {name} is set twice, first in line {layer[name].source.split()[-1]}")
            value = _constructed(loader, node)
            if name in FILE_SETTINGS and isinstance(value, str) and value:
                value = _located(value, path.parent)
            layer[name] = Value(value, source)
        return layer
    finally:
        loader.dispose()


def _located(name: str, folder: Path) -> str:
    try:
        return str(folder / Path(name).expanduser())
    except RuntimeError:  # the home of a user that there is not
        return name


def _constructed(loader: TreeLoader, node: yaml.Node) -> object:
    try:
        value: object = loader.construct_object(node, deep=True)
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        # What the library makes of tags that do not fit, such as "!!int ''" and "!!timestamp soon".
        problem = f"this is no value of the kind {node.tag.rpartition(':')[2]}"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from error
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise yaml.MarkedYAMLError(problem="the number is far too large", problem_mark=node.start_mark)
    return value


def _entries(root: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node]]:
    """Yield the full name and node of every setting; a section may be empty."""
    for key, node in root.value:
        if isinstance(node, yaml.MappingNode):
            for inner_key, inner_node in node.value:
                yield f"{key.value}.{inner_key.value}", inner_node
        elif not _is_empty(node):
            yield str(key.value), node


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"
