"""Fixtures of the client's tests; the client is a distribution of its own and is tested as it lies in `client/`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from streams.settings import KafkaSettings
from tests.integration.broker_fixtures import broker, own_topics

CLIENT = Path(__file__).parents[2] / "client"
sys.path.insert(0, str(CLIENT))

__all__ = ["broker"]


@pytest.fixture(params=["embedded", "apache"])
def kafka(request: pytest.FixtureRequest) -> KafkaSettings:
    """Settings for a broker, of either kind, with topics of the test's own."""
    if request.param == "embedded":
        return own_topics(request.getfixturevalue("broker"))
    return KafkaSettings.model_validate(request.getfixturevalue("on_apache_kafka"))
