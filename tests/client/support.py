"""Deltas to subscribe to, written as the worker writes them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec
from profilestream_client import Connection, ProfileDelta, Subscription

from agents.cloud_events import delta_headers
from schemas import deltas as worker
from schemas.codec import encode
from schemas.ids import delta_id, flush_id
from schemas.messages import user_key
from streams.kafka import producer
from streams.partitioning import partition_for
from streams.settings import KafkaSettings
from streams.topics import Topics, ensure_topics

MOMENT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PARTITIONS = 4


def connection_to(kafka: KafkaSettings) -> Connection:
    """Return what a client needs to know of these settings."""
    return Connection(
        bootstrap_servers=kafka.bootstrap_servers,
        topic_prefix=kafka.topic_prefix,
        idempotent=not kafka.single_record_batches,
    )


def written(version: int, user: str = "ada", tenant: str = "default", **changes) -> worker.ProfileDelta:
    """Return a delta as the worker makes it: the only one of its flush."""
    flush = flush_id("log", tenant, user, "memo", 0, version, version)
    values = {
        "delta_id": delta_id(flush, 0),
        "tenant_id": tenant,
        "user_id": user,
        "version": version,
        "flush_id": flush,
        "index": 0,
        "op": "add",
        "topic": "interest",
        "sub_topic": "drinks",
        "before": None,
        "after": f"tea {version}",
        "added": f"tea {version}",
        "reason": "first",
        "evidence": ("m0",),
        "update_hits": 1,
        "said_at": MOMENT,
        "recorded_at": MOMENT,
        "processor": "rules",
        "pipeline_version": "v",
    }
    return worker.ProfileDelta(**(values | changes))


def read(delta: worker.ProfileDelta) -> ProfileDelta:
    """Return a delta as the client reads it."""
    return msgspec.json.decode(encode(delta), type=ProfileDelta)


async def send(kafka: KafkaSettings, *deltas: worker.ProfileDelta | bytes | None) -> None:
    """Write deltas, and bytes that are none as the user `ada`'s, to their topic; each is there before the next."""
    await ensure_topics(kafka)
    async with producer(kafka) as client:
        for delta in deltas:
            if isinstance(delta, worker.ProfileDelta):
                key, value, headers = (
                    user_key(delta.tenant_id, delta.user_id),
                    encode(delta),
                    delta_headers(delta, "log"),
                )
            else:
                key, value, headers = user_key("default", "ada"), delta, []
            await client.send_and_wait(
                Topics.of(kafka).deltas,
                key=key,
                value=value,
                partition=partition_for(key, PARTITIONS),
                headers=headers,
            )


async def some(subscription: Subscription, count: int) -> list[ProfileDelta]:
    """Return the next deltas."""
    return [await anext(subscription) for _ in range(count)]


def versions(deltas: Iterable[ProfileDelta]) -> list[int]:
    """Return their versions."""
    return [delta.version for delta in deltas]
