"""`be_patient`: a client asks for metadata at most once in each `retry_backoff_ms`."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest
from aiokafka.client import AIOKafkaClient

from streams import patience


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = AIOKafkaClient._metadata_update
    yield
    AIOKafkaClient._metadata_update = before


def test_the_client_still_has_what_is_replaced() -> None:
    assert list(inspect.signature(patience._ask).parameters) == ["self", "cluster_metadata", "topics"]
    assert "self._retry_backoff = retry_backoff_ms / 1000" in inspect.getsource(AIOKafkaClient.__init__)


async def test_requests_for_metadata_are_some_time_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    async def ask(self: AIOKafkaClient, *_arguments: object) -> bool:
        asked.append(time.monotonic())
        raise ConnectionRefusedError

    monkeypatch.setattr(patience, "_ask", ask)
    patience.be_patient()
    client = AIOKafkaClient(bootstrap_servers="127.0.0.1:1", retry_backoff_ms=60)
    other = AIOKafkaClient(bootstrap_servers="127.0.0.1:1", retry_backoff_ms=60)
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            await client._metadata_update(client.cluster, [])
    with pytest.raises(ConnectionRefusedError):
        await other._metadata_update(other.cluster, [])
    gaps = [after - before for before, after in pairwise(asked)]
    assert min(gaps[:2]) >= 0.06
    assert gaps[2] < 0.06
