"""`profilestream forget`: nothing is left of a user where it can be removed, and the receipt says what there was."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from benchmarks.harness import CommandError, Overrides, WorkerProcess, command, environment
from schemas.codec import decode
from schemas.deltas import ProfileDelta
from schemas.messages import user_key
from sinks.vectors import ALL_KINDS
from streams.embedded.services import EmbeddedServices
from streams.kafka import producer
from streams.partitioning import partition_for
from streams.settings import Settings
from streams.stores import open_archive, open_vectors
from streams.topics import Topics
from tests.integration.dead_letter_support import ODD, letters_on, records_on
from tests.integration.pipeline_support import FAST, archived_profile, eventually, said, settings_of, write_chat
from tests.support.brokers import KafkaSettingsByName
from tests.support.which_broker import brokers

pytestmark = pytest.mark.timeout(240)

QUICK: Overrides = {**FAST, "window": {"messages": 4}}
TEXTS = ("I live in Oslo.", "I prefer short answers.", "My sister is called Mette.", "I have a dog.")
FORGOTTEN = ("default", ODD)
OTHERS = (("t1", ODD), ("default", "a"))
"""Of the same name in another tenant, and of the name that the other's begins with."""


@dataclass
class World:
    """The services, and how to talk to them."""

    env: dict[str, str]
    settings: Settings
    folder: Path
    deletes: bool
    """Whether the broker deletes records."""

    async def publish(self, user: tuple[str, str], *texts: str, flush: bool = False) -> None:
        """Publish messages of a user."""
        tenant, name = user
        number = len(list(self.folder.glob("*.jsonl")))
        lines = [
            {**line, "tenant_id": tenant, "message_id": f"{number}-{place}"}
            for place, line in enumerate(said(name, *texts))
        ]
        file = write_chat(self.folder / f"{number}.jsonl", lines)
        await command("publish", *(["--flush"] if flush else []), str(file), env=self.env)

    async def publish_rubbish(self, user: tuple[str, str]) -> None:
        """Publish what cannot be read, under the key of a user."""
        key = user_key(*user)
        async with producer(self.settings.kafka) as client:
            partition = partition_for(key, self.settings.kafka.partitions)
            topic = Topics.of(self.settings.kafka).messages
            await client.send_and_wait(topic, b"{secret", key=key, partition=partition)

    async def held(self, user: tuple[str, str]) -> dict[str, int]:
        """Return how much of a user the stores and the dead letters hold."""
        letters = [letter for letter in await letters_on(self.settings.kafka) if letter.user == user]
        async with open_archive(self.settings.clickhouse) as archive, open_vectors(self.settings) as vectors:
            return {
                **await archive.count_user(*user),
                "vectors": await vectors.count(*user, kinds=ALL_KINDS),
                "letters": sum(letter.state != "forgotten" for letter in letters),
            }

    async def has_all(self, user: tuple[str, str]) -> bool:
        """Whether the stores have what comes of all messages but the last, and the letter is there."""
        held = await self.held(user)
        newest = max((delta.version for delta in await self.deltas(user)), default=0)
        ended = await self.ended(user)
        return held["letters"] == 1 and held["deltas"] == newest and held["events"] == ended and held["vectors"] > 0

    async def ended(self, user: tuple[str, str]) -> int:
        """Return how many flushes of a user must end: a window, and each message that was read at once."""
        place = partition_for(user_key(*user), self.settings.kafka.partitions)
        records = await records_on(self.settings.kafka, Topics.of(self.settings.kafka).flushes, place)
        return sum(key == user_key(*user) for key, _, _, _ in records)

    async def forget(self, user: tuple[str, str], *arguments: str) -> dict[str, Any]:
        """Have a user forgotten and return the receipt."""
        tenant, name = user
        said = await command("forget", name, "--tenant", tenant, "--yes", "--json", *arguments, env=self.env)
        receipt: dict[str, Any] = json.loads(said)
        return receipt

    async def deltas(self, user: tuple[str, str]) -> list[ProfileDelta]:
        """Return the changes of a user that are on the topic, repeats included."""
        key = user_key(*user)
        place = partition_for(key, self.settings.kafka.partitions)
        records = await records_on(self.settings.kafka, Topics.of(self.settings.kafka).deltas, place)
        return [decode(value, ProfileDelta) for found, value, _, _ in records if found == key]


@asynccontextmanager
async def services(folder: Path, kafka: KafkaSettingsByName | None = None) -> AsyncIterator[World]:
    async with EmbeddedServices(folder / "services", kafka) as running:
        settings = running.settings
        yield World(environment(settings, QUICK), settings_of(settings, QUICK), folder, deletes=kafka is not None)


@pytest_asyncio.fixture
async def world(apache: KafkaSettingsByName | None, tmp_path: Path) -> AsyncIterator[World]:
    async with services(tmp_path, apache) as world, WorkerProcess(world.env, tmp_path / "worker.log"):
        yield world


@pytest.fixture(params=brokers("apache", "embedded"))
def apache(request: pytest.FixtureRequest) -> KafkaSettingsByName | None:
    """Settings of Apache Kafka, None for the embedded broker."""
    return request.getfixturevalue("on_apache_kafka") if request.param == "apache" else None


async def test_nothing_is_left_and_the_receipt_says_what_there_was(world: World) -> None:
    for user in (FORGOTTEN, *OTHERS):
        await world.publish(user, *TEXTS)
        await world.publish(user, "I work in Bergen.")  # stays in a window
        await world.publish_rubbish(user)

    for user in (FORGOTTEN, *OTHERS):
        await eventually(partial(world.has_all, user))
    before = await archived_profile(world.settings, ODD)
    held = await world.held(FORGOTTEN)
    others = [await world.held(user) for user in OTHERS]

    receipt = await world.forget(FORGOTTEN)
    marked = 0 if world.deletes else 1
    removed = receipt["removed"]
    assert removed == {
        "slots": len(before.slots),
        "facts": len(before.facts) + len(before.replaced_facts),
        "preferences": len(before.preferences),
        "tags": 0,
        "deltas": held["deltas"],
        "events": held["events"],
        "tag_hits": 0,
        "vectors": held["vectors"],
        "dead_letters": 1 - marked,
    }
    assert min(removed[name] for name in ("slots", "facts", "preferences", "vectors")) > 0
    assert receipt["marked_dead_letters"] == marked
    assert not any((await world.held(FORGOTTEN)).values())
    assert [await world.held(user) for user in OTHERS] == others

    await tombstone_is(world, receipt, before.version)
    await letters_are_gone(world)
    kept = {one["topic"]: one for one in receipt["kept"]}
    topics = Topics.of(world.settings.kafka)
    assert set(kept) == set(topics.all()) - {topics.dead_letters}
    if world.deletes:
        assert kept[topics.messages]["retention_ms"] == 7 * 86_400_000
        assert kept[topics.deltas]["retention_ms"] == -1
        assert kept[topics.profiles_changelog]["compacted"]
    await a_new_beginning_is_made(world, receipt["version"])


async def tombstone_is(world: World, receipt: dict[str, Any], version: int) -> None:
    last = (await world.deltas(FORGOTTEN))[-1]
    assert (last.op, last.kind, last.before, last.after, last.added) == ("forget", "profile", None, None, None)
    assert (last.delta_id, last.evidence) == (receipt["delta_id"], (receipt["message_id"],))
    assert last.version == receipt["version"] > version


async def letters_are_gone(world: World) -> None:
    kafka = world.settings.kafka
    place = partition_for(user_key(*FORGOTTEN), kafka.partitions)
    records = await records_on(kafka, Topics.of(kafka).dead_letters, place)
    values = [value for key, value, _, _ in records if key == user_key(*FORGOTTEN)]
    assert values == ([] if world.deletes else [b"{secret", b""])
    listed = await command("deadletters", "list", "--all", "--json", env=world.env)
    users = sorted((one["tenant_id"], one["user_id"]) for one in map(json.loads, listed.splitlines()))
    assert users == sorted(OTHERS)


async def a_new_beginning_is_made(world: World, version: int) -> None:
    """Say something new: of what was in the window, and of what was known, nothing comes back."""
    await world.publish(FORGOTTEN, "I live in Rome.", flush=True)

    async def known() -> bool:
        return bool((await archived_profile(world.settings, ODD)).slots)

    await eventually(known)
    profile = await archived_profile(world.settings, ODD)
    assert {slot.value for slot in profile.slots} == {"Rome"}
    assert not profile.preferences
    new = [delta for delta in await world.deltas(FORGOTTEN) if delta.version > version]
    assert sorted({delta.version for delta in new}) == list(range(version + 1, version + 1 + len(new)))
    assert not any(word in str(delta) for delta in new for word in ("Oslo", "Bergen", "Mette", "dog"))


@pytest.mark.long
async def test_a_user_of_whom_nothing_is_known_can_be_forgotten_and_again(world: World) -> None:
    first, second = await world.forget(FORGOTTEN), await world.forget(FORGOTTEN)
    assert not any(first["removed"].values())
    assert not any(second["removed"].values())
    assert (first["version"], second["version"]) == (1, 2)
    said = await command("forget", ODD, "--yes", env=world.env)
    assert said.startswith("Nothing was known of a:b\\x1b\\n李. What was still waiting in a window was dropped on ")
    assert "told so with version 3." in said
    assert "Removed:" not in said
    shown = await command("profile", ODD, env=world.env)
    assert re.fullmatch(r"Nothing is known of .*, who was forgotten on 20\d\d-.*\.\n", shown)
    topics = Topics.of(world.settings.kafka)
    how_long = r"\(kept for 7 days\)" if world.deletes else r"\(as long as the broker keeps it\)"
    assert re.search(rf"^  {re.escape(topics.messages)}  {how_long}$", said, re.MULTILINE)
    if world.deletes:
        assert f"  {topics.deltas}  (kept until retention.ms is set or records are deleted)\n" in said


@pytest.mark.long
async def test_without_a_worker_the_request_waits(tmp_path: Path) -> None:
    async with services(tmp_path) as world:
        with pytest.raises(CommandError, match=r"ended with 1: .*the archive has no tables yet"):
            await world.forget(FORGOTTEN)
        async with open_archive(world.settings.clickhouse) as archive, open_vectors(world.settings):
            await archive.migrate()
        with pytest.raises(
            CommandError, match=r"(?s)ended with 1: .*no worker is running: .*no worker has forgotten .* within 1 s"
        ):
            await world.forget(FORGOTTEN, "--wait", "1")
        async with WorkerProcess(world.env, tmp_path / "worker.log"):
            receipt = await world.forget(FORGOTTEN)
        assert receipt["version"] == 2


async def test_at_a_terminal_it_asks_first(tmp_path: Path) -> None:
    async with services(tmp_path) as world:
        async with open_archive(world.settings.clickhouse) as archive, open_vectors(world.settings):
            await archive.migrate()
        ours, theirs = pty.openpty()
        os.write(ours, b"n\n")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "streams.cli", "forget", ODD), env=world.env, stdin=theirs, stdout=PIPE, stderr=PIPE
        )
        out, err = await process.communicate()
        os.close(ours)
        os.close(theirs)
        assert (process.returncode, out.strip()) == (1, b"")
        assert "There is of a:b\\x1b\\n李: nothing. Forget all of it? [y/N]:" in err.decode()
        assert err.decode().endswith("profilestream: nothing was done\n")
        topic = Topics.of(world.settings.kafka).messages
        place = partition_for(user_key(*FORGOTTEN), world.settings.kafka.partitions)
        assert await records_on(world.settings.kafka, topic, place) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ada"], "say --yes"),
        (["", "--yes"], "the id of a user has 1 to 256 characters, and this one none"),
        (["x" * 257, "--yes"], "and this one 257"),
        (["ada", "--tenant", "a:b", "--yes"], "'a:b' cannot be a tenant"),
        (["\udcff", "--yes"], r"'\xff' is not UTF-8"),
        (["ada", "--yes", "--wait", "0"], "0"),
    ],
    ids=repr,
)
async def test_what_cannot_be_done_is_code_2(arguments: list[str], said: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "streams.cli", "forget", *arguments), stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    out, err = await process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert said in err.decode()
