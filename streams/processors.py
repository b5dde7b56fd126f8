"""Which processor the settings name: rules, or a language model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents.processor import Processor
from schemas.pipeline import PipelineConfig
from streams.settings import ModelSettings


def uses_model(model: ModelSettings) -> bool:
    """Whether these settings name a language model: asked for, or a key and a model's name are there."""
    if model.processor == "auto":
        return bool(model.name and model.api_key.get_secret_value())
    return model.processor == "llm"


@asynccontextmanager
async def open_processor(model: ModelSettings, config: PipelineConfig) -> AsyncIterator[Processor]:
    """Open the processor that the settings name."""
    if not uses_model(model):
        from agents.rules.processor import RuleProcessor

        yield RuleProcessor(config)
        return
    from agents.llm.processor import LLMProcessor

    processor = LLMProcessor(model, config)
    try:
        yield processor
    finally:
        await processor.close()
