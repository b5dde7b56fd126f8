"""Conversations for the chaos tests: for a seed always the same ones, which come to the same places of the log."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer

from schemas.messages import user_key
from streams.kafka import producer
from streams.partitioning import partition_for
from streams.settings import KafkaSettings
from streams.topics import Topics, ensure_topics

CATALOGUE = ("coffee", "travel", "chess", "hiking", "music", "cooking", "咖啡", "旅行")

PIPELINE = "language: en\ntag_catalogue:\n" + "".join(f"  - name: {tag}\n" for tag in CATALOGUE)
"""Pipeline file under which all branches have something to do."""

_CITIES = ("Lyon", "Bremen", "Oslo", "Porto", "Graz", "Turin", "Ghent", "Cork")
_PLACES = ("杭州", "成都", "苏州", "厦门")
_THINGS = ("tea", "coffee", "chess", "hiking", "jazz", "cooking", "travel", "green olives")
_JOBS = ("nurse", "baker", "teacher", "carpenter", "surveyor")
_NAMES = ("Ada", "Bob", "Cleo", "Dora", "Emil", "Fay")

_START = datetime.now(UTC) - timedelta(hours=6)
"""Recent, because a broker removes what is older than its topic's retention; the same for all runs of a process."""


def _statement(chance: random.Random) -> str:
    """Return something that a user says: about half of it changes a profile."""
    thing, other = chance.sample(_THINGS, 2)
    return chance.choice(
        (
            f"I moved to {chance.choice(_CITIES)}.",
            f"I live in {chance.choice(_CITIES)} now, after all.",
            f"I like {thing}.",
            f"I don't like {thing} any more, but I love {other}.",
            f"I work as a {chance.choice(_JOBS)}.",
            f"My name is {chance.choice(_NAMES)}.",
            f"I am {chance.randint(20, 70)} years old.",
            "Please keep your answers short.",
            "I prefer long and detailed answers.",
            f"我住在{chance.choice(_PLACES)}，喜欢咖啡和旅行。",
            "以后回复简短一点。",
            f"What would you do with {thing} and {other}?",
            "ok",
            "Thanks, that helps.",
            f"The train was late again, {chance.randint(5, 90)} minutes.",
            "哈哈，好的。",
        )
    )


@dataclass(frozen=True)
class Spoken:
    """A line of a conversation: the body and the time of a record of the chat topic.

    Attributes:
        partition: where it is sent instead of its user's partition.
    """

    body: Mapping[str, Any]
    published: datetime
    partition: int | None = None

    @property
    def key(self) -> bytes:
        """Kafka key of its user."""
        return user_key(self.body["tenant_id"], self.body["user_id"])


def talk(seed: int, messages: int, users: int, forgets: float = 0.0) -> list[Spoken]:
    """Return so many messages of so many users, in a random order across users, with control events between and after.

    Users of the same name belong to two tenants. Some messages have no id of their own, and some no time. After a share
    `forgets` of the messages their user asks to be forgotten.
    """
    chance = random.Random(seed)
    people = [("one" if number % 2 else "two", f"user:{number // 2}") for number in range(users)]
    order = [*people, *(chance.choice(people) for _ in range(messages - users))]
    chance.shuffle(order)
    spoken = list(_lines(chance, order, forgets))
    return [*spoken, *closing(people, spoken[-1].published)]


def _lines(chance: random.Random, order: Sequence[tuple[str, str]], forgets: float) -> Iterator[Spoken]:
    said: dict[tuple[str, str], int] = {}
    for number, (tenant, user) in enumerate(order):
        published = _START + timedelta(seconds=0.5 * number)
        turn = said[tenant, user] = said.get((tenant, user), 0) + 1
        own = chance.random() < 0.75
        body: dict[str, Any] = {
            "tenant_id": tenant,
            "user_id": user,
            "session_id": f"session {turn // 15}",
            "role": "user" if own else "assistant",
            "content": _statement(chance) if own else f"I see: {_statement(chance)}",
        }
        if chance.random() < 0.9:
            body["message_id"] = f"{tenant}/{user}/{turn}"
        if chance.random() < 0.9:
            body["occurred_at"] = published.isoformat()
        yield Spoken(body, published)
        if chance.random() < 0.02:
            yield Spoken({"tenant_id": tenant, "user_id": user, "type": "flush"}, published)
        if forgets and chance.random() < forgets:
            yield Spoken({"tenant_id": tenant, "user_id": user, "type": "forget"}, published)


def closing(people: Sequence[tuple[str, str]], published: datetime) -> list[Spoken]:
    """Return the control events that close the windows of these users."""
    return [Spoken({"tenant_id": tenant, "user_id": user, "type": "flush"}, published) for tenant, user in people]


async def publish(kafka: KafkaSettings, lines: Sequence[Spoken]) -> None:
    """Send lines; those that go to one partition are there in their order.

    Their times on the log are those of the lines and not the clock's, so that two runs have the same log.
    """
    partitions = await ensure_topics(kafka)
    async with producer(kafka) as client:
        await send(client, Topics.of(kafka).messages, partitions, lines)


async def send(client: AIOKafkaProducer, topic: str, partitions: int, lines: Sequence[Spoken]) -> None:
    """Send lines as `publish` does, with a producer that stays open."""
    sent = [
        await client.send(
            topic,
            key=line.key,
            value=json.dumps(line.body, ensure_ascii=False).encode(),
            partition=partition_for(line.key, partitions) if line.partition is None else line.partition,
            timestamp_ms=round(line.published.timestamp() * 1000),
        )
        for line in lines
    ]
    for acknowledged in sent:
        await acknowledged


def write_pipeline(folder: Path) -> Path:
    """Write the pipeline file of the chaos tests."""
    path = folder / "pipeline.yaml"
    path.write_text(PIPELINE, encoding="utf-8")
    return path
