"""Which brokers the slow tests run on that know both: Apache Kafka where it is there, else the embedded one.

``PROFILESTREAM_TEST_BOTH_BROKERS=1`` runs them on both.
"""

from __future__ import annotations

import os

from benchmarks.kafka_jars import KafkaMissing, fetched
from tests.support.brokers import ADDRESS_VARIABLE, REQUIRED_VARIABLE


def brokers(apache: str, embedded: str) -> list[str]:
    """Return the parameters of a fixture, given what it calls the two."""
    if os.environ.get("PROFILESTREAM_TEST_BOTH_BROKERS", "") not in {"", "0"}:
        return [embedded, apache]
    return [apache] if _has_apache_kafka() else [embedded]


def _has_apache_kafka() -> bool:
    if os.environ.get(ADDRESS_VARIABLE) or os.environ.get(REQUIRED_VARIABLE, "") not in {"", "0"}:
        return True
    try:
        fetched()
    except KafkaMissing:
        return False
    return True
