"""The client of Qdrant, imported in half the time.

Its package builds a validator for each of over 300 models as it is imported, most of a second of the processor, which
every worker and every command that searches would wait for. Here each model is built when it is used first, as
pydantic does by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from pydantic import BaseModel

MODELS: Final = "qdrant_client.http.models.models"
"""The module of the models; pydantic's other classes are left alone."""


@contextmanager
def _built_when_used() -> Iterator[None]:
    known: Any = BaseModel.__dict__["model_rebuild"]

    def unless_qdrants(cls: type[BaseModel], /, **options: Any) -> bool | None:
        return None if cls.__module__ == MODELS else known.__get__(None, cls)(**options)

    base: Any = BaseModel
    base.model_rebuild = classmethod(unless_qdrants)
    try:
        yield
    finally:
        base.model_rebuild = known


with _built_when_used():
    from qdrant_client import AsyncQdrantClient, models
    from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

__all__ = [
    "AsyncQdrantClient",
    "QdrantException",
    "ResourceExhaustedResponse",
    "ResponseHandlingException",
    "UnexpectedResponse",
    "models",
]
