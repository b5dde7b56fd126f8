"""Facts and preferences in `VectorIndex`; what `test_vector_index` says of slots goes for them too, by their ids."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from schemas.deltas import FactDetail, PreferenceDetail, ProfileDelta
from schemas.ids import fact_id, preference_id
from sinks.embeddings import E5Embedder
from sinks.vectors import VectorHit, VectorIndex
from tests.integration.qdrant_fixtures import QdrantProcess
from tests.integration.vector_fixtures import LIFE, SAID_AT, CountingEmbedder, delta, index_at, life

pytest_plugins = ["tests.integration.vector_fixtures"]

PEANUTS, FLAT, SHORT = fact_id("flush", 0), fact_id("flush", 1), preference_id("flush", 0)


def fact(item_id: str, after: str | None, version: int = 1, category: str = "other", **changes: Any) -> ProfileDelta:
    detail = FactDetail(confidence=0.9, importance=0.9, session_id="s1")
    return delta(category, "", after, version, **{"kind": "fact", "item_id": item_id, "fact": detail} | changes)


def preference(
    item_id: str, after: str | None, version: int = 1, strength: float = 0.8, **changes: Any
) -> ProfileDelta:
    fields = {"kind": "preference", "item_id": item_id, "preference": PreferenceDetail(strength=strength)}
    return delta("communication_style", "", after, version, **fields | changes)


def items() -> list[ProfileDelta]:
    return [
        fact(PEANUTS, "用户对花生过敏", 1, "personal_info"),
        fact(FLAT, "User lives in a small flat in Hangzhou", 2, "location"),
        preference(SHORT, "偏好简短的回复", 3),
    ]


async def test_a_hit_tells_the_item(index: VectorIndex) -> None:
    await index.apply(items())
    (hit,) = await index.search("a small flat", tenant_id="acme")
    assert hit == VectorHit(
        user_id="ann",
        kind="fact",
        topic="location",
        sub_topic="",
        text="User lives in a small flat in Hangzhou",
        score=hit.score,
        version=2,
        said_at=SAID_AT + timedelta(hours=2),
        valid_from=SAID_AT + timedelta(hours=2),
        item_id=FLAT,
        evidence=("m2",),
    )


@pytest.mark.parametrize(
    ("query", "item_id"), [("food allergies", PEANUTS), ("住在哪里", FLAT), ("how long should answers be", SHORT)]
)
async def test_are_found_by_meaning_in_both_languages(
    service: QdrantProcess, e5: E5Embedder, query: str, item_id: str
) -> None:
    async with index_at(service.url, e5, collection="items") as index:
        await index.open()
        await index.apply(items())
        hits = await index.search(query, tenant_id="acme")
    assert hits[0].item_id == item_id


async def test_a_point_carries_the_item(index: VectorIndex, point: Callable[..., Any]) -> None:
    await index.apply(items())
    assert (await point(PEANUTS)).payload == {
        "tenant_id": "acme",
        "user_id": "ann",
        "kind": "fact",
        "topic": "personal_info",
        "sub_topic": "",
        "item_id": PEANUTS,
        "text": "用户对花生过敏",
        "version": 1,
        "evidence": ["m1"],
        "valid_from": "2024-05-01T11:00:00Z",
        "said_at": "2024-05-01T11:00:00Z",
        "recorded_at": "2024-05-02T10:00:00Z",
        "confidence": 0.9,
    }
    payload = (await point(SHORT)).payload
    assert (payload["kind"], payload["topic"], payload["strength"]) == ("preference", "communication_style", 0.8)
    assert "confidence" not in payload


async def test_what_is_embedded_is_the_text_without_its_subject(index: VectorIndex, embedder: CountingEmbedder) -> None:
    await index.apply(items())
    assert embedder.passages == ["对花生过敏", "lives in a small flat in Hangzhou", "偏好简短的回复"]


async def test_kinds_are_told_apart(index: VectorIndex) -> None:
    await index.apply(
        [
            delta("diet", "drink", "green tea", 1),
            fact(PEANUTS, "green tea", 2, "preference"),
            fact(FLAT, "green tea", 3, "habit"),
            preference(SHORT, "green tea", 4),
            fact(fact_id("flush", 9), "green tea", 5, user_id="bob"),
        ]
    )

    async def found(**where: Any) -> list[int]:
        return sorted(hit.version for hit in await index.search("green tea", tenant_id="acme", **where))

    assert await found() == [1, 2, 3, 4, 5]
    assert await found(kind="slot") == [1]
    assert await found(kind="fact") == [2, 3, 5]
    assert await found(kind="fact", user_id="ann") == [2, 3]
    assert await found(kind="fact", topic="habit") == [3]
    assert await found(kind="preference") == [4]
    assert await found(kind="tag") == []


async def test_tags_are_not_searched(index: VectorIndex) -> None:
    await index.apply([delta("tag", "coffee", "3", 1, kind="tag"), *items()])
    assert await index.count() == 3
    assert await index.search("coffee", tenant_id="acme") == []


@pytest.mark.parametrize("op", ["invalidate", "delete"])
async def test_what_no_longer_holds_is_gone(index: VectorIndex, point: Callable[..., Any], op: str) -> None:
    await index.apply(items())
    await index.apply([fact(PEANUTS, None, 4, op=op), preference(SHORT, None, 5, op="delete")])
    assert (await point(PEANUTS), await point(SHORT), await index.count()) == (None, None, 1)


async def test_said_again_is_not_embedded_again(
    index: VectorIndex, embedder: CountingEmbedder, point: Callable[..., Any]
) -> None:
    await index.apply(items())
    before = await point(SHORT)
    await index.apply([preference(SHORT, "偏好简短的回复", 4, 0.9, op="confirm")])
    after = await point(SHORT)
    assert after.vector == before.vector
    assert (after.payload["strength"], after.payload["version"]) == (0.9, 4)
    assert len(embedder.passages) == 3


async def test_a_replaced_text_is_embedded_under_the_same_id(
    index: VectorIndex, embedder: CountingEmbedder, point: Callable[..., Any]
) -> None:
    await index.apply(items())
    before = await point(FLAT)
    await index.apply([fact(FLAT, "User lives in a house", 4, "location", op="update")])
    after = await point(FLAT)
    assert (after.payload["text"], await index.count()) == ("User lives in a house", 3)
    assert after.vector != before.vector
    assert embedder.passages[3:] == ["lives in a house"]


@pytest.mark.parametrize("late", ["User lives in Berlin", None], ids=["text", "end"])
async def test_a_latecomer_never_replaces(
    index: VectorIndex, embedder: CountingEmbedder, point: Callable[..., Any], late: str | None
) -> None:
    await index.apply([fact(FLAT, "User lives in a house", 4)])
    before = await point(FLAT)
    await index.apply([fact(FLAT, late, 2)])
    await index.apply([fact(FLAT, late, 3), fact(FLAT, "User lives in a house", 4)])
    assert await point(FLAT) == before
    assert len(embedder.passages) == 1


async def test_the_newest_of_a_batch_wins_whatever_its_place(
    index: VectorIndex, embedder: CountingEmbedder, point: Callable[..., Any]
) -> None:
    await index.apply(
        [
            fact(FLAT, "User lives in a house", 6),
            fact(FLAT, "User lives in a flat", 2),
            fact(PEANUTS, None, 5, op="invalidate"),
            fact(PEANUTS, "用户对花生过敏", 1),
        ]
    )
    assert (await point(FLAT)).payload["text"] == "User lives in a house"
    assert await point(PEANUTS) is None
    assert embedder.passages == ["lives in a house"]


async def test_a_user_is_forgotten_with_them(index: VectorIndex) -> None:
    await index.apply([*items(), fact(fact_id("flush", 9), "User has a cat", user_id="bob"), *life()])
    assert await index.delete_user("acme", "ann") == len(LIFE) + 3 + 1  # one is the user's own
    assert [await index.count("acme", who) for who in ("ann", "bob")] == [0, 1]
