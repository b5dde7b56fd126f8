"""Fixtures of the chaos tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from benchmarks.harness import Overrides
from streams.embedded.services import EmbeddedServices
from tests.chaos.storm import Run, Stage, Storm, undisturbed
from tests.support.brokers import KafkaSettingsByName, own_names
from tests.support.which_broker import brokers

NewStage = Callable[..., Stage]
"""Makes the stage of a run, given its name and settings of its workers."""


@pytest.fixture(params=brokers("Apache Kafka", "embedded broker"))
def kafka(request: pytest.FixtureRequest) -> KafkaSettingsByName | None:
    """Kafka settings for `EmbeddedServices`: None for the embedded broker, then those of Apache Kafka."""
    return None if request.param == "embedded broker" else request.getfixturevalue("on_apache_kafka")


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def stores(
    apache_kafka_address: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[EmbeddedServices]:
    """The stores that all runs of the chaos tests share, beside Apache Kafka."""
    address: KafkaSettingsByName = {"bootstrap_servers": apache_kafka_address}
    async with EmbeddedServices(tmp_path_factory.mktemp("stores"), address) as services:
        yield services


@pytest.fixture
def new_stage(apache_kafka_address: str, stores: EmbeddedServices, tmp_path: Path) -> NewStage:
    """Makes stages with topics, groups, database and collection of their own."""

    def make(name: str, overrides: Overrides | None = None) -> Stage:
        return Stage(tmp_path / name, {**stores.settings, "kafka": own_names(apache_kafka_address)}, overrides)

    return make


@pytest.fixture(scope="package")
def storm() -> Storm:
    """The size of the storms; its seed is printed with every failure and at the end."""
    return Storm.of_environment()


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def calm(
    apache_kafka_address: str, stores: EmbeddedServices, storm: Storm, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """The undisturbed run that the storms are compared with."""
    services: Overrides = {**stores.settings, "kafka": own_names(apache_kafka_address)}
    return await undisturbed(Stage(tmp_path_factory.mktemp("calm"), services), storm)
