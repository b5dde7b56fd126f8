"""`ApacheKafka`: one node of Apache Kafka on this machine, which can be stopped, killed and started again.

The jars come from `benchmarks.kafka_jars`. The node is broker and KRaft controller in one process.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import time
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

from benchmarks.kafka_jars import fetched, java_program
from streams.embedded.child import Child, ServiceFailed, free_port, listens
from streams.kafka import KafkaUnavailable, cluster_id
from streams.settings import KafkaSettings

_JVM: Final = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Little memory, and a start that does not wait for the optimising compiler."""

_SERVER: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "BROKER",
    "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # One node can hold one copy; its internal topics need no more than one partition.
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # A topic that nobody created is a mistake, and a group need not wait for members that may follow.
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    # A test may find a dead member sooner than a production group wants to.
    "group.min.session.timeout.ms": "1000",
    # After a kill the node registers only once its former registration has timed out.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
}

_LOGGING: Final = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
"""

_TAIL: Final = 20
"""Lines of its log that the exception shows when it does not start."""


class ApacheKafka:
    """One node, as an asynchronous context manager, in a folder of its own.

    What it holds survives `stop`, `kill` and `restart`: the folder keeps the data, the addresses stay the same. It ends
    with the process that started it, which must do so from its main thread and use one event loop for it.

    Args:
        folder: for its data, configuration and log; created when missing, not removed.
        jars: folder of the jars; by default those that were fetched.

    Attributes:
        bootstrap_servers: its address on 127.0.0.1, known as soon as the object exists.
        cluster_id: the id its storage was made with.
        started_in: seconds that the last start took, the formatting of new storage included.

    Raises:
        KafkaMissing: when there are no jars or no Java that runs them.
    """

    def __init__(self, folder: Path, jars: Path | None = None) -> None:
        self._folder = folder
        self._java = [java_program(), *_JVM, "-cp", str((jars or fetched()) / "*")]
        self._properties = folder / "server.properties"
        self._data = folder / "data"
        self._child = Child("kafka", folder)
        self._controller = f"127.0.0.1:{free_port()}"
        self.bootstrap_servers = f"127.0.0.1:{free_port()}"
        self.cluster_id = base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        self.started_in = 0.0

    @property
    def log(self) -> Path:
        """File of its warnings and errors."""
        return self._folder / "kafka.log"

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._child.alive

    def settings(self) -> dict[str, str | int | float | bool]:
        """Return the Kafka settings of its clients."""
        return {"bootstrap_servers": self.bootstrap_servers}

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start it, with new storage the first time, and wait until an admin client gets an answer.

        Raises:
            ServiceFailed: when it does not start; the message has the end of its log.
        """
        begun = time.monotonic()
        if not self._properties.exists():
            await self._format()
        kafka = KafkaSettings.model_validate(self.settings())

        async def answers() -> bool:
            try:
                return await listens(self.bootstrap_servers) and await cluster_id(kafka) == self.cluster_id
            except KafkaUnavailable:
                return False

        logging = f"-Dlog4j2.configurationFile={self._logging}"
        try:
            await self._child.start([*self._java, logging, "kafka.Kafka", str(self._properties)], ready=answers)
        except ServiceFailed as error:
            raise self._failed("did not start", self.log.read_text(errors="replace")) from error
        self.started_in = time.monotonic() - begun

    async def stop(self) -> None:
        """End it in order: SIGTERM, and SIGKILL when that is not enough."""
        await self._child.stop()

    async def kill(self) -> None:
        """End it with SIGKILL."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
            await self._child.wait()

    async def restart(self) -> None:
        """Stop it, if it runs, and start it again with its data at the same address.

        Raises:
            ServiceFailed: when it does not start.
        """
        await self.stop()
        await self.start()

    @property
    def _logging(self) -> Path:
        return self._folder / "log4j2.properties"

    async def _format(self) -> None:
        """Write the configuration and make the storage, with the only controller as its quorum."""
        listeners = {"BROKER": self.bootstrap_servers, "CONTROLLER": self._controller}
        own: dict[str, Any] = {
            "log.dirs": self._data,
            "listeners": ",".join(f"{name}://{address}" for name, address in listeners.items()),
            "controller.quorum.bootstrap.servers": self._controller,
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        self._logging.write_text(_LOGGING)
        new = self._properties.with_suffix(".new")
        new.write_text("".join(f"{name}={value}\n" for name, value in {**_SERVER, **own}.items()))
        # In one argument with its name, because an id may begin with a dash.
        arguments = ("format", "--standalone", f"--cluster-id={self.cluster_id}", "--config", str(new))
        process = await asyncio.create_subprocess_exec(
            *self._java,
            f"-Dlog4j2.configurationFile={self._logging}",
            "kafka.tools.StorageTool",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            raise self._failed("could not make its storage", said.decode(errors="replace"))
        new.rename(self._properties)

    def _failed(self, what: str, log: str) -> ServiceFailed:
        tail = "\n".join(log.strip().splitlines()[-_TAIL:])
        return ServiceFailed(f"Apache Kafka {what} (log: {self.log}):\n{tail}")
