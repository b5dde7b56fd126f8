"""`LLMProcessor`: the stages judged by a language model behind an OpenAI-compatible server."""

from agents.llm.client import ModelClient
from agents.llm.processor import LLMProcessor

__all__ = ["LLMProcessor", "ModelClient"]
