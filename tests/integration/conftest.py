"""Fixtures of the integration tests."""

from tests.integration.broker_fixtures import broker, kafka

__all__ = ["broker", "kafka"]
