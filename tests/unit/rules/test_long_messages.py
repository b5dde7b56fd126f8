"""Messages of many statements cost time in proportion to their length."""

from __future__ import annotations

import time

import pytest

from agents.rules.processor import RuleProcessor
from schemas.pipeline import PipelineConfig
from tests.support.records import signal_batch


@pytest.mark.parametrize("statement", ["I like thing{}. ", "我喜欢东西{}。"])
async def test_a_thousand_wishes_are_read_in_seconds(statement: str) -> None:
    batch = signal_batch("".join(statement.format(number) for number in range(1_000)))
    started = time.perf_counter()
    found = await RuleProcessor(PipelineConfig()).extract_preferences(batch, ())
    assert time.perf_counter() - started < 15  # it took half a minute when each was compared with all others
    assert found.preferences[-1].text in {"Likes thing999", "喜欢东西999"}
