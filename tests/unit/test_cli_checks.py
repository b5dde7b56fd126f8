"""`profilestream doctor`: what it says of a broker that goes away while it is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka.errors import KafkaConnectionError, KafkaError, NodeNotReadyError, TopicAuthorizationFailedError

from streams import kafka
from streams.cli.checks import Check, _kafka, _run
from streams.settings import KafkaSettings, Settings

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="kafka:9092"))


class Failing:
    """A client that is connected, and of whose broker no answer comes any more."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def describe_cluster(self) -> None:
        raise self._error


async def checked(monkeypatch: pytest.MonkeyPatch, error: Exception) -> Check:
    @asynccontextmanager
    async def admin(_: KafkaSettings) -> AsyncIterator[Failing]:
        yield Failing(error)

    monkeypatch.setattr(kafka, "admin", admin)
    return await _run("Kafka", _kafka, SETTINGS)


@pytest.mark.parametrize(
    "error",
    [
        NodeNotReadyError("Attempt to send a request to node which is not ready (node id 111)."),
        KafkaConnectionError("Connection at kafka:9092 closed"),
    ],
    ids=repr,
)
async def test_a_broker_that_stops_meanwhile_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, error: KafkaError
) -> None:
    check = await checked(monkeypatch, error)
    assert check == Check(
        check="Kafka",
        ok=False,
        found="does not answer at kafka:9092",
        advice="start it, for example with `profilestream up`, or say where it is with kafka.bootstrap_servers "
        "(PROFILESTREAM_KAFKA__BOOTSTRAP_SERVERS)",
    )


async def test_what_a_broker_answers_with_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    check = await checked(monkeypatch, TopicAuthorizationFailedError("chat"))
    assert check.found.endswith("answers with an error, [Error 29] TopicAuthorizationFailedError: chat")
    assert check.advice.startswith("see its log, and check kafka.bootstrap_servers")


async def test_an_error_of_another_kind_is_not_taken_for_a_silent_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    check = await checked(monkeypatch, IndexError("no node"))
    assert check.found == "IndexError: no node"
