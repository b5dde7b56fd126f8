"""What each command imports, also where it does so only once it is at work: no more than it has a use for."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from streams.cli.root import cli

IMPORTS_OF = """
import ast, importlib, inspect, sys, textwrap

HEAVY = ("agents.llm", "agents.rules", "aiokafka", "clickhouse_connect", "faust", "grpc", "numpy", "openai",
         "pandas", "qdrant_client")

seen = set()

def follow(node):
    '''Import what this code imports wherever it is run, and what the functions do that it imports.'''
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return
    if isinstance(node, ast.Import):
        for alias in node.names:
            importlib.import_module(alias.name)
    if isinstance(node, ast.ImportFrom) and node.module != "__future__":
        module = importlib.import_module(node.module)
        for alias in node.names:
            follow_function(getattr(module, alias.name, None))
    for child in ast.iter_child_nodes(node):
        follow(child)

def follow_function(found):
    function = inspect.unwrap(found) if inspect.isfunction(found) else None
    if function is not None and function.__module__.startswith("streams.") and function not in seen:
        seen.add(function)
        follow(ast.parse(textwrap.dedent(inspect.getsource(function))))

module = importlib.import_module(sys.argv[1])
follow(ast.parse(inspect.getsource(module)))
print(*(name for name in HEAVY if name in sys.modules))
"""

KAFKA, ARCHIVE, VECTORS = {"aiokafka"}, {"clickhouse_connect"}, {"grpc", "numpy", "qdrant_client"}
"""What the clients of each service bring."""


@pytest.mark.parametrize(
    ("command", "imports"),
    [
        ("publish", KAFKA),
        ("deltas", KAFKA),
        ("flush", KAFKA),
        ("deadletters", KAFKA | ARCHIVE),
        ("profile", ARCHIVE),
        ("query", ARCHIVE),
        ("forget", KAFKA | ARCHIVE | VECTORS),
        ("search", VECTORS),
    ],
)
def test_a_command_imports_only_the_clients_of_the_services_that_it_asks(command: str, imports: set[str]) -> None:
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    assert found.callback is not None
    result = subprocess.run(
        [sys.executable, "-c", IMPORTS_OF, found.callback.__module__],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert set(result.stdout.split()) == imports
