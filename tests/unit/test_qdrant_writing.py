"""Points are written as the client itself would write them, without its checks of each number."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from sinks.embeddings import HashEmbedder
from sinks.errors import SinkRejected, SinkUnavailable
from sinks.vectors import VectorIndex
from sinks.vectors.errors import sink_errors
from sinks.vectors.layout import DENSE, SPARSE, not_newer
from sinks.vectors.qdrant import AsyncQdrantClient, models
from sinks.vectors.writing import Point, upsert, write

URL = "http://qdrant.test:6333"
ONE, OTHER = "7f9c24e5-1c1d-4f7e-9a0e-000000000001", "7f9c24e5-1c1d-4f7e-9a0e-000000000002"
PAYLOAD = {"text": '喝 "茶"\n', "n": 3, "gone": None, "none": [], "tags": ["a=b"], "deep": {"x": None}}
DONE = {"result": [{"operation_id": 1, "status": "completed"}], "status": "ok", "time": 0.001}


class Server:
    """Keeps the requests that a client sends and gives each the same answer."""

    def __init__(self, status: int = 200, content: bytes = json.dumps(DONE).encode()) -> None:
        self.requests: list[httpx.Request] = []
        self._answer = status, content

    def client(self) -> AsyncQdrantClient:
        return AsyncQdrantClient(
            url=URL, api_key="secret", check_compatibility=False, transport=httpx.MockTransport(self._handle)
        )

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        status, content = self._answer
        return httpx.Response(status, content=content, headers={"Content-Type": "application/json"})


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
async def test_a_request_is_the_one_that_the_client_would_send() -> None:
    server = Server()
    client = server.client()
    sparse = {"indices": [7, 4_000_000_000], "values": [0.5, 1.25]}
    no_words = {"indices": [], "values": []}
    unless = not_newer({ONE: 3, OTHER: 4})
    others = (
        models.SetPayloadOperation(set_payload=models.SetPayload(payload=PAYLOAD, filter=not_newer({ONE: 2}))),
        models.DeleteOperation(delete=models.FilterSelector(filter=not_newer({OTHER: 1}))),
    )
    theirs = models.PointsList(
        points=[
            models.PointStruct(
                id=ONE, vector={DENSE: [0.1, -2.0], SPARSE: models.SparseVector(**sparse)}, payload=PAYLOAD
            ),
            models.PointStruct(
                id=OTHER, vector={DENSE: [1e-9, 0.0], SPARSE: models.SparseVector(**no_words)}, payload={}
            ),
        ],
        update_filter=unless,
    )
    ours = [
        Point(id=ONE, vector={DENSE: [0.1, -2.0], SPARSE: sparse}, payload=PAYLOAD),
        Point(id=OTHER, vector={DENSE: [1e-9, 0.0], SPARSE: no_words}, payload={}),
    ]

    await client.batch_update_points("c", [others[0], models.UpsertOperation(upsert=theirs), others[1]], wait=True)
    await write(client, "c", [others[0], upsert(ours, unless), others[1]])

    expected, sent = server.requests
    assert json.loads(sent.content) == json.loads(expected.content)
    assert (sent.method, sent.url) == (expected.method, expected.url)
    assert sent.headers["api-key"] == "secret"
    assert sent.headers["content-type"] == expected.headers["content-type"]


@pytest.mark.parametrize(
    ("status", "content", "error"),
    [
        (200, b'{"result": null, "status": "ok"}', SinkRejected),
        (200, b"[]", SinkRejected),
        (200, b"<html>", SinkRejected),
        (404, b'{"status": {"error": "no collection"}}', SinkUnavailable),
        (503, b"busy", SinkUnavailable),
    ],
)
@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
async def test_what_is_no_confirmation_is_an_error(status: int, content: bytes, error: type[Exception]) -> None:
    client = Server(status, content).client()
    with pytest.raises(error), sink_errors(URL, "c"):
        await write(client, "c", [upsert([Point(id=ONE, vector={DENSE: [1.0]}, payload={})], not_newer({ONE: 1}))])


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
async def test_a_text_that_is_no_unicode_is_refused() -> None:
    point = Point(id=ONE, vector={DENSE: [1.0]}, payload={"text": "x\ud800y"})
    with pytest.raises(SinkRejected), sink_errors(URL, "c"):
        await write(Server().client(), "c", [upsert([point], not_newer({ONE: 1}))])


async def test_connections_that_cancelled_requests_left_behind_are_not_waited_for() -> None:
    index = VectorIndex(url=URL, embedder=HashEmbedder(4))
    pool: Any = index._client.http.client._async_client._transport
    assert pool._pool._max_connections > 1_000_000
    assert pool._pool._keepalive_expiry == 3.0
    await index.close()
