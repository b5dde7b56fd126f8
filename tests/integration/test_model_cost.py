"""What a model costs, as the benchmark counts it: on a small conversation, and against its targets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agents.llm.prompts import Prompts
from benchmarks.model_cost import ANCHORS, Cost, Stage, main, missed
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
    assert main([str(chat), "--budget", "150", "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)
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
    assert main([str(chat), "--budget", "150", "--tags"]) == 0
    assert "calls a flush {3: 2, 4: 1}" in capsys.readouterr().out


def test_a_missed_target_ends_with_one(chat: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(chat)]) == 1, "one flush for three messages is more than 100 calls for 1,000"
    assert "calls for 1,000 messages are more than 100" in capsys.readouterr().err


def test_the_targets() -> None:
    within = Cost(messages=1_000, flushes=50, most_calls=3, stages={"summary": Stage(calls=100, static=80_000)})
    beyond = Cost(messages=1_000, flushes=50, most_calls=4, stages={"summary": Stage(calls=101, static=90_001)})
    assert missed(within, "en") == missed(within, "zh") == []
    assert len(missed(beyond, "en")) == len(missed(beyond, "zh")) == 3
    assert set(ANCHORS) == {"en", "zh"}
