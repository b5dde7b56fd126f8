"""The embedded Qdrant: what its filters mean, and what it refuses."""

from __future__ import annotations

from uuid import uuid4

import httpx
import pytest
from qdrant_client import AsyncQdrantClient, models

from tests.integration.embedded_qdrant_fixtures import A, B, C, field
from tests.integration.qdrant_fixtures import QdrantProcess

pytest_plugins = ["tests.integration.embedded_qdrant_fixtures"]

FILTERS = {
    "match text": (field("who", match=models.MatchValue(value="安")), [C]),
    "match integer": (field("n", match=models.MatchValue(value=2)), [B]),
    "match element of a list": (field("tags", match=models.MatchValue(value="y")), [A]),
    "any": (field("who", match=models.MatchAny(any=["ann", "安"])), [A, C]),
    "any of nothing": (field("who", match=models.MatchAny(any=[])), []),
    "except": (field("who", match=models.MatchExcept(**{"except": ["ann"]})), [B, C]),
    "range": (field("n", range=models.Range(gt=1, lte=2)), [B]),
    "date range": (field("at", range=models.DatetimeRange(gte="2024-05-01T00:00:00Z")), [B]),
    "is empty": (models.Filter(must=[models.IsEmptyCondition(is_empty=models.PayloadField(key="gone"))]), [A, B, C]),
    "is not empty": (
        models.Filter(must_not=[models.IsEmptyCondition(is_empty=models.PayloadField(key="tags"))]),
        [A],
    ),
    "has id": (models.Filter(must=[models.HasIdCondition(has_id=[A, C, str(uuid4())])]), [A, C]),
    "nested object": (
        models.Filter(
            must=[
                models.NestedCondition(
                    nested=models.Nested(key="deep", filter=field("b", match=models.MatchValue(value=2)))
                )
            ]
        ),
        [A],
    ),
    "one condition without a list": (
        models.Filter(must=models.FieldCondition(key="n", match=models.MatchValue(value=1))),
        [A],
    ),
    "must, should and must not": (
        models.Filter(
            must=[models.FieldCondition(key="n", range=models.Range(gte=1))],
            should=[
                models.FieldCondition(key="who", match=models.MatchValue(value="ann")),
                models.FieldCondition(key="who", match=models.MatchValue(value="bob")),
            ],
            must_not=[models.FieldCondition(key="tags", match=models.MatchValue(value="x"))],
        ),
        [B],
    ),
    "filter in a filter": (
        models.Filter(
            should=[
                field("n", match=models.MatchValue(value=3)),
                models.Filter(must_not=[field("n", range=models.Range(gt=1))]),
            ]
        ),
        [A, C],
    ),
    "clauses without conditions": (models.Filter(must=[], should=[]), [A, B, C]),
}


@pytest.mark.parametrize(("condition", "expected"), FILTERS.values(), ids=FILTERS)
async def test_filters_mean_the_same_everywhere(
    client: AsyncQdrantClient, collection: str, condition: models.Filter, expected: list[str]
) -> None:
    assert (await client.count(collection, count_filter=condition)).count == len(expected)
    scrolled, _ = await client.scroll(collection, scroll_filter=condition)
    assert [point.id for point in scrolled] == expected
    found = await client.query_points(collection, [1.0, 0.0], query_filter=condition)
    assert sorted(point.id for point in found.points) == expected


REFUSED = {
    "unknown path": ("POST", "/points/search", {"vector": [1, 0], "limit": 1}, 501),
    "unknown method": ("PATCH", "", {}, 501),
    "unknown option": ("POST", "/points/query", {"query": [1, 0], "lookup_from": {}}, 400),
    "fusion of nothing": ("POST", "/points/query", {"query": {"fusion": "rrf"}, "prefetch": []}, 400),
    "nearest of a prefetch": ("POST", "/points/query", {"query": [1, 0], "prefetch": [{"query": [1, 0]}]}, 400),
    "fusion in a fusion": (
        "POST",
        "/points/query",
        {"query": {"fusion": "rrf"}, "prefetch": [{"query": {"fusion": "rrf"}}]},
        400,
    ),
    "query of two kinds": ("POST", "/points/query", {"query": {"nearest": [1, 0], "fusion": "rrf"}}, 400),
    "query of no kind": ("POST", "/points/query", {"query": {}}, 400),
    "query with a vector it has not": ("POST", "/points/query", {"query": [1, 0], "using": "other"}, 400),
    "query without a vector": ("POST", "/points/query", {"limit": 1}, 400),
    "query by a point": ("POST", "/points/query", {"query": A}, 400),
    "recommendation": ("POST", "/points/query", {"query": {"recommend": {"positive": [A]}}}, 400),
    "order": ("POST", "/points/scroll", {"order_by": "n"}, 400),
    "named vector": ("PUT", "/points", {"points": [{"id": 1, "vector": {"a": [1, 0]}}]}, 400),
    "vector of another size": ("PUT", "/points", {"points": [{"id": 1, "vector": [1, 0, 0]}]}, 400),
    "query of another size": ("POST", "/points/query", {"query": [1.0]}, 400),
    "id that is no UUID": ("PUT", "/points", {"points": [{"id": "x", "vector": [1, 0]}]}, 400),
    "negative id": ("POST", "/points", {"ids": [-1]}, 400),
    "limit of zero": ("POST", "/points/scroll", {"limit": 0}, 400),
    "deletion of nothing in particular": ("POST", "/points/delete", {}, 400),
    "deletion by id and filter": ("POST", "/points/delete", {"points": [A], "filter": {}}, 400),
    "batch step of no kind": ("POST", "/points/batch", {"operations": [{}]}, 400),
    "batch step of two kinds": (
        "POST",
        "/points/batch",
        {"operations": [{"upsert": {"points": []}, "delete": {"points": [A]}}]},
        400,
    ),
    "tenant index of another type": (
        "PUT",
        "/index",
        {"field_name": "n", "field_schema": {"type": "integer", "is_tenant": True}},
        400,
    ),
    "full text index": ("PUT", "/index", {"field_name": "n", "field_schema": "text"}, 400),
}


@pytest.mark.parametrize(("method", "path", "body", "status"), REFUSED.values(), ids=REFUSED)
async def test_what_is_not_served_is_refused(
    service: QdrantProcess, collection: str, method: str, path: str, body: object, status: int
) -> None:
    async with httpx.AsyncClient() as http:
        answer = await http.request(method, f"{service.url}/collections/{collection}{path}", json=body)
        counted = await http.post(f"{service.url}/collections/{collection}/points/count", json={})
    assert answer.status_code == status, answer.text
    assert answer.json()["status"]["error"]
    assert counted.json()["result"] == {"count": 3}


REFUSED_CONDITIONS = {
    "full text": {"key": "who", "match": {"text": "a"}},
    "match of a fraction": {"key": "n", "match": {"value": 0.5}},
    "match of a boolean": {"key": "ok", "match": {"value": True}},
    "match of two kinds": {"key": "n", "match": {"value": 1, "any": [1]}},
    "any of mixed types": {"key": "n", "match": {"any": [1, "a"]}},
    "match and range": {"key": "n", "match": {"value": 1}, "range": {"gt": 0}},
    "range of mixed types": {"key": "n", "range": {"gt": 1, "lt": "2024-05-01T00:00:00Z"}},
    "range of an unknown bound": {"key": "n", "range": {"ge": 1}},
    "geography": {"key": "n", "geo_radius": {}},
    "id that is no UUID": {"has_id": ["x"]},
    "malformed key": {"key": "a[", "match": {"value": 1}},
    "nothing": {},
    "no object": 1,
    "unknown clause": {"min_should": {"conditions": [], "min_count": 1}},
}


@pytest.mark.parametrize("condition", REFUSED_CONDITIONS.values(), ids=REFUSED_CONDITIONS)
async def test_a_condition_that_is_not_served_is_refused(
    service: QdrantProcess, collection: str, condition: object
) -> None:
    async with httpx.AsyncClient() as http:
        answer = await http.post(
            f"{service.url}/collections/{collection}/points/count", json={"filter": {"must": [condition]}}
        )
    assert answer.status_code == 400, answer.text
    assert answer.json()["status"]["error"].startswith("Wrong input: ")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"points": [{"id": 1, "vector": [NaN, 0]}]}', b"\xff", b"[" * 100_000]
)
async def test_a_body_that_is_not_the_json_expected_is_refused(
    service: QdrantProcess, collection: str, body: bytes
) -> None:
    async with httpx.AsyncClient() as http:
        answer = await http.put(f"{service.url}/collections/{collection}/points", content=body)
    assert answer.status_code == 400
    assert "JSON" in answer.json()["status"]["error"]
