"""Which sentences of a message count as its author's own statements."""

from __future__ import annotations

import pytest

from agents.rules.text import mask_speech, statements


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("One. Two! Three", ["One.", "Two!", "Three"]),
        ("一。二！三", ["一。", "二！", "三"]),
        ("Dr. Lee lives on St. John Street. I do too.", ["Dr. Lee lives on St. John Street.", "I do too."]),
        ("It costs 3.50 in Berlin. Cheap.", ["It costs 3.50 in Berlin.", "Cheap."]),
        ("first line\nsecond line", ["first line", "second line"]),
        ("我看了《摔跤吧！爸爸》。很好看。", ["我看了《摔跤吧！爸爸》。", "很好看。"]),
        ('He said "Stop. Now." and left. I stayed.', ['He said "Stop. Now." and left.', "I stayed."]),
        ("   \n  ", []),
    ],
    ids=["english", "chinese", "abbreviations", "decimals", "lines", "title", "speech", "blank"],
)
def test_sentences_are_kept_verbatim(content: str, expected: list[str]) -> None:
    assert list(statements(content)) == expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("Do you like tea?", []),
        ("I like tea, do you?", ["I like tea"]),
        ("I like tea, right?", []),
        ("I live here, don't I?", []),
        ("我喜欢茶，你呢？", ["我喜欢茶"]),
        ("我喜欢茶，对吗？", []),
        ("你知道吗", []),
        ("说什么也不去", ["说什么也不去"]),
    ],
)
def test_questions_are_cut_off(content: str, expected: list[str]) -> None:
    assert list(statements(content)) == expected


@pytest.mark.parametrize(
    "foreign",
    [
        "```python\nI = 1\n```",
        "> quoted line",
        "<memory>\nsomething recalled\n</memory>",
        "<system-reminder>never closed",
        "Relevant memories:\n- one\n- two",
        "用户画像：\n姓名 李雷\n城市 北京",
        "- interest::likes::tea",
    ],
    ids=["code", "quote", "block", "open block", "memories", "profile", "slots"],
)
def test_passed_on_text_is_taken_out(foreign: str) -> None:
    assert list(statements(f"Before.\n{foreign}")) == ["Before."]


def test_what_follows_a_passed_on_block_is_read_again() -> None:
    assert list(statements("<note>theirs</note>Mine.\n\nRelevant memories:\n- theirs\n\nMine too.")) == [
        "Mine.",
        "Mine too.",
    ]


def test_nothing_is_read_after_a_request_to_play_or_write() -> None:
    assert list(statements("I live here. Pretend you are me. My name is Bob.")) == ["I live here."]
    assert list(statements("我住在这里。帮我翻译下面的话。我叫李雷。")) == ["我住在这里。"]


def test_only_speech_in_the_first_person_is_masked() -> None:
    assert mask_speech('I saw "Alien" and she said "I am late"') == 'I saw "Alien" and she said \ufffc'
    assert mask_speech("我看了“红楼梦”，他说“我迟到了”") == "我看了“红楼梦”，他说\ufffc"
    assert mask_speech("it's Tom's dog") == "it's Tom's dog"
