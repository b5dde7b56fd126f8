"""The labelled questions of the benchmark of search."""

from __future__ import annotations

import pytest

from benchmarks.recall import HITS, LANGUAGES, Figures, Language, Question, figures, labelled


@pytest.mark.parametrize("language", LANGUAGES)
def test_there_are_enough_and_every_answer_is_there(language: Language) -> None:
    items, questions = labelled(language)
    numbers = [item.item for item in items]
    answers = {answer for question in questions for answer in question.answers}
    assert len(items) >= 300
    assert len({item.user for item in items}) >= 5
    assert sum(question.asks_for == "meaning" for question in questions) >= 60
    assert len(set(numbers)) == len(numbers)
    assert answers <= set(numbers)
    assert all(0 < len(question.answers) <= HITS for question in questions)
    # Of every subject, some items are no answer.
    assert len(items) > 1.5 * len(answers)
    assert len({(item.kind, item.topic, item.sub_topic, item.text) for item in items}) == len(items)
    assert len({question.query for question in questions}) == len(questions)


async def test_figures_count_the_first_hits_only() -> None:
    questions = [
        Question(query="a", asks_for="name", answers=(1, 2)),
        Question(query="b", asks_for="name", answers=(3,)),
        Question(query="c", asks_for="name", answers=(4,)),
    ]
    hits = {"a": [9, 1, 8], "b": [3], "c": [*range(10, 10 + HITS), 4]}

    async def find(query: str) -> list[int]:
        return hits[query]

    measured = await figures(questions, find)
    assert measured == Figures(recall=2 / 4, first=1 / 3, median_ms=measured.median_ms)
