"""`Nearest`: known statements by meaning, by spelling while the embedder is away."""

from __future__ import annotations

import math

import pytest

from agents.nearest import Near, Nearest
from schemas.facts import without_subject
from streams.errors import DependencyDown
from tests.support.fact_lane import Meanings
from tests.support.fakes import ManualClock

OSLO, BERGEN, CAT = "User lives in Oslo", "User lives in Bergen", "User has a cat"


class Embedder:
    """Embeds by meaning, unless it is told to fail."""

    def __init__(self, *groups: dict[str, float]) -> None:
        self.meanings = Meanings(*groups)
        self.failures: list[Exception] = []
        self.requests: list[list[str]] = []

    async def __call__(self, texts) -> list[list[float]]:
        self.requests.append(list(texts))
        if self.failures:
            raise self.failures.pop(0)
        return await self.meanings(texts)


async def test_the_nearest_come_first_from_the_floor_on_and_up_to_the_limit() -> None:
    new = "User's home is Oslo"
    embedder = Embedder({new: 1.0, OSLO: 0.95, BERGEN: 0.75, "User is in Norway": 0.74, "User likes Oslo": 0.8})
    known = [CAT, BERGEN, "User is in Norway", OSLO, "User likes Oslo"]
    nearest = Nearest(embedder)
    found = await nearest.find(new, known, limit=3, floor=0.75)
    assert [near.place for near in found] == [3, 4, 1]
    assert [near.similarity for near in found] == pytest.approx([0.95, 0.8, 0.75])
    assert [near.place for near in await nearest.find(new, known, limit=1, floor=0.0)] == [3]
    assert await nearest.find(new, known, limit=3, floor=0.96) == []
    assert embedder.requests[0] == [without_subject(each) for each in (new, *known)]
    assert nearest.by_spelling == 0


async def test_of_equally_near_ones_the_first_known_comes_first() -> None:
    nearest = Nearest(Embedder({"new": 1.0, OSLO: 0.9, BERGEN: 0.9}))
    assert [near.place for near in await nearest.find("new", [BERGEN, OSLO], limit=3, floor=0.5)] == [0, 1]


async def test_where_nothing_is_known_nothing_is_embedded() -> None:
    embedder = Embedder()
    assert await Nearest(embedder).find(OSLO, [], limit=3, floor=0.0) == []
    assert embedder.requests == []


async def test_a_similarity_that_is_no_number_is_not_near() -> None:
    async def broken(texts) -> list[list[float]]:
        return [[math.nan] for _ in texts]

    assert await Nearest(broken).find(OSLO, [OSLO], limit=3, floor=0.0) == []


async def test_an_embedder_that_fails_is_left_alone_for_a_while_and_then_asked_again() -> None:
    clock = ManualClock()
    embedder = Embedder({OSLO: 1.0, CAT: 0.9})
    embedder.failures = [DependencyDown("down"), DependencyDown("still down")]
    nearest = Nearest(embedder, monotonic=clock.monotonic)
    by_spelling = [Near(0, 1.0)]

    assert await nearest.find(OSLO, [OSLO.upper() + "."], limit=3, floor=0.75) == by_spelling
    clock.advance(29.9)
    assert await nearest.find(OSLO, [OSLO, CAT], limit=3, floor=0.75) == by_spelling
    assert (len(embedder.requests), nearest.by_spelling) == (1, 2)

    clock.advance(0.1)
    assert await nearest.find(OSLO, [OSLO, CAT], limit=3, floor=0.75) == by_spelling
    assert (len(embedder.requests), nearest.by_spelling) == (2, 3)

    clock.advance(30)
    assert [near.place for near in await nearest.find(OSLO, [CAT], limit=3, floor=0.75)] == [0]
    assert (len(embedder.requests), nearest.by_spelling) == (3, 3)
    await nearest.find(OSLO, [CAT], limit=3, floor=0.75)
    assert len(embedder.requests) == 4


async def test_by_spelling_too_the_nearest_come_first() -> None:
    embedder = Embedder()
    embedder.failures = [DependencyDown("down")]
    found = await Nearest(embedder).find(
        "用户住在杭州市", ["用户住在杭州", "用户住在广州", "用户养猫"], limit=3, floor=0.5
    )
    assert [near.place for near in found] == [0, 1]


async def test_any_other_failure_is_not_hidden() -> None:
    embedder = Embedder()
    embedder.failures = [ValueError("a bug")]
    with pytest.raises(ValueError, match="a bug"):
        await Nearest(embedder).find(OSLO, [CAT], limit=3, floor=0.5)


@pytest.mark.parametrize(
    ("cosine", "similarity"), [(0.0, 0.0), (0.2, 0.375), (0.4, 0.75), (0.7, 0.875), (1.0, 1.0), (-0.4, -0.75)]
)
async def test_similarities_are_on_one_scale_whatever_the_embedders_numbers_are(
    cosine: float, similarity: float
) -> None:
    async def embed(texts) -> list[list[float]]:
        return [[1.0, 0.0], [cosine, (1 - cosine * cosine) ** 0.5]]

    (near,) = await Nearest(embed, same_matter=0.4).find("a", ["b"], limit=1, floor=-1.0)
    assert near.similarity == pytest.approx(similarity)
