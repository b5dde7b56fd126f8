"""`count_tokens`: the real counts of o200k."""

from __future__ import annotations

import time

import pytest

from streams.tokens import count_tokens, split_text


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello world", 2),
        ("我在杭州工作，老板姓张，平时喜欢简短的回复", 16),
        ("emoji 👩‍👩‍👧 مرحبا", 11),
        ("a\x00b", 3),
    ],
)
def test_known_counts(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens


def test_a_special_token_is_plain_text() -> None:
    assert count_tokens("<|endoftext|>") == 7
    assert count_tokens("hello<|endoftext|>world") > 3


@pytest.mark.parametrize("unit", ["a", " ", "啊", "\n", "1", "!", "ab "])
def test_a_message_of_the_largest_size_is_counted_in_no_time(unit: str) -> None:
    text = unit * (1_000_000 // len(unit.encode()))
    count_tokens("warm up")
    began = time.perf_counter()
    assert count_tokens(text) > 0
    assert time.perf_counter() - began < 1.0


@pytest.mark.parametrize(
    "text", ["hello world. " * 300, "我在杭州工作。" * 300, "x7Gq!@" * 500, "a\n" * 900, "👩‍👩‍👧" * 90, "", "汉"]
)
@pytest.mark.parametrize("budget", [16, 100, 5000])
def test_pieces_of_a_text_are_the_text_and_fit(text: str, budget: int) -> None:
    pieces = split_text(text, budget)
    assert "".join(pieces) == text
    assert all(count_tokens(piece) <= budget for piece in pieces)
    if count_tokens(text) <= budget:
        assert pieces == [text]


def test_a_text_is_cut_between_sentences_where_it_can_be() -> None:
    assert split_text("One two three. Four five six. Seven eight nine.", 9) == [
        "One two three. Four five six.",
        " Seven eight nine.",
    ]
