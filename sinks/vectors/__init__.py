"""The vector index: points in Qdrant for what profiles hold, for what was talked about, and for users."""

from sinks.vectors.index import VectorIndex
from sinks.vectors.points import ALL_KINDS, PROFILE_KINDS, SEARCHED_KINDS, PointKind
from sinks.vectors.search import Retrieval, SimilarUser, VectorHit

__all__ = [
    "ALL_KINDS",
    "PROFILE_KINDS",
    "SEARCHED_KINDS",
    "PointKind",
    "Retrieval",
    "SimilarUser",
    "VectorHit",
    "VectorIndex",
]
