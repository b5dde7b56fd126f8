"""Gists and users in `VectorIndex`: what was talked about, and who is like whom."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from qdrant_client import AsyncQdrantClient, models

from schemas.deltas import FlushEvent, Timings
from schemas.ids import event_id, flush_id
from schemas.stages import EventTag, MemoBullet, MessageRef
from sinks.vectors import ALL_KINDS, VectorIndex, user_points
from sinks.vectors.points import gist_id, mean, user_point_id
from sinks.vectors.user_points import POINTS_OF_A_USER, USERS_AT_ONCE
from streams.errors import DependencyDown
from tests.integration.qdrant_fixtures import QdrantProcess
from tests.integration.test_vector_forget import everything, forget
from tests.integration.vector_fixtures import SAID_AT, CountingEmbedder, delta, life
from tests.support.records import flush_ref

pytest_plugins = ["tests.integration.vector_fixtures"]


def event(offset: int = 0, *texts: str, user_id: str = "ann", tenant_id: str = "acme", **changes: Any) -> FlushEvent:
    """The end of a flush whose memo has these bullets, each citing one message."""
    messages = tuple(
        MessageRef(message_id=f"m{number}", role="user", occurred_at=SAID_AT + timedelta(hours=offset, minutes=number))
        for number in range(len(texts))
    )
    ref = flush_ref(
        offset,
        offset,
        tenant_id=tenant_id,
        user_id=user_id,
        flush_id=flush_id("log", tenant_id, user_id, "memo", 0, offset, offset),
    )
    fields: dict[str, Any] = {
        "event_id": event_id(ref.flush_id),
        "flush": ref,
        "outcome": "applied",
        "memo": tuple(MemoBullet(text=text, evidence=(f"m{number}",)) for number, text in enumerate(texts)),
        "tags": (),
        "messages": messages,
        "delta_ids": (),
        "first_version": None,
        "last_version": None,
        "calls": (),
        "dropped": (),
        "errors": {},
        "timings": Timings(),
        "recorded_at": SAID_AT + timedelta(days=1, hours=offset),
        "processor": "rules",
        "pipeline_version": "p1",
    }
    return FlushEvent(**fields | changes)


async def counts(index: VectorIndex, tenant_id: str = "acme", user_id: str = "ann") -> dict[str, int]:
    found = {kind: await index.count(tenant_id, user_id, kinds=[kind]) for kind in ALL_KINDS}
    return {kind: count for kind, count in found.items() if count}


class TestGists:
    async def test_each_bullet_is_found(self, index: VectorIndex) -> None:
        tags = (EventTag(tag="mood", value="glad"),)
        await index.apply_events([event(3, "booked a trip to Lisbon", "her dog is ill", tags=tags, last_version=7)])
        (hit,) = await index.search("trip to Lisbon", tenant_id="acme", kind="gist")
        assert (hit.kind, hit.text, hit.version, hit.evidence) == ("gist", "booked a trip to Lisbon", 7, ("m0",))
        assert (hit.said_at, hit.valid_from, hit.tags) == (*(SAID_AT + timedelta(hours=3),) * 2, ("mood=glad",))
        assert await index.search("trip to Lisbon", tenant_id="acme", kind="fact") == []
        assert [found.kind for found in await index.search("trip to Lisbon", tenant_id="acme")] == ["gist"]

    async def test_repeats_change_nothing(self, index: VectorIndex, embedder: CountingEmbedder) -> None:
        events = [event(0, "likes tea"), event(1, "likes tea", "has a cat"), event(2)]
        for _ in range(3):
            await index.apply_events(events)
        assert await counts(index) == {"gist": 3}
        assert len(embedder.passages) == 3

    async def test_a_flush_that_ends_again_replaces_and_is_not_replaced(
        self, index: VectorIndex, point: Callable[..., Any]
    ) -> None:
        first, again = event(0, "likes tea"), event(0, "likes coffee", recorded_at=SAID_AT + timedelta(days=9))
        for events in ([first], [again], [first], [again, first]):
            await index.apply_events(events)
        assert await counts(index) == {"gist": 1}
        assert (await point(gist_id(first.flush.flush_id, 0))).payload["text"] == "likes coffee"

    async def test_an_earlier_end_that_was_held_up_does_not_replace(
        self, index: VectorIndex, point: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, again = event(0, "likes tea"), event(0, "likes coffee", recorded_at=SAID_AT + timedelta(days=9))
        make = index._points

        async def held_up(*arguments: Any) -> Any:
            made = await make(*arguments)
            monkeypatch.undo()
            await index.apply_events([again])
            return made

        monkeypatch.setattr(index, "_points", held_up)
        await index.apply_events([first])
        assert (await point(gist_id(first.flush.flush_id, 0))).payload["text"] == "likes coffee"

    async def test_those_from_before_are_forgotten(self, index: VectorIndex) -> None:
        before, after = event(0, "likes tea"), event(2, "likes milk")
        others = [event(0, "likes tea", user_id="bob"), event(0, "likes tea", tenant_id="other")]
        moved = event(9, "likes beer")
        moved = event(9, "likes beer", flush=flush_ref(9, 9, **_user(moved), log_id="older"), recorded_at=SAID_AT)
        await index.apply_events([before, moved, *others])
        await index.apply_events([before, event(1, outcome="forgotten"), after])
        await index.apply_events([event(1, outcome="forgotten")])
        assert await counts(index) == {"gist": 1}
        (hit,) = await index.search("likes", tenant_id="acme", user_id="ann")
        assert hit.text == "likes milk"
        assert [await counts(index, "acme", "bob"), await counts(index, "other")] == [{"gist": 1}, {"gist": 1}]

    async def test_a_forgotten_profile_leaves_them_to_their_own_end(self, index: VectorIndex) -> None:
        await index.apply(everything())
        await index.apply_events([event(0, "likes tea")])
        await index.apply([forget(5)])
        assert await counts(index) == {"gist": 1}


def _user(event: FlushEvent) -> dict[str, str]:
    return {"tenant_id": event.flush.tenant_id, "user_id": event.flush.user_id}


class TestUsers:
    async def test_have_the_mean_of_what_is_known(self, index: VectorIndex, point: Callable[..., Any]) -> None:
        await index.apply([delta("interest", "sport", "tennis", 1), delta("diet", "drink", "green tea", 2)])
        await index.apply_events([event(0, "her dog is ill")])
        own = await point(user_point_id("acme", "ann"))
        items = [(await point(*slot)).vector["dense"] for slot in (("interest", "sport"), ("diet", "drink"))]
        length = sum(number**2 for number in mean(items)) ** 0.5
        assert own.vector["dense"] == pytest.approx([number / length for number in mean(items)], abs=1e-6)
        assert own.payload == {"tenant_id": "acme", "user_id": "ann", "kind": "user", "version": 2}

    async def test_many_at_once_have_the_mean_of_their_own(
        self, service: QdrantProcess, index: VectorIndex, point: Callable[..., Any]
    ) -> None:
        """Also users with more than a page, and more than what a user's vector is made of."""
        sizes = {("acme", "ann"): POINTS_OF_A_USER + 40, ("other", "ann"): 5, ("acme", "bob"): 1, ("acme", "eve"): 70}
        sizes |= {("acme", f"user {number}"): 2 for number in range(USERS_AT_ONCE)}
        changes = [
            delta("many", f"slot_{number}", f"{user} likes {number}", number + 1, tenant_id=tenant, user_id=user)
            for (tenant, user), size in sizes.items()
            for number in range(size)
        ]
        await index.apply(changes)
        client = AsyncQdrantClient(url=service.url, timeout=10, check_compatibility=False)
        stored, _ = await client.scroll(index.collection, limit=1000, with_payload=True, with_vectors=True)
        await client.close()
        for (tenant, user), size in sizes.items():
            own = await point(user_point_id(tenant, user))
            items = [
                item.vector["dense"]
                for item in sorted(stored, key=lambda item: str(item.id))
                if item.payload == item.payload | {"tenant_id": tenant, "user_id": user, "kind": "slot"}
            ]
            assert len(items) == size
            expected = mean(items[:POINTS_OF_A_USER])
            length = sum(number**2 for number in expected) ** 0.5
            assert own.vector["dense"] == pytest.approx([number / length for number in expected], abs=1e-5)

    async def test_follow_every_change_to_the_end(self, index: VectorIndex, point: Callable[..., Any]) -> None:
        async def vector() -> list[float]:
            return (await point(user_point_id("acme", "ann"))).vector["dense"]

        await index.apply([delta("interest", "sport", "tennis", 1)])
        tennis = await vector()
        await index.apply([delta("interest", "sport", "golf", 2, op="update"), delta("diet", "drink", "tea", 3)])
        assert await vector() != tennis
        await index.apply([delta("diet", "drink", None, 4), delta("interest", "sport", "tennis", 5, op="update")])
        assert await vector() == pytest.approx(tennis, abs=1e-6)
        await index.apply([delta("interest", "sport", None, 6)])
        assert await point(user_point_id("acme", "ann")) is None

    async def test_one_that_was_left_behind_is_made_good_by_the_repeat(
        self, service: QdrantProcess, index: VectorIndex, point: Callable[..., Any]
    ) -> None:
        await index.apply(life())
        whole = await point(user_point_id("acme", "ann"))
        await index.apply([delta("more", "of", "it", 9)])
        stale = await point(user_point_id("acme", "ann"))
        assert stale != whole
        # What a worker leaves that dies between the items and the user.
        client = AsyncQdrantClient(url=service.url, timeout=10, check_compatibility=False)
        left = models.PointStruct(id=whole.id, vector=whole.vector, payload=whole.payload)
        await client.upsert(index.collection, [left], wait=True)
        await client.close()
        await index.apply([delta("more", "of", "it", 9)])
        assert await point(user_point_id("acme", "ann")) == stale

    @pytest.mark.parametrize(("late", "later"), [("milk", "golf"), ("milk", None), (None, "golf")])
    async def test_one_that_was_held_up_between_reading_and_writing_never_replaces(
        self,
        index: VectorIndex,
        point: Callable[..., Any],
        monkeypatch: pytest.MonkeyPatch,
        late: str | None,
        later: str | None,
    ) -> None:
        """As a process that was suspended and goes on when another has taken its place."""
        await index.apply([delta("diet", "drink", "tea", 1), delta("interest", "sport", "tennis", 2)])
        read = user_points._items

        async def held_up(*arguments: Any) -> Any:
            found = await read(*arguments)
            monkeypatch.undo()
            await index.apply([delta("interest", "sport", later, 5, op="update" if later else "delete")])
            return found

        monkeypatch.setattr(user_points, "_items", held_up)
        await index.apply([delta("diet", "drink", late, 3, op="update" if late else "delete")])
        own = await point(user_point_id("acme", "ann"))
        left = [await point(*slot) for slot in (("diet", "drink"), ("interest", "sport"))]
        vectors = [item.vector["dense"] for item in left if item is not None]
        length = sum(number**2 for number in mean(vectors)) ** 0.5
        assert own.vector["dense"] == pytest.approx([number / length for number in mean(vectors)], abs=1e-6)
        assert own.payload["version"] == 5

    async def test_a_process_that_may_not_write_any_more_writes_none(
        self, index: VectorIndex, point: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await index.apply([delta("diet", "drink", "tea", 1)])
        before = await point(user_point_id("acme", "ann"))
        read = user_points._items
        asleep = False

        def guard() -> None:
            if asleep:
                raise DependencyDown("suspended")

        async def suspended(*arguments: Any) -> Any:
            nonlocal asleep
            asleep = True
            return await read(*arguments)

        monkeypatch.setattr(user_points, "_items", suspended)
        index.guard = guard
        for late in ("milk", None):
            asleep = False
            with pytest.raises(DependencyDown):
                await index.apply([delta("diet", "drink", late, 2)])
            assert await point(user_point_id("acme", "ann")) == before

    async def test_who_is_alike_comes_first_and_only_in_the_tenant(self, index: VectorIndex) -> None:
        for user, drink in (("ann", "green tea with milk"), ("bob", "green tea with ice"), ("eve", "zzz qqq")):
            for tenant in ("acme", "other"):
                await index.apply([delta("diet", "drink", drink, user_id=user, tenant_id=tenant)])
        await index.apply([delta("diet", "drink", "green tea with milk", user_id="dan", tenant_id="other")])
        found = await index.similar_users("acme", "ann")
        assert next(user.user_id for user in found or []) == "bob"
        assert {user.user_id for user in found or []} <= {"bob", "eve"}
        assert [user.user_id for user in await index.similar_users("other", "ann", limit=1) or []] == ["dan"]
        assert await index.similar_users("acme", "dan") is None
        assert await index.similar_users("acme", "nobody") is None

    async def test_are_forgotten(self, index: VectorIndex) -> None:
        await index.apply(everything())
        assert (await counts(index))["user"] == 1
        await index.apply([forget(5)])
        assert await counts(index) == {}
        assert await index.similar_users("acme", "ann") is None

    async def test_are_no_hits_of_a_search(self, index: VectorIndex) -> None:
        await index.apply(everything())
        hits = await index.search("tennis cat short answers", tenant_id="acme", limit=100)
        assert {hit.kind for hit in hits} == {"slot", "fact", "preference"}


async def test_a_user_with_5000_slots(index: VectorIndex) -> None:
    texts = {number: f"value {number}" for number in range(5_000)}
    await index.apply([delta("many", f"slot_{number}", text, number + 1) for number, text in texts.items()])
    await index.apply([delta("diet", "drink", "green tea", user_id="bob")])
    assert await counts(index) == {"slot": 5_000, "user": 1}
    (hit, *_) = await index.search("4711", tenant_id="acme", limit=1)
    assert hit.text == "value 4711"
    assert [hit.user_id for hit in await index.search("green tea", tenant_id="acme", limit=1)] == ["bob"]
    await index.apply([forget(6_000)])
    assert await counts(index) == {}


@pytest.mark.parametrize(
    "text",
    ["", " ", "😀🎉", "שלום עולם", "\u202eabc", "a\0b", "网球 " * 20_000, "x" * 100_000, "\u2028{{x}}</s>"],
    ids=["empty", "blank", "emoji", "hebrew", "override", "nul", "long", "one word", "template"],
)
async def test_any_text_is_a_gist_and_a_question(index: VectorIndex, text: str) -> None:
    await index.apply_events([event(0, text)])
    await index.apply([delta("odd", "text", text)])
    hits = await index.search(text, tenant_id="acme")
    assert all(hit.text == text for hit in hits)
    assert await counts(index) == {"slot": 1, "gist": 1, "user": 1}
