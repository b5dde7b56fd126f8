"""`without_subject`: what a statement about a user says."""

from __future__ import annotations

import pytest

from schemas.facts import without_subject


@pytest.mark.parametrize(
    ("statement", "rest"),
    [
        ("用户在杭州工作", "在杭州工作"),
        ("用户的老板姓张", "老板姓张"),
        ("User lives in Oslo", "lives in Oslo"),
        ("The user's boss is Anna", "boss is Anna"),
        ("User’s dog is Rex", "dog is Rex"),
        ("Prefers lists", "Prefers lists"),
        ("偏好简短的回复", "偏好简短的回复"),
        ("Users of Linux", "Users of Linux"),
        ("Userland", "Userland"),
        ("用户", "用户"),
        ("User ", "User "),
        ("", ""),
    ],
)
def test_the_subject_is_left_out_where_there_is_one(statement: str, rest: str) -> None:
    assert without_subject(statement) == rest
