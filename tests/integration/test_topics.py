"""Topics are created as they must be, on a real broker."""

from __future__ import annotations

import pytest
from aiokafka.admin import NewTopic

from streams.embedded.child import free_port
from streams.kafka import KafkaUnavailable, admin, cluster_id
from streams.settings import KafkaSettings
from streams.topics import Topics, TopicsError, common_count, ensure_topics, partition_counts
from tests.integration.broker_fixtures import CLUSTER_ID


def test_names_carry_prefix_and_version() -> None:
    topics = Topics.of(KafkaSettings(topic_prefix="eu.", group_id="workers"))
    assert topics.messages == "eu.chat.messages.v1"
    assert topics.dead_letters == "eu.dead.letters.v1"
    assert topics.profiles_changelog == "workers-profiles-changelog"
    assert len(set(topics.all())) == 9


def test_changelogs_are_compacted_and_deltas_kept() -> None:
    topics = Topics.of(KafkaSettings())
    assert topics.configuration(topics.windows_changelog)["cleanup.policy"] == "compact"
    assert topics.configuration(topics.deltas)["retention.ms"] == "-1"
    assert topics.configuration(topics.dead_letters)["retention.ms"] == "-1"
    assert topics.configuration(topics.messages) == {}


async def test_missing_topics_are_created_once(kafka: KafkaSettings) -> None:
    kafka = kafka.model_copy(update={"partitions": 3})
    assert await ensure_topics(kafka) == 3
    assert await ensure_topics(kafka) == 3
    async with admin(kafka) as client:
        counts = await partition_counts(client, Topics.of(kafka))
    assert counts == dict.fromkeys(Topics.of(kafka).all(), 3)


async def test_new_topics_follow_those_that_exist(kafka: KafkaSettings) -> None:
    topics = Topics.of(kafka)
    async with admin(kafka) as client:
        await client.create_topics([NewTopic(topics.messages, 6, 1)])
    assert await ensure_topics(kafka.model_copy(update={"partitions": 2})) == 6


async def test_another_number_of_partitions_is_named(kafka: KafkaSettings) -> None:
    topics = Topics.of(kafka)
    async with admin(kafka) as client:
        await client.create_topics([NewTopic(topics.messages, 4, 1), NewTopic(topics.memos, 3, 1)])
    with pytest.raises(TopicsError) as caught:
        await ensure_topics(kafka)
    assert f"{topics.memos} has 3" in str(caught.value)
    assert "kafka.topic_prefix" in str(caught.value)
    async with admin(kafka) as client:
        assert topics.deltas not in await partition_counts(client, topics)


async def test_a_chat_topic_that_got_partitions_later_is_named(kafka: KafkaSettings) -> None:
    topics = Topics.of(kafka)
    counts = {topics.messages: 8, topics.flushes: 4, topics.memos: 4}
    with pytest.raises(TopicsError, match=f"the chat topic {topics.messages} has 8 partitions, and all .* have 4: "):
        common_count(topics, counts)
    with pytest.raises(TopicsError, match=f"but {topics.memos} has 3 where the others have 8"):
        common_count(topics, counts | {topics.flushes: 8, topics.memos: 3})


async def test_looking_creates_nothing(kafka: KafkaSettings) -> None:
    async with admin(kafka) as client:
        assert await partition_counts(client, Topics.of(kafka)) == {}
        assert await partition_counts(client, Topics.of(kafka)) == {}


async def test_the_cluster_has_an_id(kafka: KafkaSettings) -> None:
    assert await cluster_id(kafka) == CLUSTER_ID


async def test_a_broker_that_is_down_is_named_with_its_setting() -> None:
    kafka = KafkaSettings(bootstrap_servers=f"127.0.0.1:{free_port()}")
    with pytest.raises(KafkaUnavailable, match=r"bootstrap_servers.*PROFILESTREAM_KAFKA__BOOTSTRAP_SERVERS"):
        await ensure_topics(kafka)
