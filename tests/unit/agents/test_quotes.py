"""What of a user's message is their own, and what is a copy of something that they were shown."""

from __future__ import annotations

import time

import pytest

from agents.quotes import MARK, own_words
from schemas.flushes import BatchMessage, FlushBatch
from tests.support.records import SAID, flush_ref

MEMORY = "The user is called Peter and works as a pilot in Madrid."


def own(*messages: tuple[str, str], context: tuple[tuple[str, str], ...] = ()) -> list[str]:
    """Return the texts of the messages, given as role and text, as they are after the copies are out."""

    def all_of(given: tuple[tuple[str, str], ...]) -> tuple[BatchMessage, ...]:
        return tuple(
            BatchMessage(message_id=f"m{offset}", offset=offset, role=role, content=text, occurred_at=SAID)
            for offset, (role, text) in enumerate(given)
        )

    batch = own_words(FlushBatch(ref=flush_ref(), messages=all_of(messages), context=all_of(context)))
    return [message.content for message in batch.messages]


@pytest.mark.parametrize("role", ["system", "assistant", "tool"])
@pytest.mark.parametrize(
    ("said", "left"),
    [
        (MEMORY, ""),
        (f"> {MEMORY}\nThat was long ago.", f"> {MARK}.\nThat was long ago."),
        (f'You wrote: "{MEMORY}" I like tea.', f'You wrote: "{MARK}." I like tea.'),
        (f"Memory: {MEMORY.upper()}", f"Memory: {MARK}."),
        ("the user is called\n  Peter and works as a  pilot in Madrid - is that right?", None),
        ("The user is called Peter and works as a pilot in Madrid, is that right?", f"{MARK}, is that right?"),
        ("You think that the user is called Peter and works as a pilot in Madrid.", None),
        ("Yes, a pilot in Madrid.", None),
    ],
)
def test_a_whole_sentence_that_stands_by_itself_is_a_copy(role, said, left) -> None:
    assert own((role, MEMORY), ("user", said)) == [MEMORY, said if left is None else left]


def test_chinese_sentences_too() -> None:
    memory = "用户叫小明，在马德里当飞行员。他喜欢喝茶。"
    assert own(("assistant", memory), ("user", f"你写道：“{memory}”我住在无锡。"))[1] == (
        f"你写道：“{MARK}。他喜欢喝茶。”我住在无锡。"
    ), "the second sentence is too short to count by itself"
    assert own(("system", memory), ("user", f"你写道：“{memory}”我住在无锡。"))[1] == f"你写道：“{MARK}。”我住在无锡。"


def test_lines_without_a_full_stop_count_in_prompts_and_results_but_are_options_in_an_answer() -> None:
    options = "Which one?\n- the vegetarian menu with figs\n- the vegan menu with rice"
    chosen = "the vegetarian menu with figs"
    assert own(("assistant", options), ("user", chosen))[1] == chosen
    assert own(("system", options), ("user", chosen))[1] == ""


def test_short_sentences_are_said_twice_by_chance() -> None:
    assert own(("assistant", "I like tea."), ("user", "I like tea."))[1] == "I like tea."


def test_only_what_came_before_can_be_copied() -> None:
    said = "I moved to Lyon with my sister last week."
    assert own(("user", said), ("assistant", said), ("user", said)) == [said, said, ""]


def test_earlier_turns_count_and_what_the_user_says_again_does_not() -> None:
    assert own(("user", MEMORY), context=(("assistant", MEMORY),)) == [""]
    assert own(("user", MEMORY), ("user", MEMORY), context=(("user", MEMORY),)) == [MEMORY, MEMORY]


def test_patterns_in_the_text_are_text() -> None:
    odd = "Use (a|b)* and [^x]+ or \\d{3} and $1 here."
    assert own(("tool", odd), ("user", f"{odd} I like tea.")) == [odd, f"{MARK}. I like tea."]


def test_a_long_prompt_takes_no_noticeable_time() -> None:
    prompt = " ".join(f"The user has said thing number {number} of many." for number in range(2_000))
    started = time.perf_counter()
    own(("system", prompt), *[("user", f"I like tea number {number} of many.") for number in range(64)])
    assert time.perf_counter() - started < 2
