"""Rebuilding the table of profiles from the archive: after a lost cluster, and at each start of the embedded broker.

Every profile is the fold of its user's deltas, made by the same code that made it in the first place
(`schemas.profiles.apply_deltas`), and is written to the table's changelog before a worker reads it. So the next change
of a user gets the next version.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    KafkaError,
    NotCoordinatorForGroupError,
)

from schemas.codec import encode
from schemas.messages import user_key
from schemas.profiles import ProfileState
from streams.kafka import MEMBERS, admin, consumer, producer, unavailable
from streams.partitioning import partition_for
from streams.settings import KafkaSettings
from streams.topics import Topics, ensure_topics

_IN_FLIGHT: Final = 500

_COORDINATOR_SECONDS: Final = 60.0
_COORDINATOR_RETRY_SECONDS: Final = 0.2


class RestoreRefused(Exception):
    """A restore would overwrite what is newer; the message says what to do instead."""


async def restore_profiles(
    profiles: AsyncIterator[ProfileState],
    kafka: KafkaSettings,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] = lambda _users: None,
) -> int:
    """Write profiles to the changelog of the table and return how many users there are.

    Args:
        profiles: what the archive knows.
        kafka: the cluster.
        overwrite: write even where the table has records.
        progress: told the number of users written so far.

    Raises:
        RestoreRefused: when the table has records, or a worker is using it.
        KafkaUnavailable: when the broker does not answer.
    """
    partitions = await ensure_topics(kafka)
    topic = Topics.of(kafka).profiles_changelog
    await _refuse_while_in_use(kafka)
    if not overwrite:
        await _refuse_over_records(kafka, topic, partitions)
    users = 0
    try:
        async with producer(kafka) as client:
            pending = []
            async for state in profiles:
                key = user_key(state.profile.tenant_id, state.profile.user_id)
                partition = partition_for(key, partitions)
                pending.append(await client.send(topic, key=key, value=encode(state), partition=partition))
                users += 1
                if len(pending) >= _IN_FLIGHT:
                    await asyncio.gather(*pending)
                    pending.clear()
                    progress(users)
            await asyncio.gather(*pending)
            progress(users)
    except KafkaError as error:
        raise unavailable(kafka, error) from error
    return users


async def _refuse_over_records(kafka: KafkaSettings, topic: str, partitions: int) -> None:
    async with consumer(kafka) as client:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        client.assign(places)
        first = await client.beginning_offsets(places)
        end = await client.end_offsets(places)
    if any(end[place] > first[place] for place in places):
        raise RestoreRefused(
            f"the table of profiles ({topic}) has records already, and the archive may be behind them: restore only "
            "what was lost, or say --overwrite"
        )


async def _refuse_while_in_use(kafka: KafkaSettings) -> None:
    try:
        async with admin(kafka) as client, asyncio.timeout(_COORDINATOR_SECONDS):
            answers = await _described(client, kafka.group_id)
    except (KafkaError, TimeoutError) as error:
        raise unavailable(kafka, error) from error
    for answer in answers:
        for group in answer.groups:
            members = group[MEMBERS]
            if members:
                raise RestoreRefused(
                    f"{len(members)} worker(s) of the group {kafka.group_id} are running and would not see it: stop "
                    "them first"
                )


async def _described(client: AIOKafkaAdminClient, group_id: str) -> list[Any]:
    while True:
        try:
            answers: list[Any] = await client.describe_consumer_groups([group_id])
        except (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError):
            # A new cluster makes the topic of its groups when it is first asked for one.
            await asyncio.sleep(_COORDINATOR_RETRY_SECONDS)
        else:
            return answers
