"""Fixtures for the tests of the memo lane: lanes that are judged by a scripted model, or by the rules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from agents.llm import LLMProcessor
from agents.rules.processor import RuleProcessor
from benchmarks.model_server import ModelServer
from schemas.pipeline import PipelineConfig
from streams.settings import ModelSettings
from tests.support.memo_lane import MemoLane, Script

LaneMaker = Callable[..., MemoLane]


@pytest.fixture
async def model_lane() -> AsyncIterator[LaneMaker]:
    """Makes a lane judged by a model that answers by a `Script`; further arguments are the configuration."""
    made: list[LLMProcessor] = []
    async with ModelServer() as server:

        def make(script: Script, **values: object) -> MemoLane:
            server.script = script
            config = PipelineConfig(**values)
            made.append(LLMProcessor(ModelSettings(base_url=server.url, name="big", attempts=1), config))
            return MemoLane(made[-1], config)

        yield make
        for processor in made:
            await processor.close()


@pytest.fixture
def rule_lane() -> LaneMaker:
    """Makes a lane judged by the rules."""

    def make(**values: object) -> MemoLane:
        config = PipelineConfig(**values)
        return MemoLane(RuleProcessor(config), config)

    return make
