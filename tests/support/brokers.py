"""The Apache Kafka that tests run on: a user's own, or one node started for the session from the fetched jars.

Which one, and what happens without any, is up to two variables:

- ``PROFILESTREAM_TEST_KAFKA``: bootstrap servers of a broker that runs already.
- ``PROFILESTREAM_TEST_REQUIRE_KAFKA``: ``1`` fails the tests that want Apache Kafka where there is none; without it
  they are skipped, with the reason.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

import pytest
import pytest_asyncio

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.kafka_jars import KafkaMissing
from streams.kafka import admin
from streams.settings import KafkaSettings

ADDRESS_VARIABLE = "PROFILESTREAM_TEST_KAFKA"
REQUIRED_VARIABLE = "PROFILESTREAM_TEST_REQUIRE_KAFKA"

KafkaSettingsByName = dict[str, str | int | float | bool]


def apache_kafka(folder: Path) -> ApacheKafka:
    """Return a node of the test's own, not started: for tests that stop, kill or restart it.

    Where there are no jars or no Java the test is skipped, or fails if Apache Kafka is required.
    """
    try:
        return ApacheKafka(folder)
    except KafkaMissing as error:
        _go_without(error)


def own_names(bootstrap_servers: str) -> KafkaSettingsByName:
    """Return settings with topics and a consumer group that no other test has, and groups that rebalance quickly."""
    own = f"test-{uuid4().hex[:12]}"
    return {
        "bootstrap_servers": bootstrap_servers,
        "topic_prefix": f"{own}.",
        "group_id": own,
        "session_timeout": 6.0,
        "rebalance_timeout": 6.0,
        "heartbeat_interval": 1.0,
    }


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def apache_kafka_address(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """Address of the Apache Kafka that all tests share."""
    address = os.environ.get(ADDRESS_VARIABLE)
    if address:
        yield address
        return
    async with apache_kafka(tmp_path_factory.mktemp("apache-kafka")) as broker:
        yield broker.bootstrap_servers


@pytest_asyncio.fixture
async def on_apache_kafka(apache_kafka_address: str) -> AsyncIterator[KafkaSettingsByName]:
    """Settings for the shared Apache Kafka with names of the test's own; its topics are deleted afterwards."""
    settings = own_names(apache_kafka_address)
    yield settings
    async with admin(KafkaSettings.model_validate(settings)) as client:
        if own := [name for name in await client.list_topics() if name.startswith(str(settings["group_id"]))]:
            await client.delete_topics(own)


def _go_without(error: KafkaMissing) -> NoReturn:
    if os.environ.get(REQUIRED_VARIABLE, "") not in {"", "0"}:
        pytest.fail(f"{error} ({REQUIRED_VARIABLE} is set)", pytrace=False)
    pytest.skip(str(error))
