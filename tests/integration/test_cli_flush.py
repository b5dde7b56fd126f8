"""`profilestream flush --wait`: what has come of a window, on a broker with a worker and on one without."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
from aiokafka import TopicPartition

from benchmarks.harness import WorkerProcess, environment
from schemas.codec import decode, encode
from schemas.dead_letters import DeadLetterReason
from schemas.flushes import FlushRef
from schemas.messages import ChatMessage, user_key
from streams.cli import unanswered
from streams.embedded.services import EmbeddedServices
from streams.kafka import consumer, producer
from streams.partitioning import partition_for
from streams.settings import KafkaSettings, variable
from streams.topics import Topics, ensure_topics
from streams.waiting import worker_count
from tests.integration.pipeline_support import FAST, said, write_chat
from tests.integration.test_cli_following import NOW, end_of
from tests.support.fakes import eventually
from tests.support.records import flush_batch, flush_ref

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

PARTITION = partition_for(user_key("default", "ada"), 4)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pipeline(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mapping[str, str]]:
    """The environment of commands for whom a worker runs."""
    folder = tmp_path_factory.mktemp("flush")
    async with EmbeddedServices(folder / "services") as services:
        env = environment(services.settings, FAST) | {"XDG_STATE_HOME": str(folder)}
        async with WorkerProcess(env, folder / "worker.log"):
            yield env


async def run(env: Mapping[str, str], *arguments: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "streams.cli", *arguments),
        env=dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 120)
    # On a slow machine it says after some seconds why it may have to wait.
    told = [line for line in err.decode().splitlines(keepends=True) if "no answer yet" not in line]
    return process.returncode, out.decode(), "".join(told)


async def publish(env: Mapping[str, str], folder: Path, user: str, *texts: str) -> None:
    code, _, err = await run(env, "publish", str(write_chat(folder / f"{user}.jsonl", said(user, *texts))))
    assert code == 0, err


def neighbour(user: str) -> str:
    """Return another user whose messages are in the same partition."""
    partition = partition_for(user_key("default", user), 4)
    return next(
        name
        for name in (f"{user}-{number}" for number in range(1000))
        if partition_for(user_key("default", name), 4) == partition
    )


async def test_it_waits_until_all_that_was_open_has_become_changes(pipeline: Mapping[str, str], tmp_path: Path) -> None:
    await publish(pipeline, tmp_path, "anna", "I live in Lyon.", "My dog is called Rex.")
    code, out, err = await run(pipeline, "flush", "anna", "--wait", "--timeout", "90", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["user_id"], found["closed_window"], found["complete"], found["parked"]) == ("anna", True, True, [])
    assert {flush["outcome"] for flush in found["flushes"]} <= {"applied", "empty"}
    (window,) = (flush for flush in found["flushes"] if flush["lane"] == "memo")
    assert (window["trigger"], window["messages"]) == ("flush", 2)
    last = max(flush["last_version"] for flush in found["flushes"] if flush["last_version"] is not None)
    _, listed, _ = await run(pipeline, "deltas", "--user", "anna", "--json")
    assert max(json.loads(line)["version"] for line in listed.splitlines()) == last


async def test_where_nothing_is_open_it_says_so_at_once_also_while_others_wait(
    pipeline: Mapping[str, str], tmp_path: Path
) -> None:
    """The window of another user keeps the partition from being acknowledged."""
    await publish(pipeline, tmp_path, neighbour("bert"), "I live in Bremen.")
    expected = (0, "no window of bert was open.\n", "")
    assert await run(pipeline, "flush", "bert", "--wait", "--timeout", "90") == expected


async def test_what_had_closed_before_is_told_apart(pipeline: Mapping[str, str], tmp_path: Path) -> None:
    await publish(pipeline, tmp_path, neighbour("carl"), "I live in Bremen.")
    await publish(pipeline, tmp_path, "carl", "Hello there!")
    assert (await run(pipeline, "flush", "carl"))[:2] == (0, "asked to close the window of carl, if one is open.\n")
    assert await run(pipeline, "flush", "carl", "--wait", "--timeout", "90") == (
        0,
        "no window of carl was open any more.\nwindow of 1 messages: nothing to be kept was said\n",
        "",
    )
    await publish(pipeline, tmp_path, "carl", "Good night!")
    _, out, _ = await run(pipeline, "flush", "carl", "--wait", "--timeout", "90")
    assert out.splitlines()[-1] == "window of 1 messages: nothing to be kept was said"
    assert "was open" not in out


@pytest.fixture
def alone(kafka: KafkaSettings, tmp_path: Path) -> dict[str, str]:
    """The environment of commands that find a broker and no worker."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PROFILESTREAM_", "OPENAI_"))}
    names = ("bootstrap_servers", "topic_prefix", "group_id", "single_record_batches")
    return (
        own
        | {"XDG_STATE_HOME": str(tmp_path)}
        | {variable(f"kafka.{name}"): str(getattr(kafka, name)) for name in names}
    )


async def write(kafka: KafkaSettings, topic: str, value: bytes, headers: list[tuple[str, bytes]] | None = None) -> int:
    async with producer(kafka) as client:
        key = user_key("default", "ada")
        sent = await client.send_and_wait(topic, value, key=key, partition=PARTITION, headers=headers or [])
    return int(sent.offset)


async def say(kafka: KafkaSettings, text: str) -> int:
    message = ChatMessage(user_id="ada", role="user", content=text)
    return await write(kafka, Topics.of(kafka).messages, encode(message))


async def requested(kafka: KafkaSettings) -> None:
    """Wait until the flush is on the chat topic."""
    async with consumer(kafka, Topics.of(kafka).messages) as client, asyncio.timeout(60):
        async for record in client:
            if decode(record.value, ChatMessage).type == "flush":
                return


def window(first: int, last: int) -> FlushRef:
    return flush_ref(first, last, partition=PARTITION, trigger="flush")


async def test_without_a_worker_it_says_so_and_what_to_do(kafka: KafkaSettings, alone: dict[str, str]) -> None:
    await ensure_topics(kafka)
    await say(kafka, "hello")
    code, out, err = await run(alone, "flush", "ada", "--wait", "--timeout", "2", "--json")
    assert code == 1
    assert json.loads(out) | {"offset": 0} == {
        "tenant_id": "default",
        "user_id": "ada",
        "topic": Topics.of(kafka).messages,
        "partition": PARTITION,
        "offset": 0,
        "closed_window": None,
        "complete": False,
        "flushes": [],
        "parked": [],
    }
    assert len(err.splitlines()) == 2
    assert err.startswith("profilestream: no worker is running: what was asked for is done once one does")
    assert "not all of it was processed within 2 s" in err


async def test_a_flush_that_failed_and_messages_that_are_parked_are_code_3(
    kafka: KafkaSettings, alone: dict[str, str]
) -> None:
    await ensure_topics(kafka)
    topics = Topics.of(kafka)
    first, second, third = [await say(kafka, text) for text in ("a", "b", "c")]
    asked = asyncio.create_task(run(alone, "flush", "ada", "--wait", "--timeout", "90"))
    await requested(kafka)
    batch = flush_batch(window(first, second))
    await write(kafka, topics.flushes, encode(batch))
    await write(kafka, topics.events, encode(end_of(batch.ref, outcome="failed", errors={"extract": "rubbish"})))
    why = DeadLetterReason(
        stage="window",
        reason="too_large",
        detail="larger than the broker takes",
        topic=topics.messages,
        partition=PARTITION,
        offset=third,
        attempts=1,
        failed_at=NOW,
    )
    await write(kafka, topics.dead_letters, b"c", why.headers())
    code, out, _ = await asked
    assert code == 3
    assert out.splitlines() == [
        "window of 2 messages: failed, and parked in the dead letters (`profilestream deadletters list`): "
        "extract: rubbish",
        f"message at offset {third}: parked in the dead letters: larger than the broker takes",
    ]


async def test_messages_of_which_no_batch_comes_are_over_when_the_workers_are_past_them(
    kafka: KafkaSettings, alone: dict[str, str]
) -> None:
    """A second copy of a message that was moved is acknowledged and in no batch."""
    await ensure_topics(kafka)
    await say(kafka, "a")
    asked = asyncio.create_task(run(alone, "flush", "ada", "--wait", "--timeout", "90"))
    await requested(kafka)
    place = TopicPartition(Topics.of(kafka).messages, PARTITION)
    async with consumer(kafka, group_id=kafka.group_id) as client:
        client.assign([place])
        await client.commit({place: 2})
    assert (await asked)[:2] == (0, "no window of ada was open.\n")


async def test_that_a_worker_may_have_been_killed_is_told_while_it_waits(
    kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ensure_topics(kafka)
    told: list[str] = []
    answered = asyncio.Event()

    def complain(sentence: str) -> None:
        told.append(sentence)
        answered.set()

    async def work() -> str:
        await answered.wait()
        return "done"

    monkeypatch.setattr(unanswered, "complain", complain)
    monkeypatch.setattr(unanswered, "_SOON", 0.1)
    async with consumer(kafka, Topics.of(kafka).messages, group_id=kafka.group_id) as member:
        await eventually(member.assignment, 60)
        assert await worker_count(kafka) == 1
        assert await unanswered.tell_while_waiting(kafka, work(), 90) == "done"
    assert told == [
        "no answer yet: the users of a worker that was killed stand still until the others take them over, 6 s later "
        "(kafka.session_timeout); waiting up to 90 s"
    ]
