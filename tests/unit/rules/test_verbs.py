"""English words in their other forms."""

from __future__ import annotations

import pytest

from agents.rules.english.verbs import doing, forms, gerund


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        *(("read", "reading"), ("bake", "baking"), ("run", "running"), ("swim", "swimming"), ("ski", "skiing")),
        *(("see", "seeing"), ("be", "being"), ("visit", "visiting"), ("garden", "gardening"), ("cook", "cooking")),
        *(("play", "playing"), ("draw", "drawing"), ("chat", "chatting"), ("quit", "quitting"), ("lie", "lying")),
        *(("fish", "fishing"), ("begin", "beginning"), ("dye", "dyeing"), ("canoe", "canoeing"), ("eat", "eating")),
    ],
)
def test_gerund(verb: str, expected: str) -> None:
    assert gerund(verb) == expected
    assert doing(f"{verb} by the sea") == f"{expected} by the sea"


@pytest.mark.parametrize("word", ["hike", "hikes", "hiking"])
def test_the_forms_of_a_word_hold_each_other(word: str) -> None:
    assert {"hike", "hikes", "hiked", "hiking"} <= forms(word)


@pytest.mark.parametrize(
    ("word", "other"),
    [
        *(("travel", "traveling"), ("travelling", "travel"), ("party", "parties"), ("parties", "party")),
        *(("dish", "dishes"), ("movies", "movie"), ("study", "studied"), ("skiing", "ski"), ("swimming", "swims")),
    ],
)
def test_a_form(word: str, other: str) -> None:
    assert other in forms(word)


@pytest.mark.parametrize(
    ("word", "other"),
    [
        *(("wine", "win"), ("car", "care"), ("plane", "plan"), ("news", "new"), ("evening", "even"), ("glass", "glas")),
        *(("thing", "th"), ("sing", "s"), ("gas", "ga"), ("art", "artist"), ("run", "rune"), ("bar", "bare")),
    ],
)
def test_what_only_looks_like_a_form(word: str, other: str) -> None:
    assert other not in forms(word)
    assert word not in forms(other)


@pytest.mark.parametrize("word", ["it", "C++", "咖啡", "a-b", "4k"])
def test_what_is_no_plain_word_has_one_form(word: str) -> None:
    assert forms(word) == {word.lower()}
