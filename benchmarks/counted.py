"""What work costs, counted and not timed: the same on every machine.

Model calls and tokens of the stages, records and bytes on the topics, and the memory of messages in open windows, for
traffic that a seed decides.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import math
import tempfile
import tracemalloc
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from aiokafka import TopicPartition
from faust.types import TP
from faust.types.tuples import ConsumerMessage

from agents.window import WindowAgent
from benchmarks.harness import Overrides, WorkerProcess, environment, read_topics
from benchmarks.load.traffic import Traffic
from benchmarks.model_cost import measure
from schemas.messages import decode_message
from schemas.pipeline import Language, PipelineConfig
from schemas.windows import WindowState
from streams.backoff import Backoff
from streams.dead_letters import DeadLetters
from streams.delivery import Delivered
from streams.embedded.services import EmbeddedServices
from streams.kafka import consumer, producer
from streams.partitioning import partition_for
from streams.sender import Sender
from streams.settings import KafkaSettings, load_settings
from streams.tokens import count_tokens
from streams.topics import Topics, ensure_topics
from streams.windows import WindowPolicy

Counts = dict[str, float]
"""What was counted, by its name."""

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)
_LANGUAGES: Final[Mapping[Language, float]] = {"en": 0.0, "zh": 1.0}
_LIMIT: Final = 300.0

_BY_NUMBER: Final[Overrides] = {
    "window": {"messages": 8, "idle": 86_400.0, "age": 86_400.0},
    "kafka": {"partitions": 2},
    "metrics": {"enabled": False},
    "model": {"processor": "rules"},
}
"""Windows that close by what is in them, and never by the clock."""


async def model_work(messages: int = 1_000) -> Counts:
    """Count calls and tokens of every stage, in both languages, with windows of the default budget."""
    found: Counts = {}
    for language, chinese in _LANGUAGES.items():
        traffic = Traffic(messages=messages, users=messages // 50, chinese=chinese)
        said = [decode_message(record.value) for record in traffic.records(_START)]
        cost = await measure(said, PipelineConfig(language=language), WindowPolicy(), idle=False)
        found[f"model.{language}.flushes"] = cost.flushes
        for name, stage in sorted(cost.stages.items()):
            found[f"model.{language}.{name}.calls"] = stage.calls
            found[f"model.{language}.{name}.static_tokens"] = stage.static
            found[f"model.{language}.{name}.payload_tokens"] = stage.payload
    return found


async def records(messages: int = 480) -> Counts:
    """Count what a worker with the rules writes on each topic, on the embedded services."""
    traffic = Traffic(messages=messages, users=messages // 24)
    with tempfile.TemporaryDirectory(prefix="profilestream-") as folder:
        async with EmbeddedServices(Path(folder)) as services:
            env = environment(services.settings, _BY_NUMBER)
            merged = {**services.settings, **_BY_NUMBER, "kafka": {**services.settings["kafka"], **_BY_NUMBER["kafka"]}}
            kafka = load_settings(overrides=merged).kafka
            sent = await _publish(kafka, traffic)
            async with WorkerProcess(env, Path(folder) / "worker.log"):
                await read_topics(kafka, lambda written: written.messages == sent and written.complete, _LIMIT)
            return await _on_topics(kafka)


async def _publish(kafka: KafkaSettings, traffic: Traffic) -> int:
    """Send the traffic, and a request to close each window behind it; returns how many messages there were."""
    partitions = await ensure_topics(kafka)
    topic = Topics.of(kafka).messages
    async with producer(kafka) as client:
        keys: dict[bytes, bytes] = {}
        count = 0
        for record in traffic.records(_START):
            keys[record.key] = record.value
            await client.send(topic, record.value, record.key, partition_for(record.key, partitions))
            count += 1
        for key, value in keys.items():
            close = json.dumps({"type": "flush", "user_id": decode_message(value).user_id}).encode()
            await client.send(topic, close, key, partition_for(key, partitions))
        await client.flush()
    return count


async def _on_topics(kafka: KafkaSettings) -> Counts:
    names = Topics.of(kafka)
    partitions = await ensure_topics(kafka)
    found: Counts = {}
    async with consumer(kafka) as client:
        for field, topic in dataclasses.asdict(names).items():
            places = [TopicPartition(topic, number) for number in range(partitions)]
            client.assign(places)
            await client.seek_to_beginning(*places)
            ends = await client.end_offsets(places)
            count = size = 0
            while any([await client.position(place) < ends[place] for place in places]):
                for batch in (await client.getmany(*places, timeout_ms=500)).values():
                    count += len(batch)
                    size += sum(len(record.value or b"") for record in batch)
            found[f"topic.{field}.records"] = count
            found[f"topic.{field}.bytes"] = size
    return found


async def window_memory(messages: int = 50_000, users: int = 5_000) -> Counts:
    """Count the bytes that a message of 200 bytes takes while it waits in an open window."""
    agent = _agent()
    agent.resume()
    count_tokens("")
    body = b'{"user_id":"user-%d","role":"user","session_id":"s","message_id":"m-%d","content":"%s"}'
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(messages):
            text = b"%07d " % number * 12
            value = body % (number % users, number, text)
            await agent.take(_event(number, b"default:user-%d" % (number % users), value))
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert agent.windows.items == messages
    return {"window.bytes_a_message": round((after - before) / messages)}


def _event(offset: int, key: bytes, value: bytes) -> Any:
    message = ConsumerMessage(
        "chat", 0, offset, _START.timestamp(), 0, [], key, value, None, len(key), len(value), TP("chat", 0)
    )
    nowhere: Any = None
    return Delivered(nowhere, message)


class _Nowhere:
    """Source, table and topics of an agent that closes no window: nothing of them is used but what is here."""

    def is_current(self, _event: object) -> bool:
        return True

    def read(self, _key: bytes) -> WindowState | None:
        return None

    async def produce(self, *_record: object, **_options: object) -> None:
        raise AssertionError("nothing is sent")


def _agent() -> WindowAgent:
    async def log_ends(partitions: Sequence[int]) -> list[int]:
        return [0] * len(partitions)

    nowhere: Any = _Nowhere()
    sender = Sender(nowhere.produce)
    now = partial(datetime.now, UTC)
    return WindowAgent(
        source=nowhere,
        sender=sender,
        dead_letters=DeadLetters(sender, "letters", now),
        table=nowhere,
        policy=WindowPolicy(tokens=10**9, messages=10**9, idle=math.inf, age=math.inf, horizon=10**9),
        log_id="counted",
        partitions=1,
        messages="chat",
        flushes="flushes",
        candidates="candidates",
        backoff=Backoff(0.1, 1.0),
        log_ends=log_ends,
        now=now,
    )


async def everything() -> Counts:
    """Count all of it."""
    return {**await model_work(), **await records(), **await window_memory()}


def grown(before: Mapping[str, float], now: Mapping[str, float], share: float = 0.1) -> list[str]:
    """Return what has become more than that share larger, or is not counted any more, in words."""
    found = [f"{name} is not counted any more" for name in before if name not in now]
    for name, value in now.items():
        known = before.get(name)
        if known is None:
            found.append(f"{name} is new: it is {value:,.0f}")
        elif value > known * (1 + share):
            more = f"{value / known - 1:.0%} more" if known else "there was none"
            found.append(f"{name} is {value:,.0f}, it was {known:,.0f}: {more}")
    return found
