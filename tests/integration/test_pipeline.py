"""The whole program as its users run it: embedded services, a worker process, the commands."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.harness import WorkerProcess, Written, command, discrepancies, environment, read_topics
from schemas.dead_letters import DeadLetterReason
from streams.embedded.services import EmbeddedServices
from streams.kafka import producer
from streams.samples import sample_names, sample_path
from streams.settings import Settings
from streams.stores import open_archive, open_vectors
from streams.topics import Topics, ensure_topics
from tests.integration.pipeline_support import FAST, archived_profile, eventually, said, settings_of, values, write_chat

pytestmark = pytest.mark.timeout(180)


@pytest_asyncio.fixture
async def services(tmp_path: Path) -> AsyncIterator[EmbeddedServices]:
    async with EmbeddedServices(tmp_path / "services") as running:
        yield running


def all_ended(written: Written) -> bool:
    return written.complete


async def check_metrics(log: str, written: Written) -> None:
    """Check what a worker that was alone has counted against what is on the topics."""
    address = re.findall(r"metrics at (http://127\.0\.0\.1:\d+/metrics)", log)[-1]
    async with aiohttp.ClientSession() as session, session.get(address) as response:
        text = await response.text()
    totals: Counter[str] = Counter()
    lag: Counter[str] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            totals[sample.name.removeprefix("profilestream_")] += sample.value
            if sample.name == "profilestream_messaging_consumer_lag":
                lag[sample.labels["stage"]] += sample.value
    assert totals["flushes_sent_total"] == totals["flushes_ended_total"] == len(written.flushes) > 0
    assert totals["deltas_total"] == totals["vector_deltas_total"] == len(written.deltas) > 0
    assert totals["archive_rows_total"] == len(written.deltas) + len(written.events)
    assert totals["dropped_total"] == sum(len(event.dropped) for event in written.events)
    assert totals["signal_messages_total"] > 0
    assert totals["open_windows"] == totals["window_messages"] == totals["dead_letters_total"] == 0
    assert set(lag) >= {"window", "summary", "extract", "tag", "facts", "merge"}
    assert not any(lag.values())


async def test_sample_conversations_become_profiles_in_every_store(services: EmbeddedServices, tmp_path: Path) -> None:
    env = environment(services.settings, FAST)
    settings = settings_of(services.settings, FAST)
    async with WorkerProcess(env, tmp_path / "worker.log") as worker:
        files = [str(sample_path(name)) for name in sample_names()]
        sent = json.loads(await command("publish", "--flush", "--json", *files, env=env))
        written = await read_topics(settings.kafka, all_ended, 90)
        assert written.messages == sent["sent"]
        assert discrepancies(written) == []
        assert written.dead_letters == []
        deltas = {delta.delta_id: delta for delta in written.deltas}

        async with open_archive(settings.clickhouse) as store, open_vectors(settings) as vectors:

            async def archived() -> bool:
                counts = await store.counts()
                return counts["deltas"] == len(deltas) and counts["events"] == len(written.events)

            await eventually(archived)
            users = {(delta.tenant_id, delta.user_id) for delta in deltas.values()}
            points = 0
            for tenant_id, user_id in users:
                profile = await store.profile(tenant_id, user_id)
                assert profile.version == max(delta.version for delta in deltas.values() if delta.user_id == user_id)
                points += profile.searchable

            async def indexed() -> bool:
                return await vectors.count() == points

            await eventually(indexed)

        await check_metrics(worker.log(), written)
        assert json.loads(await command("verify", "--json", env=env)) == {"users": len(users), "differing": 0}
        gists = [json.loads(line) for line in (await command("events", "anna", "--json", env=env)).splitlines()]
        assert {gist["event_id"] for gist in gists} <= {event.event_id for event in written.events}
        assert len(gists) == sum(len(event.memo) for event in written.events if event.flush.user_id == "anna") > 0
        shown = json.loads(await command("profile", "anna", "--json", env=env))
        assert {slot["topic"] for slot in shown["slots"]} >= {"basic_info", "interest"}
        history = (await command("history", "anna", "--json", env=env)).splitlines()
        assert [json.loads(line)["version"] for line in history] == list(range(1, len(history) + 1))
        found = (await command("search", "chess", "--json", env=env)).splitlines()
        assert found
        listed = (await command("deltas", "--user", "anna", "--json", env=env)).splitlines()
        assert {json.loads(line)["delta_id"] for line in listed} == {
            delta.delta_id for delta in deltas.values() if delta.user_id == "anna"
        }


async def test_bad_records_are_parked_untouched_and_the_rest_goes_on(
    services: EmbeddedServices, tmp_path: Path
) -> None:
    settings = settings_of(services.settings, FAST)
    topics = Topics.of(settings.kafka)
    await ensure_topics(settings.kafka)
    bad = {
        b"not json": "JSON is malformed",
        b"\xff\xfe": "malformed",
        b'{"role": "user", "content": "x"}': "`user_id`",
        b'{"user_id": 7, "role": "user", "content": "x"}': "Expected `str`, got `int`",
        b'{"user_id": "u", "role": "robot", "content": "x"}': "robot",
        b'{"user_id": "u", "role": "user", "content": "  "}': "`content` is missing or empty",
        b'{"user_id": "u", "role": "user", "content": "x", "occurred_at": "yesterday"}': "occurred_at",
    }
    good = json.dumps(said("u", "My name is Ada Lovelace.")[0]).encode()
    # The message without a key may have to move to its user's partition, so no flush event can be sent behind it.
    env = environment(services.settings, FAST, {"window": {"idle": 0.5}})
    async with WorkerProcess(env, tmp_path / "worker.log"):
        async with producer(settings.kafka) as client:
            for value in bad:
                await client.send_and_wait(topics.messages, key=b"k", value=value, headers=[("own", b"header")])
            await client.send_and_wait(topics.messages, key=b"k", value=None)
            await client.send_and_wait(topics.messages, key=None, value=good)

        def parked(written: Written) -> bool:
            return len(written.dead_letters) >= len(bad) + 1 and written.ended >= 1

        written = await read_topics(settings.kafka, parked, 60)
    assert {letter.value for letter in written.dead_letters} == {*bad, None}
    for letter in written.dead_letters:
        reason = DeadLetterReason.from_headers(letter.headers)
        assert (reason.stage, reason.reason, reason.topic) == ("window", "invalid_record", topics.messages)
        if letter.value is not None:
            assert bad[letter.value] in reason.detail
            assert ("own", b"header") in letter.headers
    assert [(delta.kind, delta.after) for delta in written.deltas] == [
        ("fact", "User's name is Ada Lovelace"),
        ("slot", "Ada Lovelace"),
    ]


async def test_user_ids_of_two_tenants_stay_apart_and_odd_ids_work(services: EmbeddedServices, tmp_path: Path) -> None:
    env = environment(services.settings, FAST)
    settings = settings_of(services.settings, FAST)
    odd = "u:1 'x\" \\ 名\t'; DROP TABLE profile_deltas; --"
    lines = [
        {**said("same", "My name is Ada.")[0], "tenant_id": "one"},
        {**said("same", "My name is Bob.")[0], "tenant_id": "two"},
        said(odd, "My name is Zoe.")[0],
    ]
    async with WorkerProcess(env, tmp_path / "worker.log"):
        await command("publish", "--flush", str(write_chat(tmp_path / "chat.jsonl", lines)), env=env)
        written = await read_topics(settings.kafka, all_ended, 60)
        assert discrepancies(written) == []
        async with open_archive(settings.clickhouse) as store:

            async def archived() -> bool:
                return (await store.counts())["deltas"] == 6

            await eventually(archived)
            found = [
                await store.profile(tenant, user)
                for tenant, user in (("one", "same"), ("two", "same"), ("default", odd))
            ]
    assert [profile.slots[0].value for profile in found] == ["Ada", "Bob", "Zoe"]
    assert [profile.facts[0].text for profile in found] == [f"User's name is {name}" for name in ("Ada", "Bob", "Zoe")]


async def test_archive_catches_up_after_clickhouse_was_away(services: EmbeddedServices, tmp_path: Path) -> None:
    env = environment(services.settings, FAST)
    settings = settings_of(services.settings, FAST)
    async with WorkerProcess(env, tmp_path / "worker.log") as worker:
        await services.clickhouse.stop()
        first = write_chat(tmp_path / "first.jsonl", said("u", "My name is Ada.", "I live in Lyon."))
        await command("publish", "--flush", str(first), env=env)
        written = await read_topics(settings.kafka, all_ended, 60)
        assert sorted(delta.kind for delta in written.deltas) == ["fact", "fact", "slot", "slot"]

        async def complained() -> bool:
            return "records wait" in worker.log()

        await eventually(complained)
        await services.restart_clickhouse()

        async def archived() -> bool:
            return (await archived_profile(settings, "u")).version == 4

        await eventually(archived)
        assert values(await archived_profile(settings, "u"))["basic_info/name"][0] == "Ada"


@pytest.mark.parametrize(
    ("group", "setting", "service"),
    [
        ("kafka", {"bootstrap_servers": "127.0.0.1:1"}, "Kafka"),
        ("clickhouse", {"url": "http://127.0.0.1:1"}, "ClickHouse"),
        ("qdrant", {"url": "http://127.0.0.1:1"}, "Qdrant"),
    ],
)
async def test_service_that_is_down_at_start_is_named_in_one_sentence(
    services: EmbeddedServices, tmp_path: Path, group: str, setting: dict[str, object], service: str
) -> None:
    env = environment(services.settings, FAST, {group: setting})
    worker = WorkerProcess(env, tmp_path / "worker.log")
    with pytest.raises(Exception, match="the worker ended with 1"):
        await worker.start()
    last = worker.log().strip().splitlines()[-1]
    assert last.startswith("profilestream: ")
    assert service in last
    assert f"PROFILESTREAM_{group.upper()}__" in last or f"{group}." in last or "127.0.0.1:1" in last
    assert "Traceback" not in worker.log()


def test_settings_helper_merges() -> None:
    merged: Settings = settings_of({"window": {"tokens": 5}}, {"window": {"messages": 6}})
    assert (merged.window.tokens, merged.window.messages) == (5, 6)
