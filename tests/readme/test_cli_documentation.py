"""`docs/cli.md` names the fields that commands print with ``--json``."""

from __future__ import annotations

import json
import re
from typing import Final

import pytest

from tests.readme.blocks import ROOT
from tests.readme.conftest import Here

pytestmark = pytest.mark.timeout(300)

_ROW: Final = re.compile(r"^\| `profilestream ([\w -]+)` \| .+? \| ?(.*?) ?\|$", re.MULTILINE)

COMMANDS: Final = (
    "publish chat.jsonl",
    "profile anna",
    "events anna",
    "query",
    "search sea",
    "similar-users anna",
    "flush anna",
    "flush anna --wait",
    "verify",
    "migrate",
    "reindex",
    "forget bob --yes",
)


def documented(command: str) -> set[str]:
    """Return the fields that the documentation names; with `--wait` those of it as well, without what is in them."""
    rows = dict(_ROW.findall((ROOT / "docs" / "cli.md").read_text(encoding="utf-8")))
    text = rows[command.split()[0]]
    if command == "query":
        text = text.partition("of the list")[2]
    if command == "verify":
        text = text.partition("when none does")[2]
    text = text.partition("; with `--as-of`")[0]
    before, _, waiting = text.partition("; with `--wait` also")
    return set(re.findall(r"`([a-z_]+)`", before + (re.sub(r"\(.*?\)", "", waiting) if "--wait" in command else "")))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_fields_are_those_that_the_documentation_names(command: str, here: Here) -> None:
    result = here.run(f"profilestream {command} --json")
    assert result.returncode == 0, result.stderr
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert found
    assert {frozenset(one) for one in found} == {frozenset(documented(command))}
