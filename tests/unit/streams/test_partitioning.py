"""`partition_for`: the same partition as every other Kafka client chooses."""

from __future__ import annotations

import pytest
from aiokafka.partitioner import DefaultPartitioner
from hypothesis import given
from hypothesis import strategies as st

from streams.partitioning import partition_for

# Hash values of Kafka's own tests for its Java client.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "hashed"), JAVA.items())
@pytest.mark.parametrize("partitions", [1, 4, 7, 64])
def test_a_key_goes_where_the_java_client_sends_it(key: bytes, hashed: int, partitions: int) -> None:
    assert partition_for(key, partitions) == (hashed & 0x7FFFFFFF) % partitions


@given(st.binary(min_size=1, max_size=300), st.integers(1, 50))
def test_a_key_goes_where_aiokafka_sends_it(key: bytes, partitions: int) -> None:
    everything = list(range(partitions))
    assert partition_for(key, partitions) == DefaultPartitioner()(key, everything, everything)
