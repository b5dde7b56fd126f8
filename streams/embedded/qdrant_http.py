"""Qdrant's REST interface: a request becomes a call of the engine, its result or error becomes a response.

What is served is listed in `_POINT_CALLS` and in `RestInterface.runner`; everything else is answered with an
error, in Qdrant's own shape, that says so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from streams.embedded import qdrant_requests as requests
from streams.embedded.qdrant_collection import Collection, EngineError
from streams.embedded.qdrant_engine import Engine

T = TypeVar("T")

VERSION: Final = "1.20.0"
"""The version of Qdrant whose interface this is; also told to clients."""

_MAX_BODY: Final = 32 * 1024 * 1024  # bytes, as Qdrant's own limit
_FLUSH_EVERY: Final = 5.0  # seconds, as Qdrant's own
_SHUTDOWN: Final = 5.0  # seconds for running requests
_LOG: Final = logging.getLogger(__name__)

_POINT_CALLS: Final[Sequence[tuple[str, str, Any, Callable[[Collection, Any], Any]]]] = (
    ("PUT", "/index", requests.CreateIndex, Collection.create_index),
    ("PUT", "/points", requests.Upsert, Collection.upsert),
    ("POST", "/points", requests.Retrieve, Collection.retrieve),
    ("POST", "/points/batch", requests.Batch, Collection.batch),
    ("POST", "/points/count", requests.Count, Collection.count),
    ("POST", "/points/delete", requests.Selection, Collection.delete),
    ("POST", "/points/payload", requests.SetPayload, Collection.set_payload),
    ("POST", "/points/query", requests.QueryPoints, Collection.query),
    ("POST", "/points/scroll", requests.Scroll, Collection.scroll),
)


class RestInterface:
    """Serves one engine, whose calls all run in one thread: they block, and the event loop must not.

    Updates are complete when they are answered, whether the client asks to wait or not.
    """

    def __init__(self, engine: Engine, middlewares: Sequence[Middleware] = ()) -> None:
        """Prepare to serve.

        Args:
            engine: stays the caller's to close, after the runner's cleanup.
            middlewares: run before each request, in the order given.
        """
        self._engine = engine
        self._middlewares = middlewares
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="qdrant-edge")

    def runner(self) -> web.AppRunner:
        """Return the runner of the service; its cleanup waits for running requests."""
        app = web.Application(client_max_size=_MAX_BODY, middlewares=[_errors, *self._middlewares])
        app.router.add_get("/", self._root)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/livez", self._health)
        app.router.add_get("/readyz", self._health)
        app.router.add_get("/collections", self._list)
        app.router.add_get("/collections/{name}", self._info)
        app.router.add_put("/collections/{name}", self._create)
        app.router.add_delete("/collections/{name}", self._delete)
        app.router.add_get("/collections/{name}/exists", self._exists)
        app.router.add_get("/collections/{name}/aliases", self._aliases_of)
        app.router.add_get("/aliases", self._aliases)
        app.router.add_post("/collections/aliases", self._change_aliases)
        for method, path, request_type, call in _POINT_CALLS:
            app.router.add_route(method, "/collections/{name}" + path, self._point_call(request_type, call))
        app.cleanup_ctx.append(self._keep_flushed)
        return web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def _answer(self, call: Callable[[], object]) -> web.Response:
        started = time.perf_counter()
        result = await self._run(call)
        return _json({"result": result, "status": "ok", "time": time.perf_counter() - started})

    async def _root(self, _: web.Request) -> web.Response:
        return _json({"title": "qdrant - vector search engine", "version": VERSION})

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="healthz check passed")

    async def _list(self, _: web.Request) -> web.Response:
        return await self._answer(lambda: {"collections": [{"name": name} for name in self._engine.names()]})

    async def _info(self, request: web.Request) -> web.Response:
        return await self._answer(lambda: self._engine.collection(_name(request)).info())

    async def _exists(self, request: web.Request) -> web.Response:
        return await self._answer(lambda: {"exists": _name(request) in self._engine.names()})

    async def _create(self, request: web.Request) -> web.Response:
        wanted = await _body(request, requests.CreateCollection)
        return await self._answer(lambda: self._engine.create(_name(request), wanted))

    async def _delete(self, request: web.Request) -> web.Response:
        return await self._answer(lambda: self._engine.delete(_name(request)))

    async def _aliases(self, _: web.Request) -> web.Response:
        return await self._answer(self._engine.aliases)

    async def _aliases_of(self, request: web.Request) -> web.Response:
        return await self._answer(lambda: self._engine.aliases(_name(request)))

    async def _change_aliases(self, request: web.Request) -> web.Response:
        wanted = await _body(request, requests.ChangeAliases)
        return await self._answer(lambda: self._engine.change_aliases(wanted))

    def _point_call(self, request_type: type[Any], call: Callable[[Collection, Any], Any]) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            wanted = await _body(request, request_type)
            return await self._answer(lambda: call(self._engine.collection(_name(request)), wanted))

        return handle

    async def _keep_flushed(self, _: web.Application) -> AsyncIterator[None]:
        """Flush now and then, so that the log stays short and a start quick."""

        async def flush_repeatedly() -> None:
            while True:
                await asyncio.sleep(_FLUSH_EVERY)
                try:
                    await self._run(self._engine.flush)
                except Exception:
                    _LOG.exception("the collections could not be flushed; the log keeps what was written")

        task = asyncio.create_task(flush_repeatedly())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.to_thread(self._thread.shutdown)


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every error in Qdrant's shape."""
    try:
        return await handler(request)
    except EngineError as error:
        return _error(error.status, str(error))
    except (web.HTTPNotFound, web.HTTPMethodNotAllowed):
        return _error(501, f"Not implemented: {request.method} {request.path} is not served by the embedded Qdrant")
    except web.HTTPException as error:
        return _error(error.status, error.text or error.reason)
    except Exception:
        _LOG.exception("%s %s failed", request.method, request.path)
        return _error(500, f"Service internal error: {request.method} {request.path} failed; see the log")


async def _body(request: web.Request, request_type: type[T]) -> T:
    try:
        return msgspec.json.decode(await request.read(), type=request_type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EngineError(400, f"Format error in JSON body: {error}") from error


def _name(request: web.Request) -> str:
    return request.match_info["name"]


def _json(content: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(content), status=status, content_type="application/json")


def _error(status: int, message: str) -> web.Response:
    return _json({"status": {"error": message}, "time": 0.0}, status)
