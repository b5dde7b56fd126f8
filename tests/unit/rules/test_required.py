"""`agents.rules.required`: which words a pattern cannot match without."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agents.rules.chinese import rules as chinese_rules
from agents.rules.english import rules as english_rules
from agents.rules.required import RequiredWords, required
from agents.rules.rulebook import Rule


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("I live in", {"i live in"}),
        (r"I (?:live|work) in \w+", {"live", "work"}),
        (r"(?:I|we) (?:really )*moved to (?P<place>[A-Z]\w+)", {"moved to "}),
        ("my (?:old )?name", {"name"}),
        (r"(?:a|bc){2,3}", {"a", "bc"}),
        ("(?:ab|c)*x", {"x"}),
        (r"x+?(?=yes)(?!nononono)(?<=before)", {"before"}),
        ("(?>atomic) or", {"atomic"}),
        ("do++", {"d"}),
        (r"(?:live|\w+) in", {"in"}),
        (r"(?:live|)", set()),
        (r"[ab]\d+", set()),
        ("(?i:Ab)(?-i:CDE)", {"cde"}),
        ("我(?:很)?喜欢", {"喜欢"}),
        ("", set()),
    ],
)
def test_what_a_pattern_requires(pattern: str, words: set[str]) -> None:
    assert {word.strip() for word in required(pattern)} == {word.strip() for word in words}


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(re.error):
        required("(")


def test_patterns_without_required_words_are_always_candidates() -> None:
    patterns = RequiredWords([r"\w+", "I live", "you work|I rest", "we live"], re.IGNORECASE)
    assert patterns.candidates("i LIVE and work") == [0, 1]
    assert patterns.candidates("nothing") == [0]
    assert patterns.candidates("i rest where we live") == [0, 2, 3]


def test_none_of_no_patterns_is_a_candidate() -> None:
    assert RequiredWords([]).candidates("anything") == []


def test_letters_that_are_equal_for_a_pattern_are_equal_here() -> None:
    text = "\u0130 \u212aI\u017fs"
    assert re.match("i kiss", text, re.IGNORECASE)
    assert RequiredWords(["i kiss"], re.IGNORECASE).candidates(text) == [0]


def test_half_of_a_surrogate_pair_rules_nothing_out() -> None:
    assert RequiredWords(["one", "two"]).candidates("\ud83d") == [0, 1]


RULES: list[tuple[Rule, int]] = [
    *((rule, re.IGNORECASE) for book in english_rules.BOOKS for rule in book.rules),
    *((rule, 0) for book in chinese_rules.BOOKS for rule in book.rules),
]


def test_every_rule_requires_something() -> None:
    """Otherwise each clause would be tried against it; and nothing would be gained if regular expressions were parsed
    in another way."""
    assert [rule.name for rule, flags in RULES if not required(rule.pattern, flags)] == []


_PIECES = [
    "I ",
    "we ",
    "my ",
    "really ",
    "live in ",
    "Oslo",
    "am ",
    "a nurse",
    "do not ",
    "like ",
    "tea",
    "我",
    "住在",
    "北京",
]


@given(st.lists(st.sampled_from(_PIECES), max_size=7).map("".join) | st.text(max_size=20))
@example("I am really a nurse")
@example("call me Ann")
@example("我住在北京")
@settings(deadline=None)  # the rules are compiled when they are read first
def test_what_matches_is_a_candidate(text: str) -> None:
    for book in (*english_rules.BOOKS, *chinese_rules.BOOKS):
        matching = {number for number, pattern in enumerate(book._patterns) if pattern.match(text)}
        assert matching <= set(book._required.candidates(text))
