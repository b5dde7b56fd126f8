"""The client is a distribution of its own: it needs aiokafka and msgspec, and nothing of the pipeline's."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib

import profilestream_client
import pytest

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


def test_every_name_it_gives_is_that_of_the_module_that_its_types_say() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    typed = {
        alias.name: node.module or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("profilestream_client.")
        for alias in node.names
    }
    assert sorted(typed) == sorted(profilestream_client.__all__)
    for name, module in typed.items():
        assert getattr(profilestream_client, name) is getattr(importlib.import_module(module), name)
    assert set(typed) <= set(dir(profilestream_client))


def test_a_name_that_it_does_not_have_is_missing_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Clinet'"):
        profilestream_client.Clinet  # noqa: B018


def test_a_module_of_it_loads_no_others() -> None:
    script = "import sys, profilestream_client.closing; print(*sorted(m for m in sys.modules if 'profilestream' in m))"
    result = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env={"PYTHONPATH": str(CLIENT)}, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert result.stdout.split() == ["profilestream_client", "profilestream_client.closing"]


def test_modules_of_its_names_are_there_without_an_import_of_their_own() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "import profilestream_client as client; print(client.packing.pack is client.pack)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "True\n"
