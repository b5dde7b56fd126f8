"""`profilestream publish` and `deltas` as a user runs them, against a real broker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from schemas.codec import encode
from schemas.deltas import ProfileDelta
from schemas.messages import MAX_MESSAGE_BYTES, user_key
from streams.embedded.child import free_port
from streams.kafka import producer
from streams.settings import KafkaSettings, variable
from streams.tail import tail
from streams.topics import Topics, ensure_topics
from tests.integration.broker_fixtures import own_topics, running_broker

PROGRAM = [sys.executable, "-c", "from streams.cli import main; main()"]


@pytest.fixture
def environment(kafka: KafkaSettings, tmp_path: Path) -> dict[str, str]:
    return variables(kafka, tmp_path)


def variables(kafka: KafkaSettings, tmp_path: Path) -> dict[str, str]:
    """Variables of a command that is to use this broker and nothing else of this machine."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PROFILESTREAM_", "OPENAI_"))}
    own |= {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_DATA_HOME": str(tmp_path / "share"), "TZ": "UTC"}
    for name in ("bootstrap_servers", "topic_prefix", "group_id", "single_record_batches"):
        own[variable(f"kafka.{name}")] = str(getattr(kafka, name))
    return own


async def run(environment: dict[str, str], *arguments: str | Path, stdin: bytes = b"") -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        *map(str, arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    out, err = await asyncio.wait_for(process.communicate(stdin), 60)
    assert process.returncode is not None
    assert "Traceback" not in err.decode()
    return process.returncode, out.decode(), err.decode()


async def records_of(kafka: KafkaSettings, topic: str) -> list[Any]:
    return [record async for record in tail(kafka, topic)]


def message(content: str, user: str = "anna", **fields: object) -> bytes:
    return json.dumps({"user_id": user, "role": "user", "content": content, **fields}).encode()


async def test_every_good_line_arrives_as_it_was_written(
    kafka: KafkaSettings, environment: dict[str, str], tmp_path: Path
) -> None:
    lines = [
        b'{ "user_id":"anna",  "role": "user", "content":"hello", "unknown": [1] }',
        message("second"),
        '{"user_id": "李雷", "role": "user", "content": "我住在北京 🙂", "tenant_id": "t1"}'.encode(),
        b'{"type": "flush", "user_id": "anna"}',
        message("third"),
    ]
    file = tmp_path / "chat.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + lines[0] + b"\r\n\r\n" + b"\n".join(lines[1:]))
    code, out, err = await run(environment, "publish", file)
    assert (code, err) == (0, "")
    assert out.startswith("5 messages of 2 users sent in ")

    found = await records_of(kafka, Topics.of(kafka).messages)
    assert [one.value for one in found if one.key == b"default:anna"] == [*lines[:2], *lines[3:]]
    assert [one.value for one in found if one.key == "t1:李雷".encode()] == [lines[2]]
    assert len({one.partition for one in found if one.key == b"default:anna"}) == 1


async def test_bad_lines_are_named_and_the_rest_goes_on(
    kafka: KafkaSettings, environment: dict[str, str], tmp_path: Path
) -> None:
    bad = {
        2: (b"no json", "malformed"),
        3: (b'{"role": "user", "content": "x"}', "`user_id`"),
        4: (message("x", role="boss"), "boss"),
        5: (b'{"user_id": 7, "role": "user", "content": "x"}', "$.user_id"),
        6: (message("  "), "`content` is missing or empty"),
        7: (b'{"user_id": "a", "role": "user", "content": "\xff"}', "UTF-8"),
        8: (message("x" * MAX_MESSAGE_BYTES), "more than the 1000000"),
        9: (b"x" * 3_000_000, "3000000 bytes are more than"),
        10: (b'{"user_id": "a", "content": "x"}', "`role` is missing"),
        11: (b'["user_id"]', "object"),
        12: (message("x", occurred_at="2026-01-01T10:00:00"), "occurred_at"),
        13: (message("x", tenant_id="a:b"), "tenant_id"),
        14: (message("x", user="\ud800"), ""),
        15: (message("\x1b[31m", type="\x1b[31m"), r"\x1b[31m"),
        16: (b"null", "object"),
    }
    file = tmp_path / "chat.jsonl"
    file.write_bytes(b"\n".join([message("first"), *(line for line, _ in bad.values()), message("last")]))
    code, out, err = await run(environment, "publish", "--json", file)
    assert code == 3
    summary = json.loads(out)
    assert (summary["sent"], summary["refused"], summary["users"]) == (2, len(bad), 1)
    refused = err.splitlines()
    assert len(refused) == len(bad)
    for line, (number, (_, reason)) in zip(refused, bad.items(), strict=True):
        assert line.startswith(f"{file}:{number}: ")
        assert reason in line
        assert "\x1b" not in line
    found = await records_of(kafka, Topics.of(kafka).messages)
    assert [json.loads(one.value)["content"] for one in found] == ["first", "last"]


async def test_a_line_of_standard_input_that_is_none_is_named(environment: dict[str, str]) -> None:
    code, _, err = await run(environment, "publish", "-", stdin=message("first") + b"\nno json\n")
    assert code == 3
    assert err.startswith("standard input, line 2: ")


async def test_a_flush_is_behind_the_messages_of_its_user(kafka: KafkaSettings, environment: dict[str, str]) -> None:
    await run(environment, "publish", "-", stdin=message("hello", user="李雷", tenant_id="t1"))
    code, out, err = await run(environment, "flush", "李雷", "--tenant", "t1", "--json")
    assert (code, err) == (0, "")
    first, second = await records_of(kafka, Topics.of(kafka).messages)
    assert first.key == second.key == "t1:李雷".encode()
    assert first.partition == second.partition
    sent = json.loads(second.value)
    assert (sent["type"], sent["tenant_id"], sent["user_id"]) == ("flush", "t1", "李雷")
    assert json.loads(out) == {
        "tenant_id": "t1", "user_id": "李雷", "topic": Topics.of(kafka).messages, "partition": second.partition,
        "offset": second.offset,
    }  # fmt: skip
    code, out, _ = await run(environment, "flush", "bert")
    assert (code, out) == (0, "asked to close the window of bert, if one is open.\n")


async def test_a_flush_of_nobody_is_refused(environment: dict[str, str]) -> None:
    code, out, err = await run(environment, "flush", "")
    assert (code, out) == (2, "")
    assert "the id of a user has 1 to 256 characters, and this one none: give another." in err


async def test_standard_input_tenant_and_flush(kafka: KafkaSettings, environment: dict[str, str]) -> None:
    own = message("own tenant", tenant_id="b")
    code, out, err = await run(
        environment, "publish", "--tenant", "a", "--flush", "-", stdin=message("none") + b"\n" + own + b"\n"
    )
    assert (code, err) == (0, "")
    assert out.startswith("2 messages of 2 users sent in ")
    assert out.endswith("0 refused, windows of 2 users closed\n")
    found = await records_of(kafka, Topics.of(kafka).messages)
    by_key = {key: [one.value for one in found if one.key == key] for key in (b"a:anna", b"b:anna")}
    assert [json.loads(value).get("type") for value in by_key[b"a:anna"]] == [None, "flush"]
    assert by_key[b"b:anna"][0] == own
    assert json.loads(by_key[b"a:anna"][0]) == {"tenant_id": "a", **json.loads(message("none"))}


async def test_several_files_in_order_and_many_lines(
    kafka: KafkaSettings, environment: dict[str, str], tmp_path: Path
) -> None:
    files = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    for part, file in enumerate(files):
        file.write_bytes(b"".join(message(f"{part}-{i}", f"user-{i % 40}") + b"\n" for i in range(1000)))
    code, out, _ = await run(environment, "publish", "--json", *files)
    assert code == 0
    assert json.loads(out)["sent"] == 2000
    found = await records_of(kafka, Topics.of(kafka).messages)
    seven = [json.loads(one.value)["content"] for one in found if one.key == b"default:user-7"]
    assert seven == [f"{part}-{i}" for part in (0, 1) for i in range(7, 1000, 40)]


async def test_batches_of_several_records_are_read_to_their_end(kafka: KafkaSettings) -> None:
    """The embedded broker names the end of such a topic too low."""
    batching = kafka.model_copy(update={"partitions": 1})
    await ensure_topics(batching)
    topic = Topics.of(kafka).messages
    from aiokafka import AIOKafkaProducer

    client = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=50)
    await client.start()
    await asyncio.gather(*[await client.send(topic, b"%d" % i, partition=0) for i in range(500)])
    await client.stop()
    assert [one.value for one in await records_of(kafka, topic)] == [b"%d" % i for i in range(500)]


async def test_a_broker_that_is_down_ends_in_one_sentence(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_bytes(message("x"))
    environment[variable("kafka.bootstrap_servers")] = f"127.0.0.1:{free_port()}"
    started = time.monotonic()
    for arguments in (["publish", str(file)], ["deltas"], ["deltas", "--follow"]):
        code, out, err = await run(environment, *arguments)
        assert (code, out) == (1, "")
        assert len(err.splitlines()) == 1
        assert "kafka.bootstrap_servers (PROFILESTREAM_KAFKA__BOOTSTRAP_SERVERS)" in err
    assert time.monotonic() - started < 30


async def test_a_broker_that_goes_away_leaves_a_count_of_what_it_took(tmp_path: Path) -> None:
    with running_broker(tmp_path) as (address, broker):
        kafka = own_topics(address)
        process = await asyncio.create_subprocess_exec(
            *PROGRAM,
            *("publish", "-"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=variables(kafka, tmp_path),
        )
        assert process.stdin is not None
        process.stdin.write(message("first") + b"\n")
        async with asyncio.timeout(20), aclosing(tail(kafka, Topics.of(kafka).messages, follow=True)) as records:
            assert (await anext(records)).value == message("first")
        broker.kill()
        broker.wait()
        out, err = await asyncio.wait_for(process.communicate(message("second") + b"\n"), 45)
    assert (process.returncode, out) == (1, b"")
    assert err.decode().startswith("profilestream: 1 messages are acknowledged, but then: Kafka does not answer at ")
    assert len(err.splitlines()) == 1


async def test_wrong_settings_are_all_named(environment: dict[str, str]) -> None:
    environment |= {variable("kafka.partitions"): "x", variable("window.idle"): "y"}
    code, out, err = await run(environment, "publish", "-")
    assert (code, out) == (2, "")
    assert "kafka.partitions" in err
    assert "window.idle" in err


def delta(version: int, user: str = "anna", tenant: str = "default", **changes: object) -> ProfileDelta:
    fields: dict[str, Any] = {
        "delta_id": f"{tenant}-{user}-{version}",
        "tenant_id": tenant,
        "user_id": user,
        "version": version,
        "flush_id": "f",
        "index": 0,
        "op": "update",
        "topic": "contact",
        "sub_topic": "city",
        "before": "Paris",
        "after": "Lyon",
        "added": "Lyon",
        "reason": "moved",
        "evidence": ("m1", "m2"),
        "update_hits": 1,
        "said_at": datetime(2026, 1, 1, tzinfo=UTC),
        "recorded_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "processor": "rules",
        "pipeline_version": "p",
    }
    return ProfileDelta(**fields | changes)


async def send_deltas(kafka: KafkaSettings, *deltas: ProfileDelta | bytes) -> None:
    await ensure_topics(kafka)
    async with producer(kafka) as client:
        for one in deltas:
            value = one if isinstance(one, bytes) else encode(one)
            key = b"default:x" if isinstance(one, bytes) else user_key(one.tenant_id, one.user_id)
            await client.send_and_wait(Topics.of(kafka).deltas, value, key=key)


async def test_deltas_are_printed_for_people(kafka: KafkaSettings, environment: dict[str, str]) -> None:
    await send_deltas(kafka, delta(1), delta(2, op="delete", before="Ly\x1bon\n", after=None, tenant="t1"))
    code, out, err = await run(environment, "deltas")
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == [
        "2026-01-02 03:04:05  anna v1  ~ contact/city  “Paris” → “Lyon”  (moved)  [m1, m2]",
        r"2026-01-02 03:04:05  t1:anna v2  - contact/city  “Ly\x1bon\n” → nothing  (moved)  [m1, m2]",
    ]


async def test_deltas_are_chosen_and_counted(kafka: KafkaSettings, environment: dict[str, str]) -> None:
    await send_deltas(
        kafka,
        delta(1),
        b"no delta",
        delta(2, topic="daily_life"),
        delta(3),
        delta(1, user="bert"),
        delta(1, tenant="t1"),
    )

    async def ids(*arguments: str) -> list[str]:
        code, out, err = await run(environment, "deltas", "--json", *arguments)
        assert code == 0
        assert "holds no delta" in err or "--limit" in arguments
        return sorted(json.loads(line)["delta_id"] for line in out.splitlines())

    assert len(await ids()) == 5
    assert await ids("--user", "bert") == ["default-bert-1"]
    assert await ids("--tenant", "t1") == ["t1-anna-1"]
    assert await ids("--topic", " Daily Life") == ["default-anna-2"]
    assert len(await ids("--user", "anna", "--tenant", "default", "--limit", "2")) == 2


async def test_no_deltas_yet(environment: dict[str, str]) -> None:
    code, out, err = await run(environment, "deltas")
    assert (code, out) == (0, "")
    assert err.startswith("profilestream: there are no such changes on the topic")


@pytest.fixture
def following(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [*PROGRAM, "deltas", "--follow", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


async def test_followed_deltas_appear_as_they_happen_and_ctrl_c_ends_quietly(
    kafka: KafkaSettings, following: subprocess.Popen[str]
) -> None:
    assert following.stdout is not None
    assert following.stderr is not None
    for version in (1, 2):  # the first one also creates the topic that is waited for
        await send_deltas(kafka, delta(version))
        line = await asyncio.wait_for(asyncio.to_thread(following.stdout.readline), 30)
        assert json.loads(line)["version"] == version
    following.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(following.wait, 20) == 0
    assert following.stderr.read() == ""


async def test_a_reader_that_leaves_ends_the_command_quietly(kafka: KafkaSettings, environment: dict[str, str]) -> None:
    await send_deltas(kafka, *[delta(version) for version in range(1, 40)])
    command = " ".join(f"'{part}'" for part in PROGRAM) + " deltas --follow | head -n 1"
    process = await asyncio.create_subprocess_shell(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 30)
    assert len(out.splitlines()) == 1
    assert err == b""
