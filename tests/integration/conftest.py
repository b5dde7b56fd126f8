"""Fixtures of the integration tests."""

from tests.integration.broker_fixtures import broker, kafka
from tests.integration.memo_lane_fixtures import model_lane, rule_lane

__all__ = ["broker", "kafka", "model_lane", "rule_lane"]
