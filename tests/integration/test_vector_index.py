"""`VectorIndex` on the embedded Qdrant with the real e5 model, and with faults between them."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web
from qdrant_client import AsyncQdrantClient, models

from sinks.embeddings import E5Embedder
from sinks.errors import SinkRejected, SinkUnavailable
from sinks.vectors import VectorHit, VectorIndex
from streams.errors import DependencyDown
from tests.integration.qdrant_fixtures import Faults, QdrantProcess, faulty_qdrant
from tests.integration.vector_fixtures import LIFE, SAID_AT, CountingEmbedder, delta, index_at, life

pytest_plugins = ["tests.integration.vector_fixtures"]


class TestSearch:
    @pytest.mark.parametrize(
        ("query", "sub_topic"),
        [
            ("food allergies", "allergy"),
            ("对什么食物过敏", "allergy"),
            ("sports hobby", "sport"),
            ("喜欢什么音乐", "music"),
            ("does she have a dog", "pet"),
            ("她住在哪个城市", "city"),
            ("what is her job", "occupation"),
        ],
    )
    async def test_finds_the_slot_by_meaning_in_both_languages(
        self, service: QdrantProcess, e5: E5Embedder, query: str, sub_topic: str
    ) -> None:
        async with index_at(service.url, e5, collection="meaning") as index:
            await index.open()
            await index.apply(life())
            hits = await index.search(query, tenant_id="acme", limit=3)
        assert hits[0].sub_topic == sub_topic
        assert all(-1.0 <= hit.score <= 1.0 for hit in hits)

    async def test_a_hit_tells_the_slot(self, index: VectorIndex) -> None:
        await index.apply(life())
        (hit,) = await index.search("tennis on Sunday", tenant_id="acme")
        assert hit == VectorHit(
            user_id="ann",
            kind="slot",
            topic="interest",
            sub_topic="sport",
            text="plays tennis every Sunday",
            score=hit.score,
            version=2,
            said_at=SAID_AT + timedelta(hours=2),
            valid_from=SAID_AT + timedelta(hours=2),
            evidence=("m2",),
        )

    async def test_unrelated_slots_are_no_hits(self, index: VectorIndex) -> None:
        await index.apply(life())
        assert await index.search("zzzz qqqq", tenant_id="acme") == []

    async def test_tenants_and_users_are_apart(self, index: VectorIndex) -> None:
        tea = ("diet", "drink", "green tea")
        await index.apply(
            [
                delta(*tea),
                delta(*tea, user_id="bob"),
                delta(*tea, tenant_id="other", version=5),
                delta("work", "tool", "green tea"),
            ]
        )

        async def found(**where: Any) -> list[tuple[str, str, int]]:
            hits = await index.search("green tea", **where)
            return sorted((hit.user_id, hit.topic, hit.version) for hit in hits)

        assert await found(tenant_id="acme") == [("ann", "diet", 1), ("ann", "work", 1), ("bob", "diet", 1)]
        assert await found(tenant_id="acme", user_id="ann") == [("ann", "diet", 1), ("ann", "work", 1)]
        assert await found(tenant_id="acme", user_id="ann", topic="work") == [("ann", "work", 1)]
        assert await found(tenant_id="other", user_id="ann") == [("ann", "diet", 5)]
        assert await found(tenant_id="other", user_id="bob") == []
        assert len(await index.search("green tea", tenant_id="acme", limit=2)) == 2
        assert [await index.count(*who) for who in [(), ("acme",), ("acme", "ann"), ("other", "bob")]] == [4, 3, 2, 0]

    async def test_names_are_data(self, index: VectorIndex) -> None:
        odd = 'u"; {"must":[]} \\ \x1f 安'
        await index.apply([delta("diet", "drink", "green tea", user_id=odd)])
        (hit,) = await index.search("green tea", tenant_id="acme", user_id=odd)
        assert hit.user_id == odd


class TestApply:
    async def test_a_point_carries_the_slot(self, index: VectorIndex, point: Callable[..., Any]) -> None:
        await index.apply([delta("basic_info", "home_city", "杭州_a")])
        stored = await point("basic_info", "home_city")
        assert stored.payload == {
            "tenant_id": "acme",
            "user_id": "ann",
            "kind": "slot",
            "topic": "basic_info",
            "sub_topic": "home_city",
            "item_id": "",
            "text": "杭州_a",
            "version": 1,
            "evidence": ["m1"],
            "valid_from": "2024-05-01T11:00:00Z",
            "said_at": "2024-05-01T11:00:00Z",
            "recorded_at": "2024-05-02T10:00:00Z",
        }

    async def test_what_is_embedded_says_what_the_value_is_about(
        self, index: VectorIndex, embedder: CountingEmbedder
    ) -> None:
        await index.apply([delta("basic_info", "home_city", "杭州_a")])
        assert embedder.passages == ["basic info home city: 杭州_a"]

    async def test_repeats_change_nothing(
        self, index: VectorIndex, embedder: CountingEmbedder, point: Callable[..., Any]
    ) -> None:
        await index.apply(life())
        before = await point("interest", "sport")
        await index.apply(life())
        await index.apply(life()[::-1])
        assert await index.count() == len(LIFE)
        assert len(embedder.passages) == len(LIFE)
        assert await point("interest", "sport") == before

    async def test_a_later_value_replaces(self, index: VectorIndex, point: Callable[..., Any]) -> None:
        await index.apply([delta("interest", "sport", "tennis", 1)])
        before = await point("interest", "sport")
        await index.apply([delta("interest", "sport", "swimming", 2, op="update", before="tennis")])
        after = await point("interest", "sport")
        assert (after.payload["text"], after.payload["version"], await index.count()) == ("swimming", 2, 1)
        assert after.vector != before.vector

    @pytest.mark.parametrize("late", ["golf", None], ids=["value", "deletion"])
    async def test_a_latecomer_never_replaces(
        self, index: VectorIndex, embedder: CountingEmbedder, point: Callable[..., Any], late: str | None
    ) -> None:
        await index.apply([delta("interest", "sport", "swimming", 7)])
        before = await point("interest", "sport")
        await index.apply([delta("interest", "sport", late, 3)])
        assert await point("interest", "sport") == before
        assert len(embedder.passages) == 1

    @pytest.mark.parametrize(("late", "op"), [("golf", "update"), ("tennis", "confirm"), (None, "delete")])
    async def test_one_that_was_held_up_between_reading_and_writing_never_replaces(
        self, index: VectorIndex, point: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, late: str | None, op: str
    ) -> None:
        await index.apply([delta("interest", "sport", "tennis", 1)])
        read = index._stored

        async def held_up(points: Iterable[str]) -> Any:
            found = await read(points)
            monkeypatch.undo()
            await index.apply([delta("interest", "sport", "swimming", 5, op="update", before="tennis")])
            return found

        monkeypatch.setattr(index, "_stored", held_up)
        await index.apply([delta("interest", "sport", late, 3, op=op, before="tennis")])
        left = (await point("interest", "sport")).payload
        assert (left["text"], left["version"]) == ("swimming", 5)

    async def test_a_process_that_may_not_write_any_more_writes_nothing(
        self, index: VectorIndex, point: Callable[..., Any]
    ) -> None:
        def gone() -> None:
            raise DependencyDown("suspended")

        await index.apply([delta("interest", "sport", "tennis", 1)])
        before = await point("interest", "sport")
        index.guard = gone
        for change in (
            delta("interest", "sport", "golf", 2, op="update", before="tennis"),
            delta("interest", "sport", None, 2, op="delete", before="tennis"),
            delta("", "", None, 2, op="forget", kind="profile"),
        ):
            with pytest.raises(DependencyDown):
                await index.apply([change])
        assert await point("interest", "sport") == before

    async def test_the_newest_of_a_batch_wins_whatever_its_place(
        self, index: VectorIndex, embedder: CountingEmbedder, point: Callable[..., Any]
    ) -> None:
        await index.apply(
            [
                delta("interest", "sport", "tennis", 2),
                delta("interest", "sport", "swimming", 4),
                delta("interest", "sport", None, 3),
                delta("diet", "drink", "tea", 5),
                delta("diet", "drink", None, 6),
            ]
        )
        assert (await point("interest", "sport")).payload["text"] == "swimming"
        assert await point("diet", "drink") is None
        assert embedder.passages == ["interest sport: swimming"]

    async def test_an_unchanged_value_is_not_embedded_again(
        self, index: VectorIndex, embedder: CountingEmbedder, point: Callable[..., Any]
    ) -> None:
        await index.apply([delta("interest", "sport", "tennis", 1)])
        before = await point("interest", "sport")
        await index.apply([delta("interest", "sport", "tennis", 2, op="confirm", before="tennis")])
        after = await point("interest", "sport")
        assert after.vector == before.vector
        assert {key for key in after.payload if after.payload[key] != before.payload[key]} == {
            *("version", "evidence", "said_at")
        }
        assert len(embedder.passages) == 1

    async def test_a_confirmed_value_that_is_missing_is_written(
        self, index: VectorIndex, point: Callable[..., Any]
    ) -> None:
        await index.apply([delta("interest", "sport", "tennis", 2, op="confirm", before="tennis")])
        assert (await point("interest", "sport")).payload["text"] == "tennis"

    async def test_an_emptied_slot_is_gone(self, index: VectorIndex) -> None:
        await index.apply(life())
        await index.apply([delta("interest", "sport", None, 7, before="plays tennis every Sunday")])
        await index.apply([delta("no", "where", None, 8)])
        assert await index.count("acme", "ann") == len(LIFE) - 1
        assert await index.search("tennis on Sunday", tenant_id="acme") == []

    async def test_many_slots_at_once(self, index: VectorIndex) -> None:
        await index.apply([delta("t", f"s{n}", f"value {n}", n + 1) for n in range(150)])
        await index.apply([delta("t", f"s{n}", None, n + 200) for n in range(0, 150, 2)])
        assert await index.count("acme", "ann") == 75

    async def test_nothing_to_do_is_no_request(self, tmp_path: Path, embedder: CountingEmbedder) -> None:
        async with faulty_qdrant(tmp_path) as (url, faults), index_at(url, embedder) as index:
            await index.apply([])
        assert faults.seen == []

    async def test_any_text_is_taken(self, service: QdrantProcess, e5: E5Embedder) -> None:
        texts = ["", "a\0b", "网球" * 20_000, "😀", "\u2028 {{x}} </s>"]
        async with index_at(service.url, e5) as index:
            await index.open()
            await index.apply([delta("t", f"s{n}", text, n + 1) for n, text in enumerate(texts)])
            hits = await index.search("网球" * 20_000, tenant_id="acme", limit=5)
        assert hits[0].text == "网球" * 20_000

    async def test_a_user_is_forgotten(self, index: VectorIndex) -> None:
        await index.apply([*life(), *life(user_id="bob"), *life(tenant_id="other")])
        assert await index.delete_user("acme", "ann") == len(LIFE) + 1  # one is the user's own
        assert await index.delete_user("acme", "ann") == 0
        assert [await index.count("acme", "ann"), await index.count("acme", "bob")] == [0, len(LIFE)]
        assert await index.count("other", "ann") == len(LIFE)


class TestOpen:
    async def test_makes_the_collection_with_its_indexes(
        self, service: QdrantProcess, embedder: CountingEmbedder
    ) -> None:
        async with index_at(service.url, embedder, collection="opened") as index:
            assert index.collection == "opened-hash-384-2"
            await index.open()
            await index.open()
        client = AsyncQdrantClient(url=service.url, timeout=10, check_compatibility=False)
        schema = (await client.get_collection("opened-hash-384-2")).payload_schema
        await client.close()
        assert set(schema) == {
            *("tenant_id", "user_id", "kind", "topic", "sub_topic", "tags", "log_id"),
            *("version", "partition", "last_offset", "valid_from", "said_at", "recorded_at"),
        }
        assert schema["tenant_id"].params.is_tenant

    def test_its_embedder_can_be_shared(self, embedder: CountingEmbedder) -> None:
        assert VectorIndex(url="http://127.0.0.1:9", embedder=embedder).embedder is embedder

    async def test_several_workers_may_open_at_once(self, service: QdrantProcess, embedder: CountingEmbedder) -> None:
        name = f"t-{uuid4()}"
        async with (
            index_at(service.url, embedder, collection=name) as one,
            index_at(service.url, embedder, collection=name) as other,
        ):
            await asyncio.gather(*(index.open() for index in (one, other)))
            await one.apply(life())
            assert await other.count() == len(LIFE)

    async def test_another_embedder_has_another_collection(
        self, service: QdrantProcess, embedder: CountingEmbedder
    ) -> None:
        name = f"t-{uuid4()}"
        async with (
            index_at(service.url, embedder, collection=name) as one,
            index_at(service.url, CountingEmbedder(32), collection=name) as other,
        ):
            await one.open()
            await other.open()
            await one.apply(life())
            assert await other.count() == 0

    async def test_ping_tells_the_version(self, index: VectorIndex) -> None:
        assert (await index.ping()).count(".") == 2


async def test_acknowledged_points_are_there_after_a_kill(tmp_path: Path, embedder: CountingEmbedder) -> None:
    service = QdrantProcess(tmp_path).start()
    async with index_at(service.url, embedder, collection="kept") as index:
        await index.open()
        await index.apply(life())
        await index.apply([delta("interest", "sport", "swimming", 7), delta("family", "pet", None, 8)])
        service.end(signal.SIGKILL)
        with pytest.raises(SinkUnavailable):
            await index.count()
    with service:
        async with index_at(service.url, embedder, collection="kept") as index:
            await index.open()
            assert await index.count("acme", "ann") == len(LIFE) - 1
            (hit,) = await index.search("swimming", tenant_id="acme", topic="interest")
            assert (hit.text, hit.version) == ("swimming", 7)


async def test_the_event_loop_goes_on_while_it_embeds(service: QdrantProcess, e5: E5Embedder) -> None:
    async with index_at(service.url, e5) as index:
        await index.open()
        ticks = 0
        applied = asyncio.create_task(index.apply([delta("t", f"s{n}", f"值 {n}", n + 1) for n in range(20)]))
        while not applied.done():
            await asyncio.sleep(0.002)
            ticks += 1
        await applied
    # 20 texts take some 500 ms; a loop that waits for them gets to this one a handful of times.
    assert ticks > 50


METHODS = {
    "open": lambda index: index.open(),
    "ping": lambda index: index.ping(),
    "apply": lambda index: index.apply(life()),
    "search": lambda index: index.search("tennis", tenant_id="acme"),
    "count": lambda index: index.count(),
    "delete_user": lambda index: index.delete_user("acme", "ann"),
}


class TestFaults:
    @pytest.fixture
    async def faulty(self, tmp_path: Path, embedder: CountingEmbedder) -> AsyncIterator[tuple[VectorIndex, Faults]]:
        async with faulty_qdrant(tmp_path) as (url, faults), index_at(url, embedder, timeout=1.0) as index:
            await index.open()
            yield index, faults

    @pytest.mark.parametrize("call", METHODS.values(), ids=METHODS)
    async def test_a_refused_connection_is_unavailable(
        self, embedder: CountingEmbedder, call: Callable[[VectorIndex], Any]
    ) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{unused.getsockname()[1]}"
            async with index_at(url, embedder) as index:
                with pytest.raises(SinkUnavailable, match="is it running") as unavailable:
                    await call(index)
        assert url in str(unavailable.value)
        assert "\n" not in str(unavailable.value)

    @pytest.mark.parametrize("call", METHODS.values(), ids=METHODS)
    @pytest.mark.parametrize(
        ("fault", "retry_after"),
        [
            ({"kind": "status", "status": 503}, None),
            ({"kind": "status", "status": 500}, None),
            ({"kind": "status", "status": 429, "headers": {"Retry-After": "3"}}, 3.0),
            ({"kind": "status", "status": 429, "headers": {"Retry-After": "soon"}}, None),
            ({"kind": "status", "status": 429}, None),
            ({"kind": "drop"}, None),
            ({"kind": "drop_after"}, None),
        ],
        ids=["503", "500", "429 with wait", "429 with odd wait", "429", "dropped", "dropped after"],
    )
    async def test_what_may_get_better_is_unavailable(
        self,
        faulty: tuple[VectorIndex, Faults],
        call: Callable[[VectorIndex], Any],
        fault: dict[str, Any],
        retry_after: float | None,
    ) -> None:
        index, faults = faulty
        faults.add(match="", **fault)
        with pytest.raises(SinkUnavailable) as unavailable:
            await call(index)
        assert unavailable.value.retry_after == retry_after
        assert index._url in str(unavailable.value)
        await call(index)

    async def test_a_timeout_is_unavailable(self, faulty: tuple[VectorIndex, Faults]) -> None:
        index, faults = faulty
        faults.add(kind="delay", match="/count", seconds=1.5)
        with pytest.raises(SinkUnavailable, match="ReadTimeout"):
            await index.count()

    @pytest.mark.parametrize("kind", ["status", "drop", "drop_after"])
    async def test_a_failed_write_is_complete_after_the_retry(
        self, faulty: tuple[VectorIndex, Faults], kind: str
    ) -> None:
        index, faults = faulty
        await index.apply([delta("family", "pet", "a cat", 1), delta("interest", "sport", "tennis", 2)])
        again = [
            delta("family", "pet", None, 3),
            delta("interest", "sport", "tennis", 4, op="confirm"),
            delta("work", "company", "a bank", 5),
        ]
        faults.add(kind=kind, match="/points/batch")
        with pytest.raises(SinkUnavailable):
            await index.apply(again)
        await index.apply(again)
        assert faults.pending == []
        hits = [await index.search(text, tenant_id="acme") for text in ("a cat", "tennis", "a bank")]
        assert [[(hit.text, hit.version) for hit in found] for found in hits] == [
            [],
            [("tennis", 4)],
            [("a bank", 5)],
        ]

    async def test_a_missing_collection_says_what_to_do(
        self, service: QdrantProcess, embedder: CountingEmbedder
    ) -> None:
        async with index_at(service.url, embedder) as index:
            with pytest.raises(SinkUnavailable, match=f"creates collection {index.collection}"):
                await index.apply(life())

    @pytest.mark.parametrize(("status", "told"), [(401, "api_key"), (403, "api_key"), (400, "qdrant.url")])
    async def test_a_refusal_is_rejected(self, faulty: tuple[VectorIndex, Faults], status: int, told: str) -> None:
        index, faults = faulty
        faults.add(kind="status", match="", status=status)
        with pytest.raises(SinkRejected, match=f"answered {status} .*scripted.*{told}"):
            await index.count()

    async def test_points_of_someone_else_are_rejected(self, service: QdrantProcess, index: VectorIndex) -> None:
        client = AsyncQdrantClient(url=service.url, timeout=10, check_compatibility=False)
        foreign = models.PointStruct(
            id=1, vector={"dense": [1.0] + [0.0] * 383}, payload={"tenant_id": "acme", "kind": "slot"}
        )
        await client.upsert(index.collection, [foreign], wait=True)
        await client.close()
        with pytest.raises(SinkRejected, match=r"collection .* has a point that is not of a profile"):
            await index.search("", tenant_id="acme")

    @pytest.mark.parametrize("body", ['{"models": []}', "<html>", ""], ids=["json", "html", "empty"])
    @pytest.mark.parametrize("call", METHODS.values(), ids=METHODS)
    async def test_another_server_is_rejected(
        self, embedder: CountingEmbedder, call: Callable[[VectorIndex], Any], body: str
    ) -> None:
        async def answer(_: web.Request) -> web.Response:
            return web.Response(text=body)

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            async with index_at(f"http://127.0.0.1:{runner.addresses[0][1]}", embedder) as index:
                with pytest.raises(SinkRejected, match=r"does not answer like Qdrant: check qdrant\.url"):
                    await call(index)
        finally:
            await runner.cleanup()
