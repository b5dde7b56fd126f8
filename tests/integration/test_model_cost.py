"""What a model costs, as the benchmark counts it: on a small conversation, and against its targets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.llm.prompts import Prompts
from benchmarks.model_cost import ANCHORS, Cost, Stage, findings, main
from schemas.pipeline import PipelineConfig
from streams.tokens import count_tokens

PADDING = "The weather was fine and the trains were late. " * 12


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """A user with three windows of 256 tokens: something new, the same again, something else for the same slot."""
    said = ["I like tea.", "I like tea.", "I like coffee."]
    file = tmp_path / "chat.jsonl"
    lines = [{"user_id": "ada", "role": "user", "content": f"{each} {PADDING}"} for each in said]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


def test_calls_and_tokens_are_those_of_the_stages(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(chat), "--budgets", "150", "--json"]) == 0
    (cost,) = json.loads(capsys.readouterr().out)["data"]["runs"]
    assert (cost["file"], cost["budget"], cost["language"]) == ("chat.jsonl", 150, "en")
    prompts = Prompts(PipelineConfig())
    assert (cost["messages"], cost["flushes"], cost["most_calls"]) == (3, 3, 3)
    assert cost["calls_a_flush"] == {"2": 2, "3": 1}, "a repeat needs no merge call, another value does"
    assert cost["deltas"] == {"add": 1, "confirm": 1, "append": 1}
    for stage, calls in (("summary", 3), ("extract", 3), ("merge", 1)):
        assert cost["stages"][stage]["calls"] == calls
        assert cost["stages"][stage]["static"] == calls * count_tokens(prompts.static(stage))
        assert cost["stages"][stage]["payload"] > 0
        assert cost["stages"][stage]["completion"] > 0
    assert cost["routine"]["calls"] == 7
    assert cost["stages"]["summary"]["payload"] > 3 * count_tokens(PADDING)


def test_tags_are_a_call_of_their_own(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(chat), "--budgets", "150", "--tags"]) == 0
    assert "calls a flush {3: 2, 4: 1}" in capsys.readouterr().err


def test_every_budget_has_its_figures_and_the_anchors_its_targets(
    chat: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    assert main([str(chat), "--budgets", "1024,150", "--json", "--record", str(page)]) == 1, "one flush for 3 messages"
    told = json.loads(capsys.readouterr().out)
    assert [(run["budget"], run["flushes"]) for run in told["data"]["runs"]] == [(1024, 1), (150, 3)]
    assert [finding["met"] for finding in told["findings"]] == [True, False, False]
    lines = page.read_text().splitlines()
    assert "python -m benchmarks.model_cost --budgets 1024,150 chat.jsonl" in lines
    assert "| chat.jsonl (en): calls for 1,000 messages | at most 100 | **666.7 (anchor 138), missed** |" in lines
    assert "## chat.jsonl (en), budget 150: for 1,000 messages, by stage" in lines
    assert "| summary | 1,000.0 |" in page.read_text()


@pytest.mark.parametrize("budgets", ["0", "256,", "many"])
def test_what_is_no_budget_is_refused(budgets: str, chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(chat), "--budgets", budgets])
    assert "--budgets" in capsys.readouterr().err


def test_the_targets() -> None:
    within = Cost(messages=1_000, flushes=50, most_calls=3, stages={"summary": Stage(calls=100, static=80_000)})
    beyond = Cost(messages=1_000, flushes=50, most_calls=4, stages={"summary": Stage(calls=101, static=90_001)})
    assert [one.met for one in findings(within, "en")] == [one.met for one in findings(within, "zh")] == [True] * 3
    assert [one.met for one in findings(beyond, "en")] == [one.met for one in findings(beyond, "zh")] == [False] * 3
    assert set(ANCHORS) == {"en", "zh"}
