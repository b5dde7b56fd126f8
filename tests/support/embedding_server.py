"""`EmbeddingServer`: OpenAI's ``/embeddings`` on loopback, which a test can make fail, stop and start again."""

from __future__ import annotations

from typing import Final, Self

from aiohttp import web

from sinks.embeddings import HashEmbedder
from streams.embedded.child import free_port

DIMENSION: Final = 64


class EmbeddingServer:
    """Embeds by the words of a text, as an asynchronous context manager; its address stays the same.

    Attributes:
        url: the base URL for a client.
        status: answered with, instead of embeddings, unless it is 200.
        retry_after: seconds that such an answer asks to wait; None: it does not say.
        texts: how many it has embedded.
        refused: how many requests it has answered with an error.
    """

    def __init__(self) -> None:
        self.status = 200
        self.retry_after: int | None = None
        self.texts = 0
        self.refused = 0
        self._embedder = HashEmbedder(DIMENSION)
        self._port = free_port()
        self._runner: web.AppRunner | None = None
        self.url = f"http://127.0.0.1:{self._port}/v1"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen."""
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/embeddings", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()

    async def stop(self) -> None:
        """Break all connections and refuse new ones."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _answer(self, request: web.Request) -> web.Response:
        if self.status != web.HTTPOk.status_code:
            self.refused += 1
            headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
            return web.json_response({"error": {"message": "scripted"}}, status=self.status, headers=headers)
        texts = (await request.json())["input"]
        self.texts += len(texts)
        vectors = await self._embedder.embed_passages(texts)
        data = [{"object": "embedding", "index": place, "embedding": vector} for place, vector in enumerate(vectors)]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        return web.json_response({"object": "list", "model": "scripted", "data": data, "usage": usage})
