"""Lines that somebody wants to publish: each is sent as it is under its user's key, or refused in one sentence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import encode
from schemas.messages import ChatMessage, decode_message
from streams.lines import LineSplitter
from streams.publishing import Publisher, Refusal
from tests.unit.fuzz.mutations import Mutator, long_texts, within

LINES = [
    encode(ChatMessage(user_id="ada", role="user", content="I live in Oslo. 🦜", speaker="Ada", message_id="m")),
    encode(ChatMessage(user_id="a:b", role="assistant", content="住在哪里？", tenant_id="t")),
    encode(ChatMessage(user_id="ada", type="flush")),
    b'{"user_id": "ada", "content": "x", "role": "user", "more": {"a": [1, 2.5e3, null, "\\ud83e\\udd9c"]}}',
]


class Broker:
    """A producer that takes everything."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, bytes]] = []

    async def send(self, _topic: str, *, value: bytes, key: bytes) -> asyncio.Future[None]:
        self.sent.append((key, value))
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


async def publish(data: bytes, tenant: str | None, chunk: int = 1 << 16) -> tuple[Publisher, Broker, list[Refusal]]:
    """Publish the lines of a file."""
    broker, refusals = Broker(), list[Refusal]()
    publisher = Publisher(broker, "chat", on_refused=refusals.append, tenant=tenant)  # type: ignore[arg-type]

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(data), chunk):
            yield data[start : start + chunk]

    await publisher.publish("file", chunks())
    await publisher.flush_windows()
    return publisher, broker, refusals


@pytest.mark.parametrize("tenant", [None, "other"])
async def test_a_line_with_something_wrong_is_sent_or_refused(tenant: str | None) -> None:
    lines = [line.replace(b"\n", b" ") for line in Mutator(LINES, seed=10).draw(2_000)]
    publisher, broker, refusals = await publish(b"\n".join(lines), tenant)
    sent = broker.sent[: publisher.sent]
    assert publisher.sent + publisher.refused == sum(bool(line.strip()) for line in lines)
    assert publisher.refused == len(refusals) > 100
    assert publisher.sent > 50
    assert all(decode_message(value).key == key for key, value in broker.sent)
    if tenant is None:
        assert {value for _, value in sent} <= {line.removesuffix(b"\r") for line in lines}
    assert all(refusal.reason for refusal in refusals)


@pytest.mark.parametrize("tenant", [None, "other"])
async def test_long_lines_take_no_long_time(tenant: str | None) -> None:
    for text in long_texts(50_000):
        with within(1, text):
            await publish(text.encode() + b"\n" + text.encode(), tenant)


def any_value() -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    )


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.binary(max_size=30) | st.sampled_from(LINES) | any_value().map(repr).map(str.encode), max_size=6),
    st.integers(1, 50),
)
def test_any_lines_in_any_pieces(lines: list[bytes], chunk: int) -> None:
    data = b"\n".join(lines)
    whole = asyncio.run(publish(data, None))
    pieces = asyncio.run(publish(data, None, chunk))
    assert (whole[1].sent, whole[2]) == (pieces[1].sent, pieces[2])


@settings(max_examples=200)
@given(st.binary(max_size=300), st.integers(1, 40), st.integers(1, 40))
def test_lines_are_those_of_the_file_but_for_those_that_are_too_long(data: bytes, limit: int, chunk: int) -> None:
    splitter = LineSplitter(limit)
    found = [line for start in range(0, len(data), chunk) for line in splitter.feed(data[start : start + chunk])]
    found += splitter.finish()
    first, *rest = data.split(b"\n")
    expected = [first.removeprefix(b"\xef\xbb\xbf"), *rest] if first or rest else []
    if rest and not rest[-1]:
        del expected[-1]
    assert [line.number for line in found] == list(range(1, len(expected) + 1))
    for line, text in zip(found, expected, strict=True):
        assert line.data is None or line.data == text.removesuffix(b"\r")
        assert (line.data is None) == (line.size > limit)
