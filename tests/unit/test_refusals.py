"""`profilestream_client.refusals` without a broker: what can be told from how a connection ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from profilestream_client import refusals
from profilestream_client.refusals import find_refusal

from streams.embedded.child import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(answer: Answer) -> AsyncIterator[str]:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.close()


async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


def plain(*servers: str) -> dict[str, object]:
    return {"bootstrap_servers": list(servers), "security_protocol": "PLAINTEXT"}


async def test_who_hangs_up_expects_another_protocol() -> None:
    async with listening(hang_up) as address:
        refusal = await find_refusal(plain(address))
    assert refusal is not None
    assert refusal.what == "protocol"
    assert refusal.sentence == f"Kafka at {address} does not take connections by PLAINTEXT"


async def test_where_nobody_listens_nobody_refuses() -> None:
    nobody = f"127.0.0.1:{free_port()}"
    assert await find_refusal(plain(nobody)) is None
    async with listening(hang_up) as address:
        refusal = await find_refusal(plain(nobody, address))
    assert refusal is not None
    assert address in refusal.sentence


async def test_who_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "_LIMIT", 0.2)
    async with listening(say_nothing) as address:
        assert await asyncio.wait_for(find_refusal(plain(address)), 10) is None
