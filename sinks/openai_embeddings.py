"""Embeddings from any server with OpenAI's interface."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from typing import Any, Final

import openai

from sinks.embeddings import Vector, clean
from sinks.errors import EmbedderUnavailable, SinkRejected

_BATCH: Final = 256  # texts a request; OpenAI accepts 2,048, smaller servers fewer
_TOO_BUSY: Final = frozenset({408, 409, 425, 429})


class OpenAIEmbedder:
    """Any server with OpenAI's ``/embeddings``; one request for each batch, never repeated here."""

    def __init__(
        self,
        *,
        model: str,
        dimension: int,
        api_key: str,
        base_url: str,
        timeout: float = 30.0,
        similarity_floor: float = 0.2,
        same_matter: float = 0.5,
    ) -> None:
        """Prepare a client; nothing is sent yet.

        Args:
            model: the model's name at the server.
            dimension: numbers that it gives for a text; checked.
            api_key: sent as a bearer token; servers without one accept anything.
            base_url: up to and including ``/v1``.
            timeout: seconds a request may take.
            similarity_floor: depends on the model; the default suits OpenAI's ``text-embedding-3`` family.
            same_matter: likewise.
        """
        self.name = re.sub(r"[^A-Za-z0-9._-]+", "-", model)
        self.dimension = dimension
        self.similarity_floor = similarity_floor
        self.same_matter = same_matter
        self._model = model
        self._url = base_url
        self._client = openai.AsyncOpenAI(api_key=api_key or "none", base_url=base_url, timeout=timeout, max_retries=0)

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts that will be searched, in their order."""
        vectors: list[Vector] = []
        for start in range(0, len(texts), _BATCH):
            vectors += await self._request(texts[start : start + _BATCH])
        return vectors

    async def embed_query(self, text: str) -> Vector:
        """Embed a text to search with."""
        return (await self._request([text]))[0]

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _request(self, texts: Sequence[str]) -> list[Vector]:
        inputs = [clean(text) or " " for text in texts]
        server = f"the embedding server at {self._url}"
        try:
            answer = await self._client.embeddings.create(
                model=self._model,
                input=inputs,
                encoding_format="float",  # the SDK's default, base64, is unknown to many compatible servers
            )
        except openai.APIConnectionError as error:
            raise EmbedderUnavailable(
                f"{server} does not answer ({_cause(error)}): is it running, and is embedding.base_url right?"
            ) from error
        except openai.APIStatusError as error:
            told = f"{server} answered {error.status_code} ({_shortened(error.message)})"
            if error.status_code in _TOO_BUSY or error.status_code >= 500:
                raise EmbedderUnavailable(f"{told}: it is asked again", _retry_after(error)) from error
            raise SinkRejected(f"{told}: check embedding.api_key, .base_url and .model") from error
        except (openai.OpenAIError, ValueError) as error:  # ValueError: the SDK's word for an answer without data
            raise SinkRejected(f"{server} gave no embeddings ({_shortened(str(error))})") from error
        return await asyncio.to_thread(self._checked, answer, len(texts), server)

    def _checked(self, answer: Any, expected: int, server: str) -> list[Vector]:
        try:
            items = sorted(answer.data, key=lambda item: item.index)
            vectors = [[float(number) for number in item.embedding] for item in items]
        except (AttributeError, TypeError, ValueError) as error:
            raise SinkRejected(f"{server} gave an answer without embeddings: check embedding.base_url") from error
        if [item.index for item in items] != list(range(expected)):
            raise SinkRejected(f"{server} gave {len(items)} embeddings for {expected} texts: check embedding.model")
        for vector in vectors:
            if len(vector) != self.dimension:
                raise SinkRejected(
                    f"model {self._model} at {self._url} gives {len(vector)} numbers for a text, not"
                    f" {self.dimension}: set embedding.dimension to {len(vector)}"
                )
        lengths = [math.hypot(*vector) for vector in vectors]
        if not all(math.isfinite(length) and length > 0 for length in lengths):
            raise SinkRejected(f"{server} gave an embedding that has no direction: check embedding.model")
        return [[number / length for number in vector] for vector, length in zip(vectors, lengths, strict=True)]


def _retry_after(error: openai.APIStatusError) -> float | None:
    try:
        return max(0.0, float(error.response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None


def _cause(error: openai.APIConnectionError) -> str:
    if isinstance(error, openai.APITimeoutError):
        return "timeout"
    return _shortened(str(error.__cause__ or error))


def _shortened(text: str, limit: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
