"""`profilestream doctor` against services that run."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import pytest_asyncio

from sinks.clickhouse import ClickHouseArchive
from streams.cli.checks import _check_replicas, _Wrong, run_checks
from streams.embedded.child import free_port
from streams.embedded.services import EmbeddedServices
from streams.registry import announce, withdraw
from streams.settings import KafkaSettings, load_settings, variable
from streams.stores import open_vectors
from streams.topics import TopicState, ensure_topics

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def services(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedServices]:
    async with EmbeddedServices(tmp_path_factory.mktemp("services")) as running:
        yield running


@pytest.fixture
def environment(
    services: EmbeddedServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """A user whose `profilestream up` runs, and who has set nothing."""
    for key in os.environ:
        if key.startswith(("PROFILESTREAM_", "OPENAI_")):
            monkeypatch.delenv(key)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    announce(tmp_path, services.settings, processor="some-model", metrics="http://127.0.0.1:9470/metrics")
    yield os.environ | {"PROFILESTREAM_EMBEDDING__KIND": "hash"}
    withdraw(tmp_path)


async def doctor(environment: dict[str, str]) -> tuple[int | None, dict[str, dict[str, object]], str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "streams.cli", "doctor", "--json"),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert err == b""
    lines = [json.loads(line) for line in out.splitlines()]
    return process.returncode, {line["check"]: line for line in lines if "check" in line}, out.decode()


async def test_everything_that_runs_is_found_without_settings(
    environment: dict[str, str], services: EmbeddedServices
) -> None:
    code, checks, out = await doctor(environment)
    assert code == 0, checks
    assert all(check["ok"] and not check["advice"] for check in checks.values())
    assert services.settings["kafka"]["bootstrap_servers"] in str(checks["Kafka"]["found"])
    assert "9 topics that the worker will create, no worker running" in str(checks["Kafka"]["found"])
    assert str(checks["ClickHouse"]["found"]).endswith(
        "its tables are still to be made, by a worker or `profilestream migrate`"
    )
    assert str(checks["Qdrant"]["found"]).endswith("its collection is still to be made, by a worker")
    assert str(checks["ClickHouse"]["found"]).startswith("version ")
    assert str(checks["Qdrant"]["found"]).startswith("version ")
    assert "running profilestream up" in out
    assert "its worker's processor: some-model, metrics: http://127.0.0.1:9470/metrics;" in str(
        checks["profilestream up"]["found"]
    )
    assert str(checks["model"]["found"]).startswith(
        "the worker of `profilestream up` uses some-model; by the settings of this shell, rules decide"
    )

    await ensure_topics(KafkaSettings.model_validate(services.settings["kafka"]))
    _, checks, _ = await doctor(environment)
    assert "all topics with 4 partitions" in str(checks["Kafka"]["found"])


WEB_PAGE, TRICKLE = -200, -201
"""In place of a status: a page for people, and an answer whose body does not come."""


@pytest.fixture
def model_server() -> Iterator[tuple[str, list[int]]]:
    """An address and the status that its server answers with, to be changed."""
    status = [200]
    silence = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"object": "list", "data": [{"id": "small", "object": "model", "created": 0, "owned_by": "us"}]}'
            kind = "application/json"
            if status[0] == WEB_PAGE:
                body, kind = b"<html>Welcome</html>", "text/html; charset=utf-8"
            self.send_response(abs(status[0]))
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if status[0] == 307:
                self.send_header("Location", "http://me:pw-4711@model.invalid/v1/models")
            self.end_headers()
            if status[0] == TRICKLE:
                silence.wait(60)
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1", status
    silence.set()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "key", "name", "ok", "said"),
    [
        (200, "k", "small", True, "answers and has small"),
        (200, "k", "other", True, "does not list other"),
        (404, "k", "small", True, "does not list its models"),
        (401, "k", "small", False, "does not accept the key"),
        (401, "", "small", False, "asks for a key, and none is set"),
        (500, "k", "small", False, "answers with status 500"),
        (307, "k", "small", False, "a redirect to http://***@model.invalid/v1/models, which is not followed"),
        (WEB_PAGE, "k", "small", False, "answers with something that is no list of models (text/html)"),
        (TRICKLE, "k", "small", False, "gives no answer within 10 s"),
    ],
)
async def test_the_model_server_is_asked(
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    model_server: tuple[str, list[int]],
    status: int,
    key: str,
    name: str,
    ok: bool,
    said: str,
) -> None:
    address, current = model_server
    current[0] = status
    for setting, value in (
        *environment.items(),
        ("OPENAI_BASE_URL", address),
        ("OPENAI_API_KEY", key),
        ("OPENAI_MODEL", name),
        ("PROFILESTREAM_MODEL__PROCESSOR", "llm"),
    ):
        monkeypatch.setenv(setting, value)
    checks = {check.check: check for check in await run_checks(load_settings())}
    assert checks["model"].ok is ok
    assert said in checks["model"].found


async def test_topics_that_disagree_are_wrong(environment: dict[str, str], services: EmbeddedServices) -> None:
    kafka = services.settings["kafka"]
    await ensure_topics(KafkaSettings.model_validate(kafka))
    others = {"topic_prefix": "x.", "group_id": "others", "partitions": 2}
    await ensure_topics(KafkaSettings.model_validate(kafka | others))
    # A prefix has a group of its own, unless one is named.
    named = {variable("kafka.topic_prefix"): "x.", variable("kafka.group_id"): "profilestream"}
    code, checks, _ = await doctor(environment | named)
    assert code == 1
    assert "the same number of partitions" in str(checks["Kafka"]["found"])
    assert "kafka.topic_prefix" in str(checks["Kafka"]["advice"])


async def test_topics_with_fewer_replicas_than_wanted_are_wrong(
    environment: dict[str, str], services: EmbeddedServices
) -> None:
    await ensure_topics(KafkaSettings.model_validate(services.settings["kafka"]))
    code, checks, _ = await doctor(environment | {variable("kafka.replication"): "3"})
    assert code == 1
    assert str(checks["Kafka"]["found"]).startswith(
        "keeps fewer replicas than the 3 of kafka.replication, of chat.flushes.v1, chat.memos.v1, chat.messages.v1, "
    )
    assert variable("kafka.replication") in str(checks["Kafka"]["advice"])


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (TopicState(4, 3, behind=0, leaderless=1), "neither written nor read, of a"),
        (TopicState(4, 3, behind=2, leaderless=0), "a replica that is not in step, of a"),
    ],
    ids=["no leader", "behind"],
)
async def test_partitions_without_their_brokers_are_wrong(state: TopicState, found: str) -> None:
    with pytest.raises(_Wrong) as caught:
        _check_replicas({"a": state, "b": TopicState(4, 3, behind=0, leaderless=0)}, 3)
    assert caught.value.found.endswith(found)


async def test_tables_of_an_older_release_are_wrong(environment: dict[str, str], services: EmbeddedServices) -> None:
    environment |= {variable("clickhouse.database"): "older"}
    clickhouse = services.settings["clickhouse"]
    archive = ClickHouseArchive(url=str(clickhouse["url"]), database="older")
    await archive.open()
    missing = await archive.missing_migrations()
    await archive.migrate()
    assert await archive.missing_migrations() == []
    _, checks, _ = await doctor(environment)
    assert checks["ClickHouse"]["ok"]
    assert str(checks["ClickHouse"]["found"]).endswith(", all tables")
    await archive._client.command(
        f"ALTER TABLE schema_migrations DELETE WHERE version = {missing[-1]} SETTINGS mutations_sync = 1"
    )
    assert await archive.missing_migrations() == missing[-1:]
    await archive.close()
    code, checks, _ = await doctor(environment)
    assert code == 1
    assert str(checks["ClickHouse"]["found"]).endswith("has tables of an older release: 1 migrations are missing")
    assert "`profilestream migrate`" in str(checks["ClickHouse"]["advice"])


async def test_a_collection_of_another_embedding_is_wrong(
    environment: dict[str, str], services: EmbeddedServices
) -> None:
    settings = load_settings(overrides={**services.settings, "embedding": {"kind": "hash"}})
    async with open_vectors(settings):
        pass
    _, checks, _ = await doctor(environment)
    assert str(checks["Qdrant"]["found"]).endswith("profiles-hash-384-2 in use as profiles")
    code, checks, _ = await doctor(environment | {variable("embedding.dimension"): "64"})
    assert code == 1
    assert "writes to profiles-hash-64-2" in str(checks["Qdrant"]["found"])
    assert "`profilestream reindex`" in str(checks["Qdrant"]["advice"])


async def test_an_embedding_server_that_is_down_is_named_and_not_to_be_started_with_up(
    environment: dict[str, str],
) -> None:
    address = f"http://127.0.0.1:{free_port()}/v1"
    names = {"kind": "openai", "base_url": address, "model": "m", "dimension": "8"}
    environment |= {variable(f"embedding.{name}"): value for name, value in names.items()}
    code, checks, _ = await doctor(environment)
    assert code == 1
    assert str(checks["embedding"]["found"]).startswith(f"the embedding server at {address} does not answer (")
    assert "embedding.base_url" in str(checks["embedding"]["advice"])
    assert "profilestream up" not in str(checks["embedding"]["advice"])


async def test_something_else_behind_an_address_is_wrong(
    environment: dict[str, str], model_server: tuple[str, list[int]]
) -> None:
    address = model_server[0].removesuffix("/v1")
    code, checks, _ = await doctor(
        environment | {"PROFILESTREAM_QDRANT__URL": address, "PROFILESTREAM_CLICKHOUSE__URL": address}
    )
    assert code == 1
    assert not checks["Qdrant"]["ok"]
    assert not checks["ClickHouse"]["ok"]
    assert checks["Qdrant"]["advice"]
    assert checks["ClickHouse"]["advice"]
