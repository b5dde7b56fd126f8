"""The services of one run: started for it, or those that the settings name, with names that nobody else uses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.kafka_jars import KafkaMissing
from benchmarks.load.model import NAME
from benchmarks.load.plan import APACHE, EMBEDDED, FROM_SETTINGS, Plan
from streams.embedded.child import Child, ServiceFailed
from streams.embedded.kafka import EmbeddedKafka
from streams.embedded.services import EmbeddedServices
from streams.kafka import admin
from streams.settings import Settings
from streams.topics import Topics

Groups = dict[str, dict[str, Any]]
"""Settings by group and name."""

LoadSettings = Callable[[Groups], Settings]
"""Reads the settings with these on top."""


@dataclass(frozen=True, slots=True)
class Services:
    """What a run works on.

    Attributes:
        settings: of the workers.
        overrides: what of them is given to workers beside the settings that they read themselves.
        processes: those that were started for the run, by name.
        started: names of settings that are the run's own, and say nothing about its speed.
    """

    settings: Settings
    overrides: Groups
    processes: Mapping[str, int]
    started: frozenset[str]


@asynccontextmanager
async def open_services(plan: Plan, folder: Path, load: LoadSettings, python: str) -> AsyncIterator[Services]:
    """Start what the plan wants started; what the run leaves in services that it did not start is removed at the end.

    Args:
        plan: of the run.
        folder: for data and logs.
        load: reads the settings.
        python: program that runs the scripted model.

    Raises:
        ServiceFailed: when a service does not start.
    """
    own = f"bench-{uuid4().hex[:10]}"
    async with AsyncExitStack() as stack:
        groups, processes = await _start(plan, folder, stack)
        groups = _over(
            groups,
            {
                "kafka": {"topic_prefix": f"{own}.", "group_id": own},
                "clickhouse": {"database": own.replace("-", "_")},
                "qdrant": {"collection": own},
                "metrics": {"enabled": True, "host": "127.0.0.1", "port": 0},
            },
        )
        if plan.model is None:
            groups["model"] = {"processor": "rules"}
        else:
            model = Child("scripted model", folder / "logs")
            stack.push_async_callback(model.stop)
            arguments = (f"--latency={plan.model.latency}", f"--errors={plan.model.errors}")
            command = (python, "-m", "benchmarks.load.model", *arguments, f"--seed={plan.traffic.seed}")
            answer = await model.start(command)
            processes["model"] = model.pid
            groups["model"] = {"processor": "llm", "base_url": answer["url"], "name": NAME, "api_key": NAME}
        started = frozenset(f"{group}.{name}" for group, values in groups.items() for name in values)
        groups = _over({"embedding": {"kind": "hash"}}, groups, nested(plan.settings))
        settings = load(groups)
        if plan.kafka not in {EMBEDDED, APACHE}:
            stack.push_async_callback(_remove_topics, settings)
        if plan.stores == FROM_SETTINGS:
            stack.push_async_callback(_remove_from_stores, settings)
        yield Services(settings, groups, processes, started)


async def _start(plan: Plan, folder: Path, stack: AsyncExitStack) -> tuple[Groups, dict[str, int]]:
    groups: Groups = {}
    processes: dict[str, int] = {}
    if plan.kafka == APACHE:
        try:
            node = await stack.enter_async_context(ApacheKafka(folder / "kafka"))
        except KafkaMissing as error:
            raise ServiceFailed(str(error)) from error
        groups["kafka"] = dict(node.settings())
        processes["kafka"] = node.pid
    elif plan.kafka == EMBEDDED:
        broker = EmbeddedKafka(folder / "logs")
        stack.push_async_callback(broker.stop)
        await broker.start()
        groups["kafka"] = dict(broker.settings())
        processes["kafka"] = broker.pid
    elif plan.kafka != FROM_SETTINGS:
        groups["kafka"] = {"bootstrap_servers": plan.kafka}
    if plan.stores == EMBEDDED:
        nobody: dict[str, str | int | float | bool] = {"bootstrap_servers": "127.0.0.1:1"}  # the broker is there
        stores = await stack.enter_async_context(EmbeddedServices(folder / "stores", nobody))
        groups |= {name: dict(stores.settings[name]) for name in ("clickhouse", "qdrant")}
        processes |= stores.processes
    return groups, processes


def nested(settings: Mapping[str, str]) -> Groups:
    """Return settings that are given by their full name by group and name."""
    groups: Groups = {}
    for full_name, value in settings.items():
        group, _, name = full_name.partition(".")
        groups.setdefault(group, {})[name] = value
    return groups


def _over(*layers: Groups) -> Groups:
    """Return all settings; the last layer wins."""
    merged: Groups = {}
    for layer in layers:
        for group, values in layer.items():
            merged.setdefault(group, {}).update(values)
    return merged


async def _remove_topics(settings: Settings) -> None:
    names = set(Topics.of(settings.kafka).all())
    async with admin(settings.kafka) as client:
        await client.delete_topics([name for name in await client.list_topics() if name in names])


async def _remove_from_stores(settings: Settings) -> None:
    from qdrant_client import AsyncQdrantClient

    clickhouse = settings.clickhouse
    headers = {"X-ClickHouse-User": clickhouse.user, "X-ClickHouse-Key": clickhouse.password.get_secret_value()}
    sql = f"DROP DATABASE IF EXISTS {clickhouse.database}"
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(clickhouse.url, data=sql.encode()) as answer,
    ):
        answer.raise_for_status()
    client = AsyncQdrantClient(url=settings.qdrant.url, api_key=settings.qdrant.api_key.get_secret_value() or None)
    try:
        for collection in (await client.get_collections()).collections:
            if collection.name.startswith(settings.qdrant.collection):
                await client.delete_collection(collection.name)
    finally:
        await client.close()
