"""`profilestream deadletters` beside a worker whose model answers nonsense until it is mended."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from benchmarks.harness import CommandError, Overrides, WorkerProcess, Written, command, environment, read_topics
from benchmarks.model_server import Answer, ModelServer, Reply, Request
from benchmarks.scripted_answers import ScriptedModel
from schemas.codec import encode
from schemas.deltas import ProfileDelta
from schemas.messages import user_key
from schemas.profiles import Profile
from streams.dead_letter_store import DeadLetterStore
from streams.embedded.services import EmbeddedServices
from streams.kafka import KafkaUnavailable, producer
from streams.partitioning import partition_for
from streams.pipeline_file import load_pipeline
from streams.redriving import Redriver
from streams.settings import KafkaSettings, Settings
from streams.topics import Topics, ensure_topics
from tests.integration.dead_letter_support import FAILED, ODD, Cut, deadletters, parking, reason, records_on
from tests.integration.pipeline_support import FAST, archived_profile, eventually, said, settings_of, write_chat
from tests.support.brokers import KafkaSettingsByName
from tests.support.records import memo

pytestmark = pytest.mark.timeout(240)

PIPELINE = "event_tags: [{name: emotion}]\ndomain: {enabled: true}\n"
KEY = user_key("default", ODD)
PROSE = Reply(content="I found nothing useful, sorry.")


@dataclass
class Model:
    """A model that answers nonsense to what is asked in some stages about some words."""

    scripted: ScriptedModel
    nonsense: set[tuple[str, str]] = field(default_factory=set)

    async def __call__(self, request: Request) -> Answer:
        if any(request.stage == stage and word in request.user for stage, word in self.nonsense):
            return PROSE
        return await self.scripted(request)


@dataclass
class World:
    """A worker and its services."""

    env: dict[str, str]
    settings: Settings
    model: Model
    folder: Path
    published: int = 0

    async def publish(self, user: str, *texts: str, minute: int = 0) -> None:
        """Publish messages of a user as one window, and wait until it has ended."""
        self.published += 1
        lines = [
            {**line, "message_id": f"{self.published}-{number}", "occurred_at": f"2026-01-02T03:{minute:02}:00Z"}
            for number, line in enumerate(said(user, *texts))
        ]
        file = write_chat(self.folder / f"{self.published}.jsonl", lines)
        await command("publish", "--flush", str(file), env=self.env)
        await self.written()

    async def written(self) -> Written:
        """Return everything on the topics, once every flush has ended for the first time."""
        return await read_topics(self.settings.kafka, lambda written: written.complete, 60)

    async def deltas(self, user: str) -> list[ProfileDelta]:
        """Return the changes of a user, each once, in their order."""
        deltas = {delta.delta_id: delta for delta in (await self.written()).deltas if delta.user_id == user}
        return sorted(deltas.values(), key=lambda delta: delta.version)

    async def profile(self, user: str) -> Profile:
        """Return a user's profile, once the archive has all of it."""
        newest = max((delta.version for delta in await self.deltas(user)), default=0)

        async def archived() -> bool:
            return (await archived_profile(self.settings, user)).version == newest

        await eventually(archived)
        return await archived_profile(self.settings, user)

    async def letters(self, *arguments: str, count: int) -> list[dict[str, Any]]:
        """Return the letters that are listed, once there are so many."""
        found: list[dict[str, Any]] = []

        async def enough() -> bool:
            found[:] = await deadletters(self.env, "list", *arguments)
            return len(found) >= count

        await eventually(enough)
        assert len(found) == count
        return found

    async def redrive_and_be_killed(self, letter_id: str) -> None:
        """Do what the command does up to the point where the record is sent, and no more."""
        store = await DeadLetterStore.open(self.settings.kafka)
        (letter,) = [one for one in (await store.read()).all() if one.letter_id == letter_id]
        async with producer(self.settings.kafka) as client:
            redriven = Redriver(store, Cut(client, 1), lambda: FAILED).redrive([letter])
            with pytest.raises(KafkaUnavailable):
                await anext(redriven)


@pytest_asyncio.fixture
async def world(on_apache_kafka: KafkaSettingsByName, tmp_path: Path) -> AsyncIterator[World]:
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    model = Model(ScriptedModel(load_pipeline(tmp_path / "pipeline.yaml")))
    async with EmbeddedServices(tmp_path / "services", on_apache_kafka) as services, ModelServer(model) as server:
        own: Overrides = {
            **FAST,
            "model": {"processor": "llm", "base_url": server.url, "api_key": "k", "name": "scripted"},
        }
        env = {**environment(services.settings, own), "PROFILESTREAM_PIPELINE_FILE": str(tmp_path / "pipeline.yaml")}
        async with WorkerProcess(env, tmp_path / "worker.log"):
            yield World(env, settings_of(services.settings, own), model, tmp_path)


def cities(profile: Profile) -> list[tuple[str, int]]:
    """Return where a profile says that its user lives, and how often that was said."""
    return [(slot.value, slot.update_hits) for slot in profile.slots if slot.sub_topic == "location"]


def outcomes(said: list[dict[str, Any]]) -> list[tuple[bool, str]]:
    return [(one["sent"], one["outcome"]) for one in said]


async def test_a_flush_that_failed_is_shown_and_applied_once_when_its_cause_is_mended(world: World) -> None:
    world.model.nonsense = {("extract", "Oslo")}
    await world.publish(ODD, "I live in Oslo.")
    (letter,) = await world.letters(count=1)
    assert (letter["stage"], letter["user_id"], letter["state"]) == ("extract", ODD, "open")
    assert letter["reason"] == "unreadable_answer"
    assert await deadletters(world.env, "count", "--user", ODD) == [
        {"stage": "extract", "reason": "unreadable_answer", "state": "open", "count": 1}
    ]
    assert await deadletters(world.env, "list", "--user", "a") == []
    (shown,) = await deadletters(world.env, "show", letter["id"][:12])
    assert shown["redrivable"]
    assert json.loads(shown["value"])["flush"]["user_id"] == ODD
    assert cities(await world.profile(ODD)) == []

    (again,) = await deadletters(world.env, "redrive", letter["id"][:12], "--wait", "30", expect=(3,))
    assert (again["sent"], again["outcome"]) == (True, "failed")
    assert "unreadable_answer" in again["errors"]["extract"]
    (second,) = await world.letters(count=1)
    assert second["id"] != letter["id"]
    assert [one["state"] for one in await deadletters(world.env, "list", "--all")] == ["redriven", "open"]

    world.model.nonsense.clear()
    await world.redrive_and_be_killed(second["id"])
    await world.redrive_and_be_killed(second["id"])
    (mended,) = await deadletters(world.env, "redrive", "--user", ODD, "--wait", "30")
    assert (mended["sent"], mended["outcome"]) == (True, "applied")
    assert cities(await world.profile(ODD)) == [("Oslo", 1)]
    found = [delta for delta in await world.deltas(ODD) if delta.kind == "slot"]
    assert [delta.delta_id for delta in found] == mended["delta_ids"]
    assert await deadletters(world.env, "list") == []
    (refused,) = await deadletters(world.env, "redrive", second["id"], expect=(3,))
    assert refused["refused"] == "it was redriven before"


STAGES = {
    "summary": ("summary", "Bergen"),
    "extract": ("extract", "Oslo"),
    "tag": ("tag", "Tromso"),
    "domain": ("domain", "Alta"),
    "facts": ("facts", "Molde"),
    "facts_half": ("facts", "Voss"),
    "preferences_half": ("preferences", "Narvik"),
    "merge": ("merge", "Hamar"),
}
"""By the stage that parks: the question that the model answers with nonsense, and of whom."""


@pytest.mark.long
async def test_each_stage_answers_again_and_no_other_twice(world: World) -> None:
    world.model.nonsense = set(STAGES.values())
    for stage, (_, city) in STAGES.items():
        if stage == "merge":
            await world.publish(stage, "I live in Paris.")
        half = "" if stage == "facts" else " I prefer short answers."
        await world.publish(stage, f"I feel happy. I live in {city}.{half}", minute=5)
    letters = await world.letters(count=len(STAGES))
    assert {(letter["stage"], letter["user_id"]) for letter in letters} == {(stage, stage) for stage in STAGES}
    before = {stage: await world.profile(stage) for stage in STAGES}
    assert {stage for stage, known in before.items() if (STAGES[stage][1], 1) not in cities(known)} == {
        *("summary", "extract", "merge")
    }

    world.model.nonsense.clear()
    said = await deadletters(world.env, "redrive", "--all", "--wait", "60")
    assert Counter(outcomes(said)) == {(True, "applied"): len(STAGES)}
    assert await deadletters(world.env, "count") == []

    written = await world.written()
    events = {event.event_id: event for event in written.events}.values()
    for stage, (_, city) in STAGES.items():
        profile = await world.profile(stage)
        assert [value for value, hits in cities(profile) if hits > 1] == (["Hamar"] if stage == "merge" else [])
        assert cities(profile)[0][0] == city
        assert [fact.times_mentioned for fact in profile.facts if city in fact.text] == [1]
        assert [one.times_observed for one in profile.preferences] == ([] if stage == "facts" else [1])
        tags = [event for event in events if event.flush.user_id == stage and event.tags]
        assert len(tags) == 1
    repeated = {event.flush.user_id: event.flush.branches for event in events if event.flush.redrive}
    assert repeated == {
        "summary": ("extract", "tag"),
        **{stage: (stage,) for stage in ("extract", "tag", "domain", "facts")},
        **dict.fromkeys(("facts_half", "preferences_half"), ("facts",)),
        "merge": ("extract",),
    }


async def test_a_flush_that_was_overtaken_changes_nothing_and_says_so(world: World) -> None:
    world.model.nonsense = {("extract", "Bergen")}
    await world.publish("ada", "I live in Bergen.")
    world.model.nonsense.clear()
    await world.publish("ada", "I live in Oslo.", minute=9)
    await world.letters(count=1)
    assert cities(await world.profile("ada")) == [("Oslo", 1)]
    (done,) = await deadletters(world.env, "redrive", "--all", "--wait", "30")
    assert done["outcome"] == "applied"
    assert cities(await world.profile("ada")) == [("Oslo", 1)]
    last = (await world.deltas("ada"))[-1]
    assert (last.op, last.before, last.after, last.added) == ("overtaken", "Oslo", "Oslo", "Bergen")
    assert "came late: said on 2026-01-02" in last.reason
    assert [last.delta_id] == done["delta_ids"]


async def test_a_message_that_cannot_be_read_is_sent_as_it_came_and_can_be_discarded(world: World) -> None:
    topics, key = Topics.of(world.settings.kafka), user_key("default", ODD)
    partition = partition_for(key, world.settings.kafka.partitions)
    async with producer(world.settings.kafka) as client:
        await client.send_and_wait(
            topics.messages, b"{not JSON\xff", key=key, partition=partition, headers=[("own", b"\xff")]
        )
    (letter,) = await world.letters("--stage", "window", count=1)
    (done,) = await deadletters(world.env, "redrive", letter["id"], "--wait", "60", expect=(3,))
    assert (done["sent"], done["event_id"], done["outcome"]) == (True, None, "failed")
    assert done["errors"]["window"].startswith("invalid_record: ")
    (second,) = await world.letters(count=1)
    assert (second["offset"], second["reason"]) == (letter["offset"] + 1, letter["reason"])
    first, copy = await records_on(world.settings.kafka, topics.messages, partition)
    assert (copy[:2], copy[3]) == (first[:2], first[3])

    (shown,) = await deadletters(world.env, "show", second["id"])
    assert (shown["value"], shown["value_base64"]) == (None, "e25vdCBKU09O/w==")
    assert ["own", "\\xff"] in shown["headers"]
    for_people = await command("deadletters", "show", second["id"], env=world.env)
    assert "\n{not JSON\\xff\n" in for_people
    assert "\x1b" not in for_people

    reason = "nobody knows\x1b what it was"
    (closed,) = await deadletters(world.env, "discard", second["id"], "--reason", reason)
    assert (closed["discarded"], closed["state"]) == (True, "discarded")
    (twice,) = await deadletters(world.env, "discard", second["id"], "--reason", "again", expect=(3,))
    assert (twice["discarded"], twice["state"], twice["resolved_because"]) == (False, "discarded", reason)
    (shown,) = await deadletters(world.env, "show", second["id"])
    assert (shown["state"], shown["redrivable"], shown["objection"]) == (
        "discarded",
        False,
        "it was discarded before",
    )
    assert await deadletters(world.env, "list") == []
    because = {one["id"]: one["resolved_because"] for one in await deadletters(world.env, "list", "--all")}
    assert because == {letter["id"]: "sent again", second["id"]: reason}


async def test_a_message_that_can_be_read_by_now_is_waited_for_until_it_is_taken(world: World) -> None:
    """As an older release parked it; the window that it comes into would stay open for minutes."""
    message = {"user_id": "kim", "role": "user", "content": "I live in Oslo."}
    partition = partition_for(user_key("default", "kim"), world.settings.kafka.partitions)
    async with parking(world.settings.kafka) as park:
        why = reason(world.settings.kafka, "window", 1_000_000, partition)
        await park(why, user_key("default", "kim"), encode(message))
    (letter,) = await world.letters(count=1)
    (done,) = await deadletters(world.env, "redrive", letter["id"], "--wait", "60")
    assert (done["sent"], done["outcome"], done["errors"]) == (True, "taken", {})

    async def known() -> bool:
        return cities(await archived_profile(world.settings, "kim")) == [("Oslo", 1)]

    await eventually(known)


async def test_without_a_worker_a_message_is_not_taken_and_that_is_said(kafka: KafkaSettings) -> None:
    env = environment({"kafka": kafka.model_dump(exclude={"sasl_password"})})
    async with parking(kafka) as park:
        await park(reason(kafka, "window", 1), KEY, b"{")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "streams.cli", "deadletters", "redrive", "--all", "--wait", "1"),
        env=env,
        stdout=PIPE,
        stderr=PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 1
    assert out.decode().endswith("not ended yet\n")
    assert "no worker is running" in err.decode()
    assert "1 of them have not ended within 1 s" in err.decode()
    assert "whether users have been forgotten since is not known" in err.decode()  # there is no archive here


async def test_without_a_worker_the_wait_ends_and_says_so(on_apache_kafka: KafkaSettingsByName) -> None:
    kafka = KafkaSettings.model_validate(on_apache_kafka)
    env = environment({"kafka": on_apache_kafka})
    async with parking(kafka) as park:
        await park(reason(kafka, "extract", 1), KEY, encode(memo()))
        await park(reason(kafka, "archive", 2), KEY)
    (found, objected) = await deadletters(env, "redrive", "--all", "--wait", "1", expect=(1,))
    assert {found["outcome"], objected["outcome"]} == {None}
    assert sorted([found["sent"], objected["sent"]]) == [False, True]
    (left,) = await deadletters(env, "list")
    assert left["stage"] == "archive"
    listed = await command("deadletters", "list", env=env)
    assert listed.startswith(f"{left['id'][:12]}  ")
    assert listed.endswith("  archive   invalid_record  a:b\\x1b\\n李  " + f"{left['topic']}[0]@2  it is wrong\n")
    said = (await command("deadletters", "redrive", "--all", env=env, expect=(3,))).splitlines()
    assert said[0].startswith(f"{left['id'][:12]}  not sent again: stage archive reads what other stages wrote")
    assert said[1] == "0 sent again, 1 not"


async def test_with_an_unknown_id_among_others_nothing_is_discarded_and_a_closed_letter_keeps_its_reason(
    kafka: KafkaSettings,
) -> None:
    env = environment({"kafka": kafka.model_dump(exclude={"sasl_password"})})
    async with parking(kafka) as park:
        await park(reason(kafka, "extract", 1), KEY, encode(memo()))
        await park(reason(kafka, "extract", 2), KEY, encode(memo()))
    first, second = [one["id"] for one in await deadletters(env, "list")]
    with pytest.raises(CommandError, match=r"begins with 'nonsense'.*\. Nothing was done"):
        await command("deadletters", "discard", first, "nonsense", "--reason", "x", env=env)
    assert len(await deadletters(env, "list")) == 2
    await deadletters(env, "discard", first, "--reason", "a test")
    said = (await command("deadletters", "discard", first, second, "--reason", "x", env=env, expect=(3,))).splitlines()
    assert re.fullmatch(rf"{first[:12]}  not discarded, because it was discarded on .*: a test", said[0])
    assert said[1] == f"{second[:12]}  discarded"
    because = {one["id"]: one["resolved_because"] for one in await deadletters(env, "list", "--all")}
    assert because == {first: "a test", second: "x"}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["redrive"], 2, "Say which letters"),
        (["redrive", "--all", "--stage", "extract"], 2, "Say which letters"),
        (["redrive", "3f", "--user", "ada"], 2, "Say which letters"),
        (["redrive", "nonsense"], 1, "no dead letter has an id that begins with 'nonsense'"),
        (["show", "nonsense"], 1, "no dead letter has an id that begins with 'nonsense'"),
        (["discard", "nonsense", "--reason", "x"], 1, "no dead letter has an id"),
        (["discard", "nonsense"], 2, "Missing option '--reason'"),
        (["discard", "nonsense", "--reason", " "], 2, "--reason is empty"),
        (["list", "--since", "yesterday"], 2, "'yesterday' is no time"),
        (["list", "--stage", "breakfast"], 2, "'breakfast' is not one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
async def test_what_cannot_be_done_is_said(kafka: KafkaSettings, arguments: list[str], code: int, said: str) -> None:
    env = environment({"kafka": kafka.model_dump(exclude={"sasl_password"})})
    with pytest.raises(CommandError, match=re.escape(said)) as caught:
        await command("deadletters", *arguments, env=env)
    assert f"ended with {code}" in str(caught.value)


async def test_records_that_are_no_letters_are_complained_about(kafka: KafkaSettings) -> None:
    env = environment({"kafka": kafka.model_dump(exclude={"sasl_password"})})
    await ensure_topics(kafka)
    async with producer(kafka) as client:
        for _ in range(7):
            await client.send_and_wait(Topics.of(kafka).dead_letters, b"x", partition=1)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "streams.cli", "deadletters", "count"), env=env, stdout=PIPE, stderr=PIPE
    )
    out, err = await process.communicate()
    assert (process.returncode, out) == (0, b"      0  open letters\n")
    lines = err.decode().splitlines()
    assert lines[0] == "profilestream: partition 1 offset 0 holds no dead letter: it has no header profilestream-stage"
    assert lines[5] == "profilestream: 2 more records hold none"
    assert len(lines) == 6
