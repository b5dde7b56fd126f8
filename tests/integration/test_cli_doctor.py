"""`profilestream doctor` against services that run."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import pytest_asyncio

from streams.embedded.services import EmbeddedServices
from streams.registry import announce, withdraw
from streams.settings import KafkaSettings
from streams.topics import ensure_topics

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
    announce(tmp_path, services.settings)
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
    assert "9 topics that the worker will create" in str(checks["Kafka"]["found"])
    assert str(checks["ClickHouse"]["found"]).startswith("version ")
    assert str(checks["Qdrant"]["found"]).startswith("version ")
    assert "running profilestream up" in out

    await ensure_topics(KafkaSettings.model_validate(services.settings["kafka"]))
    _, checks, _ = await doctor(environment)
    assert "all topics with 4 partitions" in str(checks["Kafka"]["found"])


@pytest.fixture
def model_server() -> Iterator[tuple[str, list[int]]]:
    """An address and the status that its server answers with, to be changed."""
    status = [200]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"object": "list", "data": [{"id": "small", "object": "model", "created": 0, "owned_by": "us"}]}'
            self.send_response(status[0])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1", status
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "key", "name", "ok", "said"),
    [
        (200, "k", "small", True, "answers and has small"),
        (200, "k", "other", True, "does not list other"),
        (404, "k", "small", True, "does not list its models"),
        (401, "k", "small", False, "model.api_key is refused"),
        (401, "", "small", False, "model.api_key is not set"),
        (500, "k", "small", False, "answers with status 500"),
    ],
)
async def test_the_model_server_is_asked(
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
    environment |= {
        "OPENAI_BASE_URL": address,
        "OPENAI_API_KEY": key,
        "OPENAI_MODEL": name,
        "PROFILESTREAM_MODEL__PROCESSOR": "llm",
    }
    code, checks, _ = await doctor(environment)
    assert code == (0 if ok else 1)
    assert checks["model"]["ok"] is ok
    assert said in str(checks["model"]["found"])


async def test_topics_that_disagree_are_wrong(environment: dict[str, str], services: EmbeddedServices) -> None:
    kafka = services.settings["kafka"]
    await ensure_topics(KafkaSettings.model_validate(kafka))
    others = {"topic_prefix": "x.", "group_id": "others", "partitions": 2}
    await ensure_topics(KafkaSettings.model_validate(kafka | others))
    code, checks, _ = await doctor(environment | {"PROFILESTREAM_KAFKA__TOPIC_PREFIX": "x."})
    assert code == 1
    assert "the same number of partitions" in str(checks["Kafka"]["found"])
    assert "kafka.topic_prefix" in str(checks["Kafka"]["advice"])


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
