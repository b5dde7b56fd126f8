"""A forgotten user in the vector index: no point is left of before, nobody else is touched, repeats end clean."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas.deltas import FactDetail, PreferenceDetail, ProfileDelta
from schemas.ids import fact_id, preference_id
from sinks.errors import SinkUnavailable
from sinks.vectors import VectorIndex
from tests.integration.qdrant_fixtures import faulty_qdrant
from tests.integration.vector_fixtures import CountingEmbedder, delta, index_at, life

pytest_plugins = ["tests.integration.vector_fixtures"]

CAT, SHORT = fact_id("flush", 1), preference_id("flush", 2)


def forget(version: int, **changes: Any) -> ProfileDelta:
    return delta("", "", None, version, kind="profile", op="forget", **changes)


def everything(first: int = 1, **changes: Any) -> list[ProfileDelta]:
    """A slot, a fact, a preference and a tag."""
    fact = FactDetail(confidence=0.9, importance=0.9)
    return [
        delta("interest", "sport", "tennis", first, **changes),
        delta("family", "", "User has a cat", first + 1, kind="fact", item_id=CAT, fact=fact, **changes),
        delta(
            "other", "", "Prefers short answers", first + 2, kind="preference", item_id=SHORT,
            preference=PreferenceDetail(strength=0.8), **changes,
        ),
        delta("tag", "tennis", "1", first + 3, kind="tag", **changes),
    ]  # fmt: skip


def own(tenant: str, user: str) -> list[ProfileDelta]:
    """Slots only: ids of facts are of a flush, which belongs to one user."""
    return life(tenant_id=tenant, user_id=user)


@pytest.mark.parametrize("user", ["ann", 'it\'s "ann"', "a:b\\", "\x01名\t", "'); --", "*"])
async def test_no_point_is_left_and_nobody_else_is_touched(index: VectorIndex, user: str) -> None:
    others = [("other", user), ("acme", f"{user}'"), ("acme", user.upper() + "2")]
    for tenant, name in others:
        await index.apply(own(tenant, name))
    await index.apply(everything(user_id=user))
    await index.apply([forget(5, user_id=user)])
    assert await index.count("acme", user) == 0
    assert [await index.count(*other) for other in others] == [6, 6, 6]
    assert await index.search("tennis", tenant_id="acme", user_id=user) == []


async def test_what_comes_after_it_follows_on(index: VectorIndex, point: Callable[..., Any]) -> None:
    await index.apply(everything())
    await index.apply([forget(5)])
    await index.apply([delta("interest", "sport", "golf", 6), *everything(7)[1:2]])
    assert (await point("interest", "sport")).payload["text"] == "golf"
    assert (await point(CAT)).payload["version"] == 8
    assert await index.count("acme", "ann") == 2


async def test_of_one_batch_only_what_comes_after_it_is_embedded(
    index: VectorIndex, embedder: CountingEmbedder, point: Callable[..., Any]
) -> None:
    batch = [
        *everything(),
        forget(5),
        delta("interest", "sport", "golf", 6),
        forget(7),
        delta("interest", "music", "jazz", 8),
        delta("interest", "music", "bach", 1, user_id="bob"),
        forget(2, user_id="eve"),
        delta("interest", "music", "fado", 3, user_id="eve"),
    ]
    chance = random.Random(1)
    for _ in range(3):
        await index.apply(batch)
        assert [await index.count("acme", user) for user in ("ann", "bob", "eve")] == [1, 1, 1]
        chance.shuffle(batch)
    assert (await point("interest", "music")).payload["text"] == "jazz"
    assert embedder.passages == ["interest music: jazz", "interest music: bach", "interest music: fado"]


@pytest.mark.parametrize("seed", range(5))
async def test_batches_that_are_read_again_end_clean(index: VectorIndex, point: Callable[..., Any], seed: int) -> None:
    """A worker dies and reads from further back, again and again, and cuts other batches each time."""
    chance = random.Random(seed)
    stream = [*everything(), *life()[2:], forget(9), *everything(10)[:2], *own("acme", "bob")]
    place = 0
    while place < len(stream):
        taken = stream[place : place + chance.randrange(1, 6)]
        await index.apply(taken)
        place = max(0, place + len(taken) - chance.choice([0, 0, 4, 12]))
    assert [await index.count("acme", user) for user in ("ann", "bob")] == [2, 6]
    assert (await point("interest", "sport")).payload["version"] == 10
    assert (await point(CAT)).payload["version"] == 11


@pytest.mark.parametrize("kind", ["status", "drop", "drop_after"])
@pytest.mark.parametrize("cut", ["/points/delete", "/points/batch"])
async def test_cut_short_anywhere_and_applied_again_it_ends_clean(
    tmp_path: Path, embedder: CountingEmbedder, cut: str, kind: str
) -> None:
    async with faulty_qdrant(tmp_path) as (url, faults), index_at(url, embedder) as index:
        await index.open()
        await index.apply(everything())
        faults.add(kind=kind, match=cut)
        after = [*everything()[1:], forget(5), delta("interest", "music", "jazz", 6)]
        with pytest.raises(SinkUnavailable):
            await index.apply(after)
        await index.apply(after)
        assert faults.pending == []
        assert await index.count() == 1
        (hit,) = await index.search("jazz", tenant_id="acme")
        assert hit.version == 6


async def test_many_users_are_forgotten_at_once(index: VectorIndex) -> None:
    await index.apply([each for number in range(60) for each in own("acme", f"it's {number}")])
    await index.apply([forget(1 + number % 8, user_id=f"it's {number}") for number in range(60)])
    left = [await index.count("acme", f"it's {number}") for number in range(8)]
    # Versions 1 to 6; one that the forget has as well is not before it.
    assert left == [6, 5, 4, 3, 2, 1, 0, 0]


async def test_an_overtaken_change_changes_nothing(
    index: VectorIndex, embedder: CountingEmbedder, point: Callable[..., Any]
) -> None:
    await index.apply(everything())
    before = [await point("interest", "sport"), await point(CAT)]
    detail = FactDetail(confidence=0.1, importance=0.1)
    late = {"op": "overtaken", "evidence": ("late",)}
    await index.apply(
        [
            delta("interest", "sport", "tennis", 5, added="golf", **late),
            delta("family", "", "User has a cat", 6, kind="fact", item_id=CAT, fact=detail, added="a dog", **late),
            delta("interest", "music", "jazz", 7),
        ]
    )
    assert [await point("interest", "sport"), await point(CAT)] == before
    assert await index.count() == 4
    assert len(embedder.passages) == 4
