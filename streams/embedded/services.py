"""`EmbeddedServices`: broker, ClickHouse and Qdrant on this machine, with nothing installed but Python packages."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Self

from streams.embedded.child import Child, ServiceFailed
from streams.embedded.kafka import EmbeddedKafka

ServiceGroup = dict[str, str | int | float | bool]
ServiceSettings = dict[str, ServiceGroup]


class EmbeddedServices:
    """The three services of one data directory, as an asynchronous context manager.

    The directory keeps the ClickHouse tables and the vectors; the broker keeps nothing.

    Args:
        data_dir: owned by one instance at a time; created when missing.
        kafka: Kafka settings of a broker that runs already; without them one is started.
    """

    def __init__(self, data_dir: Path, kafka: ServiceGroup | None = None) -> None:
        self._data_dir = data_dir
        self._kafka_settings = kafka
        logs = data_dir / "logs"
        self.kafka = EmbeddedKafka(logs)
        self.clickhouse = Child("clickhouse", logs)
        self.qdrant = Child("qdrant", logs)
        self.settings: ServiceSettings = {}

    async def __aenter__(self) -> Self:
        """Start all three and wait until they answer.

        Raises:
            ServiceFailed: when one does not start; the others are stopped then.
        """
        try:
            self._data_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ServiceFailed(f"the data directory {self._data_dir} cannot be made: {error.strerror}") from error
        starts = (
            asyncio.create_task(self._start_local(self.clickhouse)),
            asyncio.create_task(self._start_local(self.qdrant)),
            asyncio.create_task(self._start_kafka()),
        )
        try:
            clickhouse, qdrant, kafka = await asyncio.gather(*starts)
        except BaseException:
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
            await self.stop()
            raise
        self.settings = {
            "kafka": kafka,
            "clickhouse": {"url": f"http://127.0.0.1:{clickhouse}"},
            "qdrant": {"url": f"http://127.0.0.1:{qdrant}"},
        }
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def processes(self) -> dict[str, int]:
        """Process numbers by service."""
        return {child.name: child.pid for child in self._children}

    @property
    def _children(self) -> tuple[Child, ...]:
        own = (self.clickhouse, self.qdrant)
        return own if self._kafka_settings else (self.kafka.child, *own)

    async def _start_kafka(self) -> ServiceGroup:
        if self._kafka_settings is None:
            await self.kafka.start()
            return self.kafka.settings()
        return self._kafka_settings

    async def _start_local(self, child: Child, port: int = 0) -> int:
        command = [sys.executable, "-m", f"streams.embedded.{child.name}", "--path", str(self._data_dir / child.name)]
        answer = await child.start([*command, "--port", str(port), "--die-with-parent", str(os.getpid())])
        return int(answer["port"])

    async def restart_clickhouse(self) -> None:
        """Start ClickHouse again, where it was, after it has ended."""
        port = str(self.settings["clickhouse"]["url"]).rpartition(":")[2]
        await self._start_local(self.clickhouse, int(port))

    async def stop(self) -> None:
        """Stop what runs, the broker last."""
        await asyncio.gather(self.clickhouse.stop(), self.qdrant.stop())
        await self.kafka.stop()

    async def first_to_end(self) -> str:
        """Wait until one of the services ends by itself and return its name: none of them should."""
        waits = {asyncio.create_task(child.wait()): child.name for child in self._children}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return waits[done.pop()]
