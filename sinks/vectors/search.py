"""What is asked of a collection: nearest in meaning, sharing words, or both fused; and how an answer is read."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from schemas.messages import AwareDatetime
from sinks.sparse import SparseVector
from sinks.vectors.layout import DENSE, SPARSE, where
from sinks.vectors.qdrant import models

Retrieval = Literal["both", "dense", "sparse"]
"""By meaning and by words, by meaning alone, or by words alone."""

_FUSION: Final = models.Rrf(k=2, weights=[1.0, 0.3])
"""Of meaning and words: see `benchmarks.recall`. Words with more weight put what only sounds alike before what fits."""

_MIN_CANDIDATES: Final = 50


class VectorHit(msgspec.Struct, frozen=True, kw_only=True):
    """A slot, fact, preference or gist that a search found.

    Attributes:
        kind: ``slot``, ``fact``, ``preference``, or ``gist``: a line of what was talked about.
        topic: of a fact or preference: its category; empty for a gist.
        sub_topic: empty but for a slot.
        text: the slot's value, or the fact, preference or gist itself.
        score: cosine similarity to the query, at most 1; comparable only within one embedder. Hits are not in its
            order: one that shares the query's words can stand before one that is nearer in meaning.
        version: the profile's version that set the text; of a gist, the one that its conversation led to, or 0.
        said_at: when the newest message behind the text was written.
        item_id: id of the fact, preference or gist; empty for a slot.
        valid_from: since when it holds, in messages' time; of a gist: when the first message behind it was written.
        evidence: ids of the messages behind it.
        tags: of a gist: event tags, as ``tag=value``.
    """

    user_id: str
    kind: str
    topic: str
    sub_topic: str
    text: str
    score: float
    version: int
    said_at: AwareDatetime
    valid_from: AwareDatetime
    item_id: str = ""
    evidence: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


class SimilarUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user whose profile is like another's.

    Attributes:
        score: cosine similarity of what is known of the two, at most 1; comparable only within one embedder.
    """

    user_id: str
    score: float


def question(
    dense: list[float],
    sparse: SparseVector,
    *,
    tenant_id: str,
    condition: models.Filter,
    floor: float,
    limit: int,
    retrieval: Retrieval,
) -> dict[str, Any] | None:
    """Return the arguments of `query_points` for a search, or None when nothing can be found.

    Both ways of searching give their best candidates, at least `_MIN_CANDIDATES`, and the server fuses the two by their
    ranks. How rare a word is, is counted in the tenant's own points: neither points nor statistics of others matter.
    """
    ways: list[models.Prefetch] = []
    candidates = max(limit, _MIN_CANDIDATES)
    if retrieval != "sparse":
        ways.append(
            models.Prefetch(query=dense, using=DENSE, filter=condition, score_threshold=floor, limit=candidates)
        )
    if retrieval != "dense" and sparse.indices:
        rarity = models.SearchParams(idf=models.IdfCorpusParams(corpus=where(tenant_id=tenant_id)))
        words = models.NearestQuery(nearest=models.SparseVector(indices=sparse.indices, values=sparse.values))
        ways.append(models.Prefetch(query=words, using=SPARSE, filter=condition, params=rarity, limit=candidates))
    if not ways:
        return None
    fusion = _FUSION if len(ways) == 2 else models.Rrf()
    return {"prefetch": ways, "query": models.RrfQuery(rrf=fusion), "limit": limit}
