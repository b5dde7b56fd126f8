"""Names, dates and numbers are found in both languages."""

import pytest

from agents.entities import entities, kept_share


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("moved to Lyon in 2021 with Anna", {"lyon", "2021", "anna"}),
        ("likes tea and long walks", set()),
        ("runs 10 km on 3/4 and writes C++ and iOS apps", {"10km", "3/4", "c++", "ios"}),
        ("2021年3月搬到杭州，养了一只叫Tom的猫", {"2021年", "3月", "tom"}),
        ("周三晚上看《三体》，五月去旅行", {"周三", "《三体》", "五月"}),
        ("", set()),
    ],
)
def test_what_counts_as_an_entity(text: str, found: set[str]) -> None:
    assert entities(text) == found


def test_share_that_is_kept() -> None:
    assert kept_share("Anna and Ben met in Lyon in 2019", "met ANNA 2019") == 0.5
    assert kept_share("likes tea", "drinks") == 1.0
    assert kept_share("10 km", "10km a day") == 1.0
