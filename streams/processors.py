"""Which processor the settings name: rules, or a language model."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents.processor import PipelineProcessor
from schemas.pipeline import PipelineConfig
from streams.settings import ModelSettings
from streams.settings.models import OPENAI_URL

logger = logging.getLogger(__name__)


def uses_model(model: ModelSettings) -> bool:
    """Whether these settings name a language model.

    It is asked for, or has a name, and a key or a server of one's own, which may need none.
    """
    if model.processor == "auto":
        return bool(model.name) and (_has_key(model) or model.base_url != OPENAI_URL)
    return model.processor == "llm"


def processor_name(model: ModelSettings) -> str:
    """Return what these settings read conversations with, for people: the model's name, or ``rules``."""
    return model.name if uses_model(model) else "rules"


def half_named(model: ModelSettings) -> str | None:
    """Return what is missing for a language model of which something is set, and None when nothing is or all."""
    if model.processor != "auto" or uses_model(model):
        return None
    if model.name:
        return "a model is named, and no key for it: set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own"
    if _has_key(model):
        return "there is a key for a model, and no model is named: set OPENAI_MODEL"
    return None


def _has_key(model: ModelSettings) -> bool:
    return bool(model.api_key.get_secret_value())


@asynccontextmanager
async def open_processor(model: ModelSettings, config: PipelineConfig) -> AsyncIterator[PipelineProcessor]:
    """Open the processor that the settings name."""
    if not uses_model(model):
        if (missing := half_named(model)) is not None:
            logger.warning("rules decide, for %s", missing)
        from agents.rules.processor import RuleProcessor

        yield RuleProcessor(config)
        return
    from agents.llm.processor import LLMProcessor

    processor = LLMProcessor(model, config)
    try:
        yield processor
    finally:
        await processor.close()
