"""`docs/configuration.md` says what the code does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import yaml

from schemas.pipeline import CatalogueTag, EventTagDefinition, PipelineConfig, SignalWords, SubTopic, Topic
from streams.pipeline_file import load_pipeline

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "configuration.md"


def keys(kind: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield every key with its default; those of a group with the group's name before them."""
    for field in msgspec.structs.fields(kind):
        if isinstance(field.default, msgspec.Struct):
            yield from keys(type(field.default), f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, field.default


def default_in_words(default: object) -> str:
    if default is msgspec.NODEFAULT:
        return "required"
    if default is None:
        return "not given"
    return "none" if default in ("", ()) else f"`{str(default).lower()}`"


ITEMS = (Topic, SubTopic, EventTagDefinition, SignalWords, CatalogueTag)


def test_the_documentation_has_every_key_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.+?) \|", DOCUMENTATION.read_text(encoding="utf-8"), re.MULTILINE))
    defaults = [pair for kind in (PipelineConfig, *ITEMS) for pair in keys(kind)]
    assert rows == {name: default_in_words(default) for name, default in defaults}
    assert all(default_in_words(default) == rows[name] for name, default in defaults)


def names_used(value: object, prefix: str = "") -> Iterator[str]:
    """Yield the keys that are given; those of a group with the group's name before them, those of items bare."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield prefix + name
            yield from names_used(inner, f"{prefix}{name}.")
    elif isinstance(value, list):
        for item in value:
            yield from names_used(item)


def test_the_documentation_s_examples_are_right_and_have_every_key(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    blocks = re.findall(r"```yaml\n(.*?)```", DOCUMENTATION.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 7
    for block in blocks:
        file.write_text(block, encoding="utf-8")
        load_pipeline(file)
    used = {name for block in blocks for name in names_used(yaml.safe_load(block))}
    assert used >= {name for kind in (PipelineConfig, *ITEMS) for name, _ in keys(kind)}
