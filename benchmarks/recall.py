"""How much of what is looked for a search finds: ``python -m benchmarks.recall [--json]``.

``benchmarks/labelled/recall_*.jsonl`` hold, for each language, what ten users said of themselves, and questions, each
with the items that answer it. Beside every answer stand items that share its words and mean something else, or mean
something near and are not it. All of it is written through the vector index, with the model that the package carries,
into the embedded Qdrant; each language is a tenant.

Some questions ask for a meaning ("has trouble sleeping"), some for a name or number as it is written ("KL1023").
Recall@10 is the share of answers among a question's first ten hits; "first" the share of questions whose first hit is
an answer. Searched is by meaning (dense), by words (sparse, BM25), and by both, fused by rank with weights that were
chosen on these questions. The last line is the engine's own way of cutting texts into words, in place of
`sinks.sparse`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

from schemas.deltas import FactDetail, FlushEvent, PreferenceDetail, ProfileDelta, Timings
from schemas.flushes import FlushRef
from schemas.ids import delta_id, derive, event_id
from schemas.stages import MemoBullet
from sinks.embeddings import E5Embedder
from sinks.vectors import PointKind, Retrieval, VectorIndex
from streams.embedded.child import Child

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

Language = Literal["en", "zh"]
AsksFor = Literal["meaning", "name"]
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)

HITS: Final = 10
"""Hits of a question that count."""

_SAID_AT: Final = datetime(2025, 1, 1, tzinfo=UTC)

Find = Callable[[str], Awaitable[Sequence[int]]]
"""Gives the numbers of the items that a question finds, best first."""


class Item(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that a user has said."""

    item: int
    user: str
    kind: PointKind
    text: str
    topic: str = ""
    sub_topic: str = ""


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question and the numbers of the items that answer it."""

    query: str
    asks_for: AsksFor
    answers: tuple[int, ...]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """How well one way of searching does with some questions; `median_ms` is the time that one takes."""

    recall: float
    first: float
    median_ms: float


def labelled(language: Language) -> tuple[list[Item], list[Question]]:
    """Return the items and questions of a language."""
    lines = resources.files("benchmarks").joinpath("labelled", f"recall_{language}.jsonl").read_bytes().splitlines()
    items = [msgspec.json.decode(line, type=Item) for line in lines if line.startswith(b'{"item"')]
    questions = [msgspec.json.decode(line, type=Question) for line in lines if line.startswith(b'{"query"')]
    return items, questions


async def figures(questions: Sequence[Question], find: Find) -> Figures:
    """Ask every question and count the answers among its first `HITS` hits."""
    found, firsts, times = 0, 0, []
    for question in questions:
        started = time.perf_counter()
        hits = list(await find(question.query))[:HITS]
        times.append(time.perf_counter() - started)
        found += len(set(question.answers) & set(hits))
        firsts += bool(hits) and hits[0] in question.answers
    return Figures(
        recall=found / sum(len(question.answers) for question in questions),
        first=firsts / len(questions),
        median_ms=1000 * statistics.median(times),
    )


async def measure() -> dict[str, dict[str, Figures]]:
    """Return the figures of every way of searching, by kind of question: ``en, meaning``; ``en``, all of a language."""
    measured: dict[str, dict[str, Figures]] = {}
    async with _index() as index:
        for language in LANGUAGES:
            items, questions = labelled(language)
            await index.apply([_delta(language, item) for item in items if item.kind != "gist"])
            await index.apply_events([_event(language, item) for item in items if item.kind == "gist"])
            ways: dict[str, Find] = {way: _finder(index, language, items, way) for way in get_args(Retrieval)}
            await ways["both"](questions[0].query)  # loads the model
            with _engines_own(items) as engines_own:
                for way, find in {**ways, "sparse, engine's words": engines_own}.items():
                    parts = measured.setdefault(way, {})
                    for part in get_args(AsksFor):
                        asked = [question for question in questions if question.asks_for == part]
                        parts[f"{language}, {part}"] = await figures(asked, find)
                    parts[language] = await figures(questions, find)
    return measured


@asynccontextmanager
async def _index() -> AsyncIterator[VectorIndex]:
    with tempfile.TemporaryDirectory() as folder:
        service = Child("qdrant", Path(folder) / "logs")
        path = ("--path", str(Path(folder) / "qdrant"), "--port", "0", "--die-with-parent", str(os.getpid()))
        answer = await service.start([sys.executable, "-m", "streams.embedded.qdrant", *path])
        embedder = E5Embedder()
        index = VectorIndex(url=f"http://127.0.0.1:{answer['port']}", embedder=embedder)
        try:
            await index.open()
            yield index
        finally:
            await index.close()
            await embedder.close()
            await service.stop()


def _finder(index: VectorIndex, language: Language, items: Sequence[Item], retrieval: Retrieval) -> Find:
    numbers: dict[tuple[str, str, str, str], int] = {
        (item.kind, item.topic, item.sub_topic, item.text): item.item for item in items
    }

    async def find(query: str) -> list[int]:
        hits = await index.search(query, tenant_id=language, limit=HITS, retrieval=retrieval)
        return [numbers[hit.kind, "" if hit.kind != "slot" else hit.topic, hit.sub_topic, hit.text] for hit in hits]

    return find


@contextmanager
def _engines_own(items: Sequence[Item]) -> Iterator[Find]:
    """Search by words as Qdrant Edge cuts them, in a shard without anything else."""
    import qdrant_edge as edge

    words = edge.Bm25(edge.Bm25Config(tokenizer=edge.TokenizerType.Multilingual, avg_len=12.0))
    sparse = {"words": edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)}
    texts = {item.item: f"{item.topic} {item.sub_topic} {item.text}".replace("_", " ") for item in items}
    points = [edge.Point(number, {"words": words.embed_document(text)}) for number, text in texts.items()]
    with tempfile.TemporaryDirectory() as folder:
        shard = edge.EdgeShard.create(folder, edge.EdgeConfig(sparse_vectors=sparse))
        shard.update(edge.UpdateOperation.upsert_points(points))

        async def find(query: str) -> list[int]:
            nearest = edge.Query.Nearest(words.embed_query(query), using="words")
            return [int(point.id) for point in shard.query(edge.QueryRequest(limit=HITS, query=nearest))]

        yield find
        shard.close()


def _delta(language: Language, item: Item) -> ProfileDelta:
    flush = derive("flush", language, item.item)
    return ProfileDelta(
        delta_id=delta_id(flush, 0),
        tenant_id=language,
        user_id=item.user,
        version=item.item,
        flush_id=flush,
        index=0,
        op="add",
        kind=item.kind,  # type: ignore[arg-type]  # gists are written otherwise
        topic=item.topic or "other",
        sub_topic=item.sub_topic,
        item_id="" if item.kind == "slot" else derive(item.kind, flush),
        before=None,
        after=item.text,
        added=item.text,
        reason="said so",
        evidence=("m1",),
        update_hits=1,
        said_at=_SAID_AT,
        recorded_at=_SAID_AT,
        processor="labelled",
        pipeline_version="1",
        fact=FactDetail(confidence=1.0, importance=1.0) if item.kind == "fact" else None,
        preference=PreferenceDetail(strength=0.8) if item.kind == "preference" else None,
    )


def _event(language: Language, item: Item) -> FlushEvent:
    flush = FlushRef(
        flush_id=derive("flush", language, item.item),
        tenant_id=language,
        user_id=item.user,
        lane="memo",
        log_id="labelled",
        partition=0,
        first_offset=item.item,
        last_offset=item.item,
        trigger="idle",
        opened_at=_SAID_AT,
        closed_at=_SAID_AT,
        first_occurred_at=_SAID_AT,
        last_occurred_at=_SAID_AT,
        message_count=1,
        token_count=1,
    )
    return FlushEvent(
        event_id=event_id(flush.flush_id),
        flush=flush,
        outcome="applied",
        memo=(MemoBullet(text=item.text, evidence=("m1",)),),
        tags=(),
        messages=(),
        delta_ids=(),
        first_version=None,
        last_version=None,
        calls=(),
        dropped=(),
        errors={},
        timings=Timings(),
        recorded_at=_SAID_AT,
        processor="labelled",
        pipeline_version="1",
    )


def _print(measured: dict[str, dict[str, Figures]]) -> None:
    parts = list(measured["both"])
    print(f"{'recall@10 / first':<24}" + "".join(f"{part:>16}" for part in parts) + f"{'ms':>8}")
    for way, by_part in measured.items():
        cells = (f"{f'{by_part[part].recall:.3f} / {by_part[part].first:.3f}':>16}" for part in parts)
        print(f"{way:<24}" + "".join(cells) + f"{max(figures.median_ms for figures in by_part.values()):>8.1f}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall", description=main.__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    as_json = parser.parse_args(arguments).json
    measured = asyncio.run(measure())
    if as_json:
        print(json.dumps(msgspec.to_builtins(measured), indent=2))
    else:
        _print(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
