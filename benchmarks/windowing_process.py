"""One pass over the chat topic, in a process of its own: by the window agent of a worker, or by a plain loop.

``python -m benchmarks.windowing_process agent|plain MESSAGES`` reads the settings from the environment and prints one
line of JSON. Clocks start with the first records that come, so that neither start-up nor joining the group counts.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec
from aiokafka import TopicPartition

from schemas.codec import encode
from schemas.flushes import FlushRef
from schemas.pipeline import PipelineConfig
from schemas.windows import WindowState
from streams.app import Worker
from streams.kafka import cluster_id, consumer
from streams.logs import configure_logs
from streams.pipeline_file import load_pipeline
from streams.running import collect_seldom, run
from streams.runtime import Runtime
from streams.settings import Settings, load_settings
from streams.tables import RecordTable, durable_table
from streams.tokens import count_tokens
from streams.topics import Topics, ensure_topics

Kind = Literal["plain", "agent"]

_LOOK: Final = 0.005
_PATIENCE: Final = 120.0
"""Seconds without progress after which a pass is given up."""


class Pass(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass took.

    Attributes:
        seconds: from the first records to the last message being in an acknowledged flush batch, or in its group.
        processor: seconds of the processor that the whole process had meanwhile.
        batches: acknowledged flush batches, by lane; none of the plain loop.
    """

    kind: Kind
    messages: int
    seconds: float
    processor: float
    batches: dict[str, int] = {}


class _Clocks:
    """Time, and time of the processor, since it was made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._worked = time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._began, time.process_time() - self._worked


class WindowWorker(Worker):
    """A worker of which only the window agent runs, with its application, its table and its sender.

    Attributes:
        batches: that are acknowledged, by lane.
        windowed: messages in those of lane ``memo``.
    """

    def __init__(self, settings: Settings, config: PipelineConfig, *, log_id: str, partitions: int) -> None:
        # Without the worker's own constructor, which registers every other stage.
        self.batches: Counter[str] = Counter()
        self.windowed = 0
        self._pipeline = Runtime(settings, settings.kafka.group_id, partitions, lambda: None)
        windows = RecordTable(durable_table(self._pipeline.app, "windows", partitions, lambda: None), WindowState)
        self.window = self._window_agent(settings, config, windows, log_id, partitions)

    def _emitted(self, ref: FlushRef) -> None:
        self.batches[ref.lane] += 1
        if ref.lane == "memo":
            self.windowed += ref.message_count

    async def start(self) -> None:
        """Join the group and begin to process."""
        await self._start(self._pipeline)

    async def stop(self) -> None:
        """Commit and leave the group."""
        await self._pipeline.app.stop()


async def by_agent(settings: Settings, messages: int) -> Pass:
    """Take all messages with the window agent, until each is in a batch that the broker has.

    Raises:
        TimeoutError: when nothing moves any more.
    """
    partitions = await ensure_topics(settings.kafka)
    await asyncio.to_thread(count_tokens, "")  # loads the ranks, which takes a while
    log_id = settings.kafka.log_id or await cluster_id(settings.kafka)
    config = load_pipeline(settings.pipeline_file)
    worker = WindowWorker(settings, config, log_id=log_id, partitions=partitions)
    window = worker.window
    await worker.start()
    collect_seldom()  # as every worker does
    try:
        await _until(lambda: window.ledger.opened > 0, lambda: 0)
        clocks = _Clocks()
        await _until(
            lambda: worker.windowed >= messages and not window.running,
            lambda: window.ledger.opened + worker.windowed,
        )
        seconds, processor = clocks.read()
    finally:
        await worker.stop()
    return Pass(
        kind="agent", messages=worker.windowed, seconds=seconds, processor=processor, batches=dict(worker.batches)
    )


async def _until(done: Callable[[], bool], moved: Callable[[], int]) -> None:
    known, since = moved(), time.monotonic()
    while not done():
        await asyncio.sleep(_LOOK)
        now = moved()
        if now != known:
            known, since = now, time.monotonic()
        elif time.monotonic() - since > _PATIENCE:
            raise TimeoutError(f"nothing has happened for {_PATIENCE:.0f} s")


async def by_loop(settings: Settings, messages: int) -> Pass:
    """Take all messages with a client, decode each, and put it to the others of its user.

    Raises:
        TimeoutError: when no more come.
    """
    partitions = await ensure_topics(settings.kafka)
    places = [TopicPartition(Topics.of(settings.kafka).messages, number) for number in range(partitions)]
    read = msgspec.json.Decoder().decode
    groups: defaultdict[str, list[Any]] = defaultdict(list)
    count = 0
    async with consumer(settings.kafka) as client:
        client.assign(places)
        await client.seek_to_beginning(*places)
        fetched = await client.getmany(timeout_ms=round(_PATIENCE * 1000))
        clocks = _Clocks()
        while fetched:
            for records in fetched.values():
                for record in records:
                    message = read(record.value)
                    if "type" not in message:  # a message, and no control event
                        groups[message["user_id"]].append(message)
                        count += 1
            if count >= messages:
                seconds, processor = clocks.read()
                return Pass(kind="plain", messages=count, seconds=seconds, processor=processor)
            fetched = await client.getmany(timeout_ms=round(_PATIENCE * 1000))
    raise TimeoutError(f"{count:,} messages came, and then none for {_PATIENCE:.0f} s")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one pass, and print what it took as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.windowing_process", description=__doc__)
    parser.add_argument("kind", choices=("plain", "agent"))
    parser.add_argument("messages", type=int, help="how many the topic holds")
    options = parser.parse_args(arguments)
    configure_logs()
    one_pass = by_agent if options.kind == "agent" else by_loop
    print(encode(run(one_pass(load_settings(), options.messages))).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
