"""The client is a distribution of its own: it needs aiokafka and msgspec, and nothing of the pipeline's."""

from __future__ import annotations

import ast
import re
import sys
import tomllib

import profilestream_client

from tests.client.conftest import CLIENT

PACKAGE = CLIENT / "profilestream_client"
PROJECT = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]


def test_it_imports_only_what_it_says_it_needs() -> None:
    imported = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0
                imported.add(node.module or "")
    needed = {re.split(r"[<>=]", requirement)[0] for requirement in PROJECT["dependencies"]}
    top = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names - {"profilestream_client"}
    assert top == needed == {"aiokafka", "msgspec"}


def test_it_is_typed_and_licensed() -> None:
    assert (PACKAGE / "py.typed").is_file()
    assert (CLIENT / "LICENSE").read_text() == (CLIENT.parent / "LICENSE").read_text()


def test_it_is_tested_as_it_lies_in_the_repository() -> None:
    assert profilestream_client.__file__ == str(PACKAGE / "__init__.py")


def test_it_has_the_version_of_the_pipeline() -> None:
    pipeline = tomllib.loads((CLIENT.parent / "pyproject.toml").read_text())["project"]
    assert PROJECT["version"] == pipeline["version"]
    assert PROJECT["requires-python"] == pipeline["requires-python"]
