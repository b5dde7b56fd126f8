"""Comparing statements by their words, in two languages."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.wording import (
    by_character,
    comparable,
    mentions,
    missing_names,
    own_statements,
    rather_from,
    same_language,
    says_something,
    shared_share,
    spelling_similarity,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("User lives in Oslo", " user  lives in\tOSLO. "),
        ("用户住在杭州", "用户住在杭州。"),
        ("用户用ＶＳＣｏｄｅ", "用户用VSCode！"),
        ("User's boss is Anna", "“User's boss is Anna”"),
    ],
)
def test_repeats_are_equal_in_their_comparable_form(one: str, other: str) -> None:
    assert comparable(one) == comparable(other)


@pytest.mark.parametrize("text", ["", "  ", "。", "…", "?!", "“”"])
def test_marks_alone_are_nothing(text: str) -> None:
    assert comparable(text) == ""


def test_what_belongs_to_a_name_stays() -> None:
    assert comparable("C++") != comparable("C")
    assert comparable("User is 31") != comparable("User is 30")
    assert comparable("👍") == "👍"


@given(st.text(max_size=40))
def test_the_comparable_form_of_a_comparable_form_is_itself(text: str) -> None:
    assert comparable(comparable(text)) == comparable(text)


@pytest.mark.parametrize(
    ("statement", "source", "share"),
    [
        ("用户在杭州工作", "我在杭州工作，老板姓张", 1.0),
        ("用户的老板姓李", "我在杭州工作，老板姓张", 0.75),
        ("用户住在上海", "我在杭州工作，老板姓张", 0.0),
        ("User lives in Oslo", "I live in oslo!", 1.0),
        ("User's dog is called Rex", "my dog rex", 2 / 3),
        ("User was allergic to nuts", "I have an allergy", 0.5),
        ("User is thirty", "I am 30", 0.0),
        ("用户使用 VSCode", "我用vscode", 0.5),
        ("User has had it", "", 0.0),
    ],
)
def test_the_share_of_a_statement_that_a_text_holds(statement: str, source: str, share: float) -> None:
    assert shared_share(statement, source) == pytest.approx(share)


@pytest.mark.parametrize("statement", ["", "User is", "用户在", "👍", "?!"])
def test_a_statement_without_a_telling_word_shares_all_and_says_nothing(statement: str) -> None:
    assert shared_share(statement, "anything") == 1.0
    assert not says_something(statement)


@pytest.mark.parametrize("statement", ["User is 5", "用户累", "User: Oslo"])
def test_a_statement_with_one_says_something(statement: str) -> None:
    assert says_something(statement)


@given(st.text(max_size=60), st.text(max_size=60))
def test_every_text_shares_all_of_itself_and_shares_are_shares(one: str, other: str) -> None:
    assert shared_share(one, one) == 1.0
    assert 0.0 <= shared_share(one, other) <= 1.0
    assert shared_share(one, one + "\n" + other) == 1.0
    assert missing_names(one, one + "\n" + other) == []


@pytest.mark.parametrize(
    ("statement", "source", "missing"),
    [
        ("User lives in London", "I live near the river", ["London"]),
        ("User lives in London", "london is where I live", []),
        ("Plays chess", "chess is my game", []),
        ("User's boss is called Anna", "anna, my boss, is late", []),
        ("User works at Anna's bakery", "I work in a bakery", ["Anna"]),
        ("User is 39 years old", "I'm 29 and feel old", ["39"]),
        ("User is 29 years old", "I'm twenty-nine", []),
        ("User was born in 1995", "I'm a child of '95, as they say", []),
        ("User was born in 1985", "I'm a child of '95, as they say", ["1985"]),
        ("User is American", "I come from America", []),
        ("User sells B2B software", "b2b software is what I sell", []),
        ("User pays for GPT-4", "I pay for gpt4", []),
        ("用户使用iPhone", "我想换手机", ["iPhone"]),
        ("用户在google工作", "我在 Google 上班", []),
        ("用户的老板姓李", "我老板姓张", ["李"]),
        ("用户的老板姓张", "我老板姓张", []),
        ("用户名叫林晓", "我叫林晓", []),
        ("User lives in 杭州", "I live in 杭州", []),
    ],
)
def test_names_and_numbers_that_the_text_does_not_hold(statement: str, source: str, missing: list[str]) -> None:
    assert missing_names(statement, source) == missing


@pytest.mark.parametrize(
    ("statement", "other", "source", "rather"),
    [
        ("杭州今天下雨", "杭州今天有雨，气温18度。", "我在想今天要不要出门", True),
        ("用户在杭州工作", "你在杭州做什么工作？", "我在杭州当护士", False),
        ("用户是护士", "护士的工作压力很大。", "我是护士", False),
        ("User works as a nurse in Oslo", "So you work as a nurse in Oslo?", "Yes, I'm a nurse in Oslo", False),
        ("User cooks lentil soup", "Here is a recipe for lentil soup.", "I'll try it, thanks", True),
        ("User lives in Oslo", "", "I live in Oslo", False),
    ],
)
def test_a_statement_that_is_rather_from_another_text(statement: str, other: str, source: str, rather: bool) -> None:
    assert rather_from(statement, other, source) is rather


@pytest.mark.parametrize(
    ("statement", "source", "same"),
    [
        ("用户住在杭州", "我住在杭州", True),
        ("User lives in Hangzhou", "我住在杭州", False),
        ("User lives in 杭州", "我住在杭州", False),
        ("User lives in Oslo", "I live in Oslo", True),
        ("用户住在奥斯陆", "I live in Oslo", False),
        ("用户住在杭州", "I live in 杭州", False),
        ("User lives in 杭州", "I live in 杭州", True),
        ("User works at Google", "我在 Google 工作", False),
        ("用户在 Google 工作", "我在 Google 工作", True),
        ("用户爱看 The Big Bang Theory", "我爱看 The Big Bang Theory", True),
        ("用户用VSCode写Python", "我用VSCode写Python", True),
        ("VSCode", "我用VSCode", True),
        ("User writes Python in VSCode", "我用VSCode写Python", True),
        ("用户喜欢👍", "👍👍 10/10", True),
        ("用户的电话是 5551234", "5551234", True),
        ("User drinks tea", "喝茶", False),
        ("", "我喝茶", True),
    ],
)
def test_the_language_of_the_text_is_kept(statement: str, source: str, same: bool) -> None:
    assert same_language(statement, source) is same


@pytest.mark.parametrize(
    ("text", "counted"),
    [("北京", True), ("iPhone手机壳", True), ("User in 北京", False), ("hiking 🏔", False), ("", False)],
)
def test_what_is_measured_by_the_character(text: str, counted: bool) -> None:
    assert by_character(text) is counted


@pytest.mark.parametrize(
    ("text", "name", "named"),
    [
        ("I like art.", "Art", True),
        ("Let's start", "art", False),
        ("So many Movies", "movie", True),
        ("machine learning is fun", "machine_learning", True),
        ("我喜欢AI绘画", "AI", True),
        ("我喜欢AI绘画", "绘画", True),
        ("what he said", "AI", False),
        ("C++ and more", "c++", True),
        ("anything", "…", False),
    ],
)
def test_a_name_is_mentioned_as_words_of_its_own(text: str, name: str, named: bool) -> None:
    assert mentions(text, name) is named


@pytest.mark.parametrize(
    ("one", "other", "similarity"),
    [
        ("User lives in Oslo", "user lives in Oslo.", 1.0),
        ("ab", "cd", 0.0),
        ("night", "nacht", 6 / 12),
        ("北京", "北京市", 4 / 7),
    ],
)
def test_likeness_in_spelling(one: str, other: str, similarity: float) -> None:
    assert spelling_similarity(one, other) == pytest.approx(similarity)


@given(st.text(max_size=30), st.text(max_size=30))
def test_likeness_in_spelling_is_a_share_and_goes_both_ways(one: str, other: str) -> None:
    assert 0.0 <= spelling_similarity(one, other) == spelling_similarity(other, one) <= 1.0
    assert spelling_similarity(one, one) == 1.0


RIGHT = [
    ("我在杭州工作，老板姓张，平时喜欢简短的回复", "用户的老板姓张"),
    ("我老婆是个护士，天天上夜班，累得不行", "用户的妻子是护士"),
    ("我儿子刚上小学一年级", "用户有一个儿子，在读小学一年级"),
    ("我们公司是做跨境电商的，我负责供应链", "用户在公司负责供应链"),
    ("坐标深圳，在腾讯做后端", "用户在腾讯做后端开发"),
    ("My boss, Anna, keeps changing the deadline", "User's boss is called Anna"),
    ("I gave up coffee two years ago", "User no longer drinks coffee"),
    ("I run marketing at Spotify, based in Stockholm", "User leads marketing at Spotify in Stockholm"),
]
WRONG = [
    ("我有点累，想早点睡", "用户患有失眠症"),
    ("我想买车，预算二十万", "用户开比亚迪"),
    ("我负责这个项目的测试", "用户是产品经理"),
    ("I used to live in Leeds", "User lives in York"),
    ("my friend works at Shell", "User works at BP"),
    ("I'm a bit tired today", "User suffers from insomnia"),
]


@pytest.mark.parametrize(("said", "fact", "borne_out"), [(*p, True) for p in RIGHT] + [(*p, False) for p in WRONG])
def test_paraphrases_are_told_from_inventions(said: str, fact: str, borne_out: bool) -> None:
    assert (shared_share(fact, said) >= 1 / 3 and not missing_names(fact, said)) is borne_out


def test_a_long_text_without_end_marks_is_read_in_its_length() -> None:
    text = "I live in Oslo. " + "word " * 200_000 + '"' * 1_000
    started = time.perf_counter()
    assert own_statements(text).startswith("I live in Oslo. word")
    assert time.perf_counter() - started < 5, "the square of the length would be hours"


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("I ski. The user lives in Rome, he said. I sing.", "I ski. . I sing."),
        ("我住在杭州。用户喜欢茶。", "我住在杭州。 。"),
        ('She said "I love Rome" to me', "She said   to me"),
        ("> I live in Rome\nI live in Oslo", " \nI live in Oslo"),
        ("```\nthe user is ill\n``` I am well", "  I am well"),
    ],
)
def test_what_is_only_passed_on_is_left_out(text: str, own: str) -> None:
    assert own_statements(text) == own
