"""Rules are compiled where the event loop does not wait for them, and only those of the languages that are spoken."""

from __future__ import annotations

import threading
from types import ModuleType

import pytest

from agents.rules.chinese import rules as chinese
from agents.rules.english import rules as english
from agents.rules.processor import RuleProcessor
from agents.rules.rulebook import Give, Rule, Rulebook
from schemas.pipeline import PipelineConfig
from tests.unit.rules.conftest import batch, message

SLOT = ("interest", "likes")


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """Put one uncompiled rule in the place of each language's, and return the threads in which they find something."""
    found: list[threading.Thread] = []

    def clean(text: str) -> list[str]:
        found.append(threading.current_thread())
        return [text]

    def book(pattern: str) -> tuple[Rulebook]:
        return (Rulebook((Rule("likes", pattern, (Give(SLOT, "{what}", clean),)),)),)

    monkeypatch.setattr(english, "BOOKS", book("I like (?P<what>.+)"))
    monkeypatch.setattr(chinese, "BOOKS", book("我喜欢(?P<what>.+)"))
    return found


@pytest.mark.parametrize(
    ("text", "spoken", "other"),
    [("I like tea.", english, chinese), ("我喜欢喝茶。", chinese, english)],
    ids=["en", "zh"],
)
async def test_the_first_message_of_a_language_is_read_in_a_thread_and_the_others_at_once(
    threads: list[threading.Thread], text: str, spoken: ModuleType, other: ModuleType
) -> None:
    processor = RuleProcessor(PipelineConfig())

    first = await processor.summarise(batch([message(text)]), ())
    assert [bullet.text for bullet in first.bullets] == [text]
    assert threads
    assert threading.current_thread() not in threads
    assert spoken.BOOKS[0].is_compiled
    assert not other.BOOKS[0].is_compiled

    threads.clear()
    again = await processor.summarise(batch([message(text, message_id="m2")]), ())
    assert [bullet.text for bullet in again.bullets] == [text]
    assert set(threads) == {threading.current_thread()}
