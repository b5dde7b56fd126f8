"""The README's table of benchmarks: what it says was measured is what the linked page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.readme.blocks import ROOT

ROW: Final = re.compile(
    r"^\| `(?P<command>[^`]+)` \| (?P<cells>.*) \| \[[^\]]+\]\((?P<page>benchmarks/results/\S+\.md)\) \|$"
)
FIGURE: Final = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def rows() -> Iterator[object]:
    for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines():
        if row := ROW.match(line):
            yield pytest.param(row["cells"].rsplit(" | ", 1)[1], row["page"], id=row["command"])


@pytest.mark.parametrize(("measured", "page"), list(rows()))
def test_what_was_measured_is_what_the_page_says(measured: str, page: str) -> None:
    figures = FIGURE.findall(measured)
    assert figures
    known = set(FIGURE.findall((ROOT / page).read_text(encoding="utf-8")))
    assert [figure for figure in figures if figure not in known] == []


def test_every_page_of_a_command_is_in_the_table() -> None:
    assert len(list(rows())) == 10
