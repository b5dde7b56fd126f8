"""Estimated token counts against the tokenizer itself: never too low."""

from __future__ import annotations

import json

import quicktok
from hypothesis import given, settings
from hypothesis import strategies as st
from profilestream_client.tokens import RARE_PAIRS, common_tokens, estimate_tokens

from streams.samples import sample_path
from streams.tokens import count_tokens

WORDS = sorted(common_tokens().words)
CHARACTERS = sorted(common_tokens().characters)
NAMES = ["Przemysław", "O'Brien", "McDonald's", "Xyzzy", "ΑΒΓ", "мир", "שלום", "مرحبا", "naïve", "HTTPServer", "iPhone"]
CODE = ["{", "}", "def f(x):", "\n", "\t", "    ", "!=", "->", "0xff", "a_b", "'s", "//", "1234567", "²³", "½12", "#"]
EMOJI = ["😀", "👩‍👩‍👧", "🇫🇷", "❤️", "👍🏽", "✈", "🏴‍☠️"]
PIECES = st.sampled_from(
    [*WORDS[::40], *NAMES, *CODE, *EMOJI, *CHARACTERS[::30], " ", "  ", "，", "。", ". ", ", ", "彩票"]
)


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text(text: str) -> None:
    assert estimate_tokens(text) >= count_tokens(text)


@settings(deadline=None)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=80))
def test_any_ascii(text: str) -> None:
    assert estimate_tokens(text) >= count_tokens(text)


@settings(deadline=None)
@given(st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FFF), max_size=60))
def test_any_chinese(text: str) -> None:
    assert estimate_tokens(text) >= count_tokens(text)


@settings(deadline=None)
@given(st.text(st.sampled_from(CHARACTERS), max_size=60))
def test_characters_that_are_known(text: str) -> None:
    assert estimate_tokens(text) >= count_tokens(text)


@settings(deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=40), st.sampled_from([" ", "", ", ", " 你", "'"]))
def test_words_that_are_known(words: list[str], between: str) -> None:
    text = between.join(words)
    assert estimate_tokens(text) >= count_tokens(text)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=40))
def test_a_mixture(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert estimate_tokens(text) >= count_tokens(text)


def test_the_conversations_of_the_demo_are_not_counted_at_more_than_about_twice() -> None:
    for name in ("sample_en", "sample_zh"):
        lines = sample_path(name).read_text("utf-8").splitlines()
        texts = [json.loads(line).get("content", "") for line in lines if line]
        assert all(estimate_tokens(text) >= count_tokens(text) for text in texts)
        exact = sum(map(count_tokens, texts))
        assert exact < sum(map(estimate_tokens, texts)) < 2.3 * exact


def test_the_list_is_of_the_vocabulary() -> None:
    encoding = quicktok.get_encoding("o200k_base")
    tokens = {encoding.decode_single_token_bytes(number) for number in range(encoding.n_vocab) if number < 199_998}
    assert all(f" {word}".encode() in tokens for word in WORDS)
    assert all(character.encode() in tokens for character in CHARACTERS)
    letters = "abcdefghijklmnopqrstuvwxyz"
    missing = {a + b for a in letters for b in letters if (a + b).encode() not in tokens}
    assert missing == set(RARE_PAIRS.pattern.split("|"))
    assert all(f" {letter}".encode() in tokens for letter in letters)


def test_values_by_hand() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens(" the user") == 2
    assert estimate_tokens("2026-03-01") == 6  # 202 6 - 03 - 01
    assert estimate_tokens("你好") == 3  # one for each, one for the run
    assert estimate_tokens("\ud800") >= 1
