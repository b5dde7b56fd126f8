"""Fixtures of all tests."""

from tests.support.brokers import apache_kafka_address, on_apache_kafka

__all__ = ["apache_kafka_address", "on_apache_kafka"]
