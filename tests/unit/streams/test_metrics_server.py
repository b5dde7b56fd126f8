"""Where metrics are served: on this machine, on the first port that is free, in the form that is asked for."""

from __future__ import annotations

import socket
from collections.abc import Iterable

import aiohttp
import pytest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from streams.metrics_server import MetricsUnavailable, serve_metrics
from streams.settings import MetricsSettings


class Seven(Collector):
    """One metric, so that two of them would be one too many."""

    def collect(self) -> Iterable[GaugeMetricFamily]:
        yield GaugeMetricFamily("seven", "Seven.", 7)


async def read(address: str | None, accept: str = "text/plain") -> tuple[str, str]:
    assert address is not None
    async with aiohttp.ClientSession() as session, session.get(address, headers={"Accept": accept}) as response:
        assert response.status == 200
        return response.headers["Content-Type"], await response.text()


async def test_what_is_served_can_be_read_as_prometheus_does() -> None:
    async with serve_metrics(MetricsSettings(port=0), Seven()) as address:
        kind, text = await read(address)
        families = {family.name: family for family in text_string_to_metric_families(text)}
        assert kind.startswith("text/plain")
        assert families["seven"].samples[0].value == 7
        assert families["process_resident_memory_bytes"].samples[0].value > 1_000_000
        kind, text = await read(address, "application/openmetrics-text; version=1.0.0")
        assert kind.startswith("application/openmetrics-text")
        assert text.endswith("# EOF\n")


async def test_each_worker_of_a_host_has_a_port_of_its_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with (
            serve_metrics(MetricsSettings(port=port)) as first,
            serve_metrics(MetricsSettings(port=port)) as second,
        ):
            ports = [int(str(address).split(":")[2].split("/")[0]) for address in (first, second)]
            assert port < ports[0] < ports[1]


async def test_it_listens_again_after_it_has_ended_and_forgets_what_it_read() -> None:
    for _ in range(2):
        async with serve_metrics(MetricsSettings(port=0), Seven()) as address:
            await read(address)
    with pytest.raises(aiohttp.ClientConnectionError):
        await read(address)


async def test_it_can_be_switched_off() -> None:
    async with serve_metrics(MetricsSettings(enabled=False), Seven()) as address:
        assert address is None


async def test_a_host_of_another_machine_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(MetricsUnavailable, match=r"192\.0\.2\.1.*metrics\.host"):
        async with serve_metrics(MetricsSettings(host="192.0.2.1", port=0)):
            pass


async def test_a_name_that_does_not_exist_as_well() -> None:
    with pytest.raises(MetricsUnavailable, match=r"no\.such\.host\.invalid.*metrics\.host"):
        async with serve_metrics(MetricsSettings(host="no.such.host.invalid", port=0)):
            pass


async def test_when_no_port_is_free_it_says_so() -> None:
    with (
        socket.create_server(("127.0.0.1", 65535)),
        pytest.raises(MetricsUnavailable, match="no port from 65535 to 65535 is free"),
    ):
        async with serve_metrics(MetricsSettings(port=65535)):
            pass
