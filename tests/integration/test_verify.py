"""`verify_profiles`: it finds what differs between the archive and the table, and only that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from schemas.codec import encode
from schemas.deltas import ProfileDelta
from schemas.messages import user_key
from schemas.profiles import Profile, ProfileState, apply_deltas
from streams import verify
from streams.kafka import producer
from streams.settings import KafkaSettings
from streams.topics import Topics, ensure_topics
from streams.verify import verify_profiles
from tests.integration.clickhouse_records import make_delta, make_tag

pytest_plugins = ["tests.integration.broker_fixtures"]


def profile(user: str, *deltas: ProfileDelta) -> Profile:
    return apply_deltas(Profile(tenant_id="t", user_id=user), deltas)


@dataclass
class Archive:
    """Profiles as the archive would fold them; those of `late` come with the second look."""

    known: list[Profile]
    late: dict[str, Profile] = field(default_factory=dict)

    async def profiles(self) -> AsyncIterator[ProfileState]:
        for each in self.known:
            yield ProfileState(profile=each)

    async def profile(self, tenant_id: str, user_id: str) -> Profile:
        empty = Profile(tenant_id=tenant_id, user_id=user_id)
        found = next((each for each in self.known if each.user_id == user_id), empty)
        return self.late.get(user_id, found)


async def table(kafka: KafkaSettings, *profiles: Profile) -> None:
    await ensure_topics(kafka)
    topic = Topics.of(kafka).profiles_changelog
    async with producer(kafka) as client:
        sends = [
            client.send_and_wait(topic, encode(ProfileState(profile=each)), key=user_key(each.tenant_id, each.user_id))
            for each in profiles
        ]
        await asyncio.gather(*sends)


ONE, TWO = make_delta(1, "ada"), make_delta(2, "ada", after="w", before="v")


async def test_profiles_that_agree(kafka: KafkaSettings) -> None:
    both = [profile("ada", ONE, TWO), profile("bea", make_tag(1, user="bea"))]
    await table(kafka, profile("ada", ONE), *both, Profile(tenant_id="t", user_id="silent"))
    seen: list[int] = []
    assert await verify_profiles(Archive(both), kafka, progress=seen.append) == (3, [])
    assert seen == [1, 2]


async def test_each_way_to_differ_is_named(kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_BETWEEN_LOOKS", 0.0)
    other = make_delta(2, "ada", after="other", before="v")
    await table(
        kafka, profile("ada", ONE, TWO), profile("bea", make_delta(1, "bea")), profile("eve", make_delta(1, "eve"))
    )
    archive = Archive(
        [
            profile("ada", ONE, other),
            profile("bea", make_delta(1, "bea"), make_delta(2, "bea")),
            profile("carl", make_delta(1, "carl")),
        ]
    )
    assert await verify_profiles(archive, kafka) == (
        4,
        [
            ("t", "ada", "version 2 of both, with different slots"),
            ("t", "bea", "version 2 in the archive, 1 in the table of profiles"),
            ("t", "carl", "it is in the archive only"),
            ("t", "eve", "version 0 in the archive, 1 in the table of profiles"),
        ],
    )


async def test_what_was_under_way_at_the_first_look_does_not_differ(
    kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "_BETWEEN_LOOKS", 0.0)
    await table(kafka, profile("ada", ONE, TWO))
    archive = Archive([profile("ada", ONE)], late={"ada": profile("ada", ONE, TWO)})
    assert await verify_profiles(archive, kafka) == (1, [])
