"""`ModelServer`: an OpenAI-compatible server on loopback whose answers, and whose faults, a test writes."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer of the server; everything but `content` is a fault or an oddity.

    Attributes:
        content: the answer's text; anything but text is sent as JSON.
        finish_reason: ``length`` for an answer that was cut off, ``content_filter`` for a blocked one.
        refusal: why the model will not answer.
        status: HTTP status; from 400 on the body is an error whose message is `error`.
        error: the error's message.
        param: the parameter that the error is about.
        headers: added to the response.
        delay: seconds before the response begins.
        release: the response waits for this event.
        body: sent as it is in place of a completion.
        trickle: seconds between the bytes of the body.
        drop: the connection is closed without a response.
        usage: whether token counts are reported.
    """

    content: Any = None
    finish_reason: str = "stop"
    refusal: str | None = None
    status: int = 200
    error: str = "scripted error"
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    release: asyncio.Event | None = None
    body: bytes | None = None
    trickle: float = 0.0
    drop: bool = False
    usage: bool = True


@dataclass(frozen=True)
class Request:
    """A request that the server received."""

    body: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def model(self) -> str:
        """Name of the model that is asked."""
        return str(self.body["model"])

    @property
    def stage(self) -> str | None:
        """Name of the JSON schema asked for: the stage; None when none was asked for."""
        name = self.body.get("response_format", {}).get("json_schema", {}).get("name")
        return None if name is None else str(name)

    @property
    def system(self) -> str:
        """The first message: the static part of the prompt."""
        return str(self.body["messages"][0]["content"])

    @property
    def user(self) -> str:
        """The second message: the payload."""
        return str(self.body["messages"][1]["content"])


Answer = Reply | str | dict[str, Any] | list[Any]
Script = Callable[[Request], Answer | Awaitable[Answer]]


class ModelServer:
    """Answers from a queue first (`say`), then by `script`, else with status 500; remembers every request.

    Use it as an async context manager. `peak` is the largest number of requests that were open at once.
    """

    def __init__(self, script: Script | None = None) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.open = 0
        self.peak = 0
        self._queue: deque[Answer] = deque()
        self._runner: web.AppRunner | None = None
        self._port = 0
        self._arrived = asyncio.Condition()

    @property
    def url(self) -> str:
        """The base URL for a client; it stays the same, and refuses connections, while the server is closed."""
        return f"http://127.0.0.1:{self._port}/v1"

    def say(self, *answers: Answer) -> None:
        """Queue answers, one for each coming request."""
        self._queue.extend(answers)

    async def wait_for(self, count: int, timeout: float = 10.0) -> None:
        """Wait until that many requests have arrived."""
        async with asyncio.timeout(timeout), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def listen(self) -> None:
        """Listen: after `close`, again where it was."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._complete)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop listening: from now on connections are refused, until `listen` is called."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _complete(self, http: web.Request) -> web.StreamResponse:
        request = Request(await http.json(), dict(http.headers))
        self.open += 1
        self.peak = max(self.peak, self.open)
        try:
            async with self._arrived:
                self.requests.append(request)
                self._arrived.notify_all()
            return await self._respond(http, request, await self._reply(request))
        finally:
            self.open -= 1

    async def _reply(self, request: Request) -> Reply:
        if self._queue:
            answer = self._queue.popleft()
        elif self.script is not None:
            result = self.script(request)
            answer = await result if inspect.isawaitable(result) else result
        else:
            answer = Reply(status=500, error="nothing scripted")
        return answer if isinstance(answer, Reply) else Reply(content=answer)

    async def _respond(self, http: web.Request, request: Request, reply: Reply) -> web.StreamResponse:
        if reply.delay:
            await asyncio.sleep(reply.delay)
        if reply.release:
            await reply.release.wait()
        if reply.drop:
            assert http.transport is not None
            http.transport.abort()
        body = reply.body if reply.body is not None else json.dumps(_body(request, reply)).encode()
        headers = {"Content-Type": "application/json", **reply.headers}
        if not reply.trickle:
            return web.Response(status=reply.status, body=body, headers=headers)
        response = web.StreamResponse(status=reply.status, headers=headers)
        await response.prepare(http)
        for byte in body:
            await response.write(bytes([byte]))
            await asyncio.sleep(reply.trickle)
        return response


def _body(request: Request, reply: Reply) -> dict[str, Any]:
    if reply.status >= 400:
        return {"error": {"message": reply.error, "type": "scripted", "param": reply.param, "code": None}}
    content = reply.content
    if content is not None and not isinstance(content, str):
        content = json.dumps(content, ensure_ascii=False)
    completion: dict[str, Any] = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": [
            {
                "index": 0,
                "finish_reason": reply.finish_reason,
                "message": {"role": "assistant", "content": content, "refusal": reply.refusal},
            }
        ],
    }
    if reply.usage:
        completion["usage"] = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return completion
