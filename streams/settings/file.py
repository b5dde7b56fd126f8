"""The settings file: YAML with a section for each group, read with line numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from streams.settings.values import Layer, Value

DEFAULT_FILE: Final = "profilestream.yaml"
"""Read from the working directory when no other file is named."""

FILE_SETTINGS: Final = frozenset({"pipeline_file", "kafka.ssl_cafile"})
"""Settings that name files; a relative one is meant from the folder of the settings file."""


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
    loader = yaml.SafeLoader(text)
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
            value = loader.construct_object(node, deep=True)
            if name in FILE_SETTINGS and isinstance(value, str) and value:
                value = str(path.parent / Path(value).expanduser())
            layer[name] = Value(value, source)
        return layer
    finally:
        loader.dispose()


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
