"""The words of a text as a sparse vector."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.sparse import sparse_passage, sparse_query


def shared(query: str, passage: str) -> int:
    return len(set(sparse_query(query).indices) & set(sparse_passage(passage).indices))


@pytest.mark.parametrize(
    ("query", "passage"),
    [
        ("KL1023", "missed flight kl1023"),
        ("party", "two parties"),
        ("dances", "danced all night"),
        ("stopping", "stopped"),
        ("cafe", "a Café in Zürich"),
        ("glass", "a glass"),
        ("ＡＢＣ", "abc"),
        ("茶", "喜欢喝龙井茶"),
        ("龙井", "喝龙井茶"),
        ("カフェ", "カフェで働く"),
        ("שלום", "שלום עולם"),
    ],
)
def test_a_word_is_found_in_another_form(query: str, passage: str) -> None:
    assert shared(query, passage) > 0


@pytest.mark.parametrize(
    ("query", "passage"),
    [
        ("what does she have", "he is with them"),
        ("他有什么", "我是谁"),
        ("KL1023", "KL1032"),
        ("bus", "bu"),
        ("茶", "咖啡"),
        ("😀", "😀"),
    ],
)
def test_what_says_nothing_or_something_else_is_not_shared(query: str, passage: str) -> None:
    assert shared(query, passage) == 0


def test_a_word_counts_once_in_a_query_and_more_often_in_a_passage() -> None:
    assert sparse_query("tea tea tea") == sparse_query("tea")
    assert sparse_query("tea").values == [1.0]
    assert sparse_passage("tea tea milk milk").values[0] > sparse_passage("tea bread milk rolls").values[0]


def test_a_word_counts_less_in_a_longer_passage() -> None:
    assert sparse_passage("tea").values[0] > sparse_passage("tea bread milk rolls").values[0]


def test_a_passage_of_typical_length_weighs_a_word_as_bm25_does() -> None:
    passage = " ".join(f"w{number}" for number in range(12))
    assert sparse_passage(passage).values == pytest.approx([2.2 / 2.2] * 12)


def test_two_neighbours_are_a_term_of_their_own() -> None:
    assert len(sparse_passage("龙井茶").indices) == 3 + 2
    assert shared("井龙", "龙井") == 2


def test_function_words_part_neighbours() -> None:
    assert shared("住哪里城", "住城") == 2


@pytest.mark.parametrize("text", ["", " ", "\0", "😀🎉", "the of", "的了吗", "\ud800"])
def test_a_text_without_words_has_an_empty_vector(text: str) -> None:
    assert sparse_query(text) == ([], [])
    assert sparse_passage(text) == ([], [])


@given(st.text(max_size=300))
def test_places_are_different_and_in_range_and_weights_positive(text: str) -> None:
    for vector in (sparse_query(text), sparse_passage(text)):
        assert len(set(vector.indices)) == len(vector.indices) == len(vector.values)
        assert all(0 <= place < 2**32 for place in vector.indices)
        assert all(weight > 0 for weight in vector.values)


@given(st.text(max_size=100))
def test_a_text_has_the_words_that_are_searched_with_it(text: str) -> None:
    assert set(sparse_query(text).indices) == set(sparse_passage(text).indices)


def test_of_a_very_long_text_the_beginning_counts() -> None:
    assert shared("first", "first " + "x " * 100_000 + "last") == 1
    assert shared("last", "first " + "x " * 100_000 + "last") == 0
