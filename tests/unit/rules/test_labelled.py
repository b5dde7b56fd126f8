"""Every labelled message gives exactly what its label says, and the hard negatives give nothing at all."""

from __future__ import annotations

import pytest

from tests.unit.rules import cases_en, cases_zh
from tests.unit.rules.conftest import Reader

STATEMENTS = [*cases_en.STATEMENTS.items(), *cases_zh.STATEMENTS.items()]
NOTHING = [*cases_en.NOTHING, *cases_zh.NOTHING]


def _labels(reader: Reader, content: str) -> set[str]:
    return {
        f"{'-' if candidate.retracts else ''}{candidate.sub_topic}={candidate.memo}"
        for candidate in reader.candidates(content)
    }


@pytest.mark.parametrize(("content", "expected"), STATEMENTS, ids=[content for content, _ in STATEMENTS])
def test_statement_gives_what_it_says(reader: Reader, content: str, expected: list[str]) -> None:
    assert _labels(reader, content) == set(expected)


@pytest.mark.parametrize("content", NOTHING)
def test_nothing_is_taken_from(reader: Reader, content: str) -> None:
    assert _labels(reader, content) == set()


@pytest.mark.parametrize("content", NOTHING)
def test_no_bullet_is_made_of(reader: Reader, content: str) -> None:
    from tests.unit.rules.conftest import message

    assert reader.memo([message(content)]).bullets == ()


@pytest.mark.parametrize("cases", [cases_en, cases_zh], ids=["en", "zh"])
def test_the_set_is_large_enough_to_mean_something(cases: object) -> None:
    assert len(cases.STATEMENTS) >= 80  # type: ignore[attr-defined]
    assert len(cases.NOTHING) >= 80  # type: ignore[attr-defined]
