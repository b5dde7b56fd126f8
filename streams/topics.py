"""`Topics`, the names of all topics, and `ensure_topics`, which creates what is missing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple, Self

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from streams.kafka import MAX_RECORD_BYTES, admin, unavailable
from streams.settings import KafkaSettings, variable

_CREATION_LIMIT: Final = 10.0
"""Seconds until a created topic must be ready."""

_FOR_EVER: Final = {"retention.ms": "-1"}


class TopicsError(Exception):
    """The topics are not as they must be; the message says which and what to do."""


@dataclass(frozen=True, kw_only=True)
class Topics:
    """Names of all topics: prefix, name, major version of the records.

    Attributes:
        messages: chat messages, written by applications.
        flushes: closed windows.
        memos: their summaries.
        candidates: what the branches found.
        deltas: changes of profiles, for applications.
        events: ends of flushes.
        dead_letters: records that could not be processed.
        windows_changelog: the worker's table ``windows``, named as Faust names it.
        profiles_changelog: its table ``profiles``, likewise.
    """

    messages: str
    flushes: str
    memos: str
    candidates: str
    deltas: str
    events: str
    dead_letters: str
    windows_changelog: str
    profiles_changelog: str

    @classmethod
    def of(cls, kafka: KafkaSettings) -> Self:
        """Return the names that these settings give."""

        def versioned(name: str) -> str:
            return f"{kafka.topic_prefix}{name}.v1"

        def changelog(table: str) -> str:
            return f"{kafka.group_id}-{table}-changelog"

        return cls(
            messages=versioned("chat.messages"),
            flushes=versioned("chat.flushes"),
            memos=versioned("chat.memos"),
            candidates=versioned("profile.candidates"),
            deltas=versioned("profile.deltas"),
            events=versioned("profile.events"),
            dead_letters=versioned("dead.letters"),
            windows_changelog=changelog("windows"),
            profiles_changelog=changelog("profiles"),
        )

    def all(self) -> tuple[str, ...]:
        """Return every name, in the order of the flow."""
        return tuple(getattr(self, field.name) for field in fields(self))

    def records(self) -> tuple[str, ...]:
        """Names of the topics that hold records, the tables' changelogs left out."""
        return tuple(name for name in self.all() if name not in {self.windows_changelog, self.profiles_changelog})

    def configuration(self, name: str) -> dict[str, str]:
        """Return the configuration that a topic is created with, beyond the broker's defaults.

        Deltas and dead letters are kept until somebody decides otherwise; changelogs hold the last record of
        each user.
        """
        config = {} if name == self.messages else {"max.message.bytes": str(MAX_RECORD_BYTES)}
        if name in {self.windows_changelog, self.profiles_changelog}:
            return config | {"cleanup.policy": "compact"}
        if name in {self.deltas, self.dead_letters}:
            return config | _FOR_EVER
        return config


class TopicState(NamedTuple):
    """A topic as the broker has it.

    Attributes:
        partitions: how many.
        replicas: of the partition that has the fewest.
        behind: partitions of which a replica is not in step with the others.
        leaderless: partitions that can be neither written nor read now.
    """

    partitions: int
    replicas: int
    behind: int
    leaderless: int


async def ensure_topics(kafka: KafkaSettings) -> int:
    """Create the topics that are missing and return how many partitions every topic has.

    Where some exist already, the others get as many partitions as those have, whatever the settings say.

    Raises:
        KafkaUnavailable: when the broker does not answer.
        TopicsError: when existing topics disagree about the number, or the broker refuses to create one.
    """
    names = Topics.of(kafka)
    async with admin(kafka) as client:
        try:
            existing = await partition_counts(client, names)
            count = common_count(names, existing) or kafka.partitions
            missing = [name for name in names.all() if name not in existing]
            if missing:
                await _create(client, kafka, names, missing, count)
                await _wait_until_ready(client, names, count)
        except KafkaError as error:
            raise unavailable(kafka, error) from error
    return count


async def partition_counts(client: AIOKafkaAdminClient, names: Topics) -> dict[str, int]:
    """Return how many partitions each existing topic has."""
    return {name: state.partitions for name, state in (await topic_states(client, names)).items()}


async def topic_states(client: AIOKafkaAdminClient, names: Topics) -> dict[str, TopicState]:
    """Return the topics that exist, as the broker has them.

    All topics of the broker are listed, because asking for one by name can create it.
    """
    wanted = set(names.all())
    topics: list[dict[str, Any]] = await client.describe_topics()
    return {
        topic["topic"]: _state(topic["partitions"])
        for topic in topics
        if topic["topic"] in wanted and not topic["error_code"] and topic["partitions"]
    }


def _state(partitions: list[dict[str, Any]]) -> TopicState:
    return TopicState(
        partitions=len(partitions),
        replicas=min(len(one["replicas"]) for one in partitions),
        behind=sum(len(one["isr"]) < len(one["replicas"]) for one in partitions),
        leaderless=sum(one["leader"] < 0 for one in partitions),
    )


def common_count(names: Topics, existing: dict[str, int]) -> int | None:
    """Return the number of partitions that the existing topics share, or None when there are none.

    Raises:
        TopicsError: when they do not.
    """
    counts = list(existing.values())
    if not counts:
        return None
    usual = existing.get(names.messages) or max(set(counts), key=counts.count)
    behind = [count for name, count in existing.items() if name != names.messages]
    if len(behind) > 1 and set(behind) != {usual} and len(set(behind)) == 1:
        raise TopicsError(
            f"the chat topic {names.messages} has {usual} partitions, and all topics behind it have {behind[0]}: it "
            "was changed after they were made, which moves users and cannot be undone; begin a new set of topics with "
            f"kafka.topic_prefix ({variable('kafka.topic_prefix')}) and kafka.group_id "
            f"({variable('kafka.group_id')})"
        )
    others = [f"{name} has {count}" for name, count in existing.items() if count != usual]
    if others:
        raise TopicsError(
            f"all topics must have the same number of partitions, but {', '.join(others)} where the others have "
            f"{usual}: delete and create again what differs, or begin a new set of topics with kafka.topic_prefix "
            f"({variable('kafka.topic_prefix')}) and kafka.group_id ({variable('kafka.group_id')})"
        )
    return usual


async def _create(
    client: AIOKafkaAdminClient, kafka: KafkaSettings, names: Topics, missing: list[str], count: int
) -> None:
    answer = await client.create_topics(
        [NewTopic(name, count, kafka.replication, topic_configs=names.configuration(name)) for name in missing]
    )
    for name, code, *detail in answer.topic_errors:
        problem = for_code(code)
        if code and problem is not TopicAlreadyExistsError:
            said = next(iter(detail), None) or problem.__name__
            raise TopicsError(
                f"Kafka refuses to create the topic {name} ({said}): create it yourself with {count} partitions, "
                f"or check kafka.replication ({variable('kafka.replication')}) and this client's permissions"
            )


async def _wait_until_ready(client: AIOKafkaAdminClient, names: Topics, count: int) -> None:
    try:
        async with asyncio.timeout(_CREATION_LIMIT):
            while set(await partition_counts(client, names)) != set(names.all()):
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise TopicsError(f"the topics are still not ready {_CREATION_LIMIT:.0f} s after they were created") from None
    common_count(names, await partition_counts(client, names))
