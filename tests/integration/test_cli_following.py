"""What the commands that follow topics say: `profilestream deltas --follow`, and the watcher of the demo."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from schemas.codec import encode
from schemas.deltas import FlushEvent, PreferenceDetail, ProfileDelta, Timings
from schemas.flushes import FlushBatch, FlushRef, Signals
from schemas.ids import event_id
from schemas.messages import user_key
from streams.cli.deltas import Repeats
from streams.cli.printing import local_time
from streams.cli.watch import Watcher
from streams.kafka import producer
from streams.settings import KafkaSettings, variable
from streams.topics import Topics, ensure_topics
from tests.integration.broker_fixtures import own_topics, running_broker
from tests.support.fakes import eventually, settled
from tests.support.records import flush_batch, flush_ref

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def delta(version: int, **changes: Any) -> ProfileDelta:
    fields: dict[str, Any] = {
        "delta_id": f"d{version}",
        "tenant_id": "default",
        "user_id": "ada",
        "version": version,
        "flush_id": "f",
        "index": 0,
        "op": "add",
        "topic": "time",
        "sub_topic": "",
        "before": None,
        "after": "Prefers mornings",
        "added": "Prefers mornings",
        "reason": "shown",
        "evidence": ("m1",),
        "update_hits": 1,
        "said_at": NOW,
        "recorded_at": NOW,
        "processor": "rules",
        "pipeline_version": "p",
        "kind": "preference",
        "item_id": "p1",
        "preference": PreferenceDetail(strength=0.8),
    }
    return ProfileDelta(**fields | changes)


async def send(kafka: KafkaSettings, topic: str, record: object) -> None:
    async with producer(kafka) as client:
        await client.send_and_wait(topic, encode(record), key=user_key("default", "ada"))


@asynccontextmanager
async def following(kafka: KafkaSettings, folder: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PROFILESTREAM_", "OPENAI_"))}
    own |= {"XDG_STATE_HOME": str(folder), "TZ": "UTC"}
    for name in ("bootstrap_servers", "topic_prefix", "single_record_batches"):
        own[variable(f"kafka.{name}")] = str(getattr(kafka, name))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "streams.cli", "deltas", "--follow", *arguments),
        env=own,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


async def line_of(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    return (await asyncio.wait_for(stream.readline(), 45)).decode().rstrip("\n")


async def test_one_kind_of_one_user_is_followed(kafka: KafkaSettings, tmp_path: Path) -> None:
    await ensure_topics(kafka)
    topic = Topics.of(kafka).deltas
    await send(kafka, topic, delta(1, kind="slot", topic="work", sub_topic="title", preference=None))
    await send(kafka, topic, delta(9, tenant_id="t1"))  # somebody else with the same id
    await send(kafka, topic, delta(2))
    async with following(kafka, tmp_path, "--kind", "preference", "--user", "ada") as process:
        assert await line_of(process.stdout) == (
            "2026-03-01 12:00:00  ada v2  + preference/time  Prefers mornings  ×1  strength 0.80  (shown)  [m1]"
        )


async def test_a_delta_that_is_published_again_is_printed_once(kafka: KafkaSettings, tmp_path: Path) -> None:
    await ensure_topics(kafka)
    topic = Topics.of(kafka).deltas
    for version in (1, 2, 1, 2, 3):
        await send(kafka, topic, delta(version))
    async with following(kafka, tmp_path, "--json", "--limit", "3") as process:
        printed = [msgspec.json.decode(await line_of(process.stdout))["version"] for _ in range(3)]
    assert printed == [1, 2, 3]


def test_so_many_deltas_are_remembered_and_no_more() -> None:
    repeats = Repeats(2)
    assert [repeats.has(delta(version)) for version in (1, 2, 1, 3, 1, 2)] == [False, False, True, False, True, False]


async def test_a_broker_that_stands_still_is_told_once_and_so_is_its_return(tmp_path: Path) -> None:
    with running_broker(tmp_path) as (address, broker):
        kafka = own_topics(address)
        topic = Topics.of(kafka).deltas
        await ensure_topics(kafka)
        await send(kafka, topic, delta(1))
        async with following(kafka, tmp_path, "--json") as process:
            assert '"version":1' in await line_of(process.stdout)
            broker.send_signal(signal.SIGSTOP)
            try:
                said = await line_of(process.stderr)
            finally:
                broker.send_signal(signal.SIGCONT)
            assert said == f"profilestream: Kafka at {address} does not answer; still trying"
            assert await line_of(process.stderr) == f"profilestream: Kafka at {address} answers again"
            await send(kafka, topic, delta(2))
            assert '"version":2' in await line_of(process.stdout)


def message_batch(offset: int) -> FlushBatch:
    """Return the batch of lane ``facts`` that one of ada's messages makes."""
    ref = flush_ref(offset, offset, lane="facts", flush_id=f"facts-{offset}", trigger="signal")
    return msgspec.structs.replace(
        flush_batch(ref), signals=Signals(facts=("location",), preferences=("style_request",))
    )


def end_of(ref: FlushRef, **changes: Any) -> FlushEvent:
    fields: dict[str, Any] = {
        "event_id": event_id(ref.flush_id),
        "flush": ref,
        "outcome": "applied",
        "timings": Timings(),
        "recorded_at": NOW,
        "processor": "rules",
        "pipeline_version": "p",
        "first_version": None,
        "last_version": None,
        "errors": {},
    }
    lists = dict.fromkeys(("memo", "tags", "messages", "delta_ids", "calls", "dropped"), ())
    return FlushEvent(**fields | lists | changes)


async def test_the_demo_is_done_when_windows_and_messages_read_at_once_have_ended(kafka: KafkaSettings) -> None:
    await ensure_topics(kafka)
    topics = Topics.of(kafka)
    at_once, window = message_batch(1), flush_batch(flush_ref(0, 2))
    output = io.StringIO()
    async with Watcher(Console(file=output, width=100, markup=False, highlight=False), kafka) as watcher:
        watcher.expect(3)
        done = asyncio.create_task(watcher.until_done(still=30))
        await send(kafka, topics.events, end_of(window.ref))  # read before the window that it ends
        await send(kafka, topics.flushes, at_once)
        await send(kafka, topics.flushes, window)
        await send(kafka, topics.deltas, delta(1))
        await eventually(lambda: len(output.getvalue().splitlines()) == 3)
        await settled()
        assert not done.done()
        await send(kafka, topics.events, end_of(at_once.ref, outcome="failed", errors={"facts": "no model"}))
        await asyncio.wait_for(done, 30)
    assert watcher.failed == 1
    assert [change.version for change in watcher.deltas] == [1]
    assert sorted(output.getvalue().splitlines()) == [
        f"{local_time(NOW)}  ada v1  + preference/time  Prefers mornings  ×1  strength 0.80  (shown)  [m1]",
        "flush of ada failed: {'facts': 'no model'}",
        "message ada: 30 tokens; read at once because it hints at location, style request",
        "window ada: 3 messages, 30 tokens; closed because nothing came for a while",
    ]
