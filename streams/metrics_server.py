"""The address at which Prometheus reads a worker's metrics."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from streams.metrics import REGISTRY
from streams.settings import MetricsSettings

logger = logging.getLogger(__name__)

_PORTS_TRIED: Final = 100
_HIGHEST_PORT: Final = 65535


class MetricsUnavailable(Exception):
    """No port is free; the message is one sentence with the next step."""


async def _metrics(request: web.Request) -> web.Response:
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return web.Response(body=encode(REGISTRY), headers={"Content-Type": content_type})


@asynccontextmanager
async def serve_metrics(settings: MetricsSettings, *collectors: Collector) -> AsyncIterator[str | None]:
    """Serve ``/metrics`` within the block, and yield its address; None where that is switched off.

    Several workers on one host each take the first port that is free, from the one that is set.

    Args:
        settings: where to listen.
        collectors: what else is read at each request, beside what the process counts.

    Raises:
        MetricsUnavailable: when the host is not of this machine, or no port is free.
    """
    if not settings.enabled:
        yield None
        return
    app = web.Application()
    app.router.add_get("/metrics", _metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    for collector in collectors:
        REGISTRY.register(collector)
    try:
        port = await _listen(runner, settings)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"http://{host}:{port}/metrics"
        logger.info("metrics at %s", address)
        yield address
    finally:
        for collector in collectors:
            REGISTRY.unregister(collector)
        await runner.cleanup()


async def _listen(runner: web.AppRunner, settings: MetricsSettings) -> int:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    last = min(settings.port + _PORTS_TRIED - 1, _HIGHEST_PORT) if settings.port else 0
    for port in range(settings.port, last + 1):
        try:
            listening = socket.create_server((settings.host, port), family=family)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                continue
            raise MetricsUnavailable(
                f"metrics cannot be served at {settings.host}:{port} ({error.strerror}): set metrics.host and "
                "metrics.port, or metrics.enabled to false"
            ) from error
        await web.SockSite(runner, listening).start()
        return int(listening.getsockname()[1])
    raise MetricsUnavailable(
        f"no port from {settings.port} to {last} is free for the metrics: set metrics.port, or metrics.enabled to false"
    )
