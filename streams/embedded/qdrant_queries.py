"""Qdrant's queries in JSON, translated to those of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import qdrant_edge as edge

from streams.embedded import qdrant_requests as requests
from streams.embedded.qdrant_filters import to_filter

_DEFAULT_LIMIT: Final = 10  # as Qdrant's own


class QueryRefused(ValueError):
    """A query that is malformed or not served; the message says which part."""


def to_query(request: requests.QueryPoints) -> edge.QueryRequest:
    """Translate a query.

    Raises:
        QueryRefused: for what is malformed or not served.
        FilterRefused: likewise, of a filter.
    """
    prefetch = [request.prefetch] if isinstance(request.prefetch, requests.Prefetch) else request.prefetch or []
    fusion = _fusion(request.query)
    if (fusion is not None) != bool(prefetch):
        raise QueryRefused("fusion needs a prefetch, and nothing else is done with one")
    return edge.QueryRequest(
        limit=request.limit or _DEFAULT_LIMIT,
        offset=request.offset,
        query=fusion or _nearest(request.query, request.using),
        prefetches=[_prefetch(each) for each in prefetch],
        filter=optional_filter(request.filter),
        score_threshold=request.score_threshold,
        params=_params(request.params),
        with_payload=payload_selector(request.with_payload, default=False),
        with_vector=request.with_vector or False,
    )


def optional_filter(condition: requests.Filter | None) -> edge.Filter | None:
    """Translate a filter, if there is one."""
    return None if condition is None else to_filter(condition)


def payload_selector(wanted: requests.WithPayload, *, default: bool) -> Any:
    """Translate which fields of the payload to return."""
    if wanted is None:
        return default
    if not isinstance(wanted, requests.PayloadSelector):
        return wanted
    if wanted.include is not None and wanted.exclude is None:
        return edge.PayloadSelector.Include(wanted.include)
    if wanted.exclude is not None and wanted.include is None:
        return edge.PayloadSelector.Exclude(wanted.exclude)
    raise QueryRefused("with_payload takes either include or exclude")


def to_vector(given: list[float] | requests.SparseVector) -> Any:
    """Translate a vector."""
    return edge.SparseVector(given.indices, given.values) if isinstance(given, requests.SparseVector) else given


def to_vectors(given: list[float] | Mapping[str, list[float] | requests.SparseVector]) -> Any:
    """Translate the vectors of a point."""
    return given if isinstance(given, list) else {name: to_vector(each) for name, each in given.items()}


def from_vectors(found: Any) -> Any:
    """Translate the vectors of a point that was read."""
    if not isinstance(found, dict):
        return found
    return {
        name: {"indices": each.indices, "values": each.values} if isinstance(each, edge.SparseVector) else each
        for name, each in found.items()
    }


def _prefetch(given: requests.Prefetch) -> edge.Prefetch:
    if _fusion(given.query) is not None:
        raise QueryRefused("a prefetch is nearest to a vector: fusion in a fusion is not served")
    return edge.Prefetch(
        limit=given.limit or _DEFAULT_LIMIT,
        query=_nearest(given.query, given.using),
        params=_params(given.params),
        filter=optional_filter(given.filter),
        score_threshold=given.score_threshold,
    )


def _nearest(query: requests.QueryBy, using: str | None) -> Any:
    vector = query.nearest if isinstance(query, requests.QueryForm) else query
    if vector is None:
        raise QueryRefused("a query is one of nearest, fusion, rrf")
    return edge.Query.Nearest(to_vector(vector), using=using)


def _fusion(query: requests.QueryBy) -> Any:
    if not isinstance(query, requests.QueryForm):
        return None
    if sum(part is not None for part in (query.nearest, query.fusion, query.rrf)) != 1:
        raise QueryRefused("a query is one of nearest, fusion, rrf")
    if query.rrf is not None:
        return edge.Fusion.Rrf(k=query.rrf.k, weights=query.rrf.weights)
    return edge.Fusion.Rrf(k=requests.Rrf().k) if query.fusion else None


def _params(given: requests.SearchParams | None) -> edge.SearchParams | None:
    if given is None or not isinstance(given.idf, requests.IdfCorpus):
        return None
    return edge.SearchParams(idf=edge.IdfParams(corpus=to_filter(given.idf.corpus)))
