"""Which partition a key belongs to: the partitioner of Kafka's Java client and of aiokafka (murmur2)."""

from __future__ import annotations

from functools import lru_cache

from aiokafka.partitioner import murmur2


@lru_cache(maxsize=100_000)
def partition_for(key: bytes, partitions: int) -> int:
    """Return the partition of `key` on a topic with that many partitions."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)
