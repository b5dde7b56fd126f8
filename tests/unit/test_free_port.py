"""`free_port`: a port that is still free when a service starts on it."""

from __future__ import annotations

import socket

import pytest

from streams.embedded import child
from streams.embedded.child import free_port


def test_it_is_none_of_those_that_the_system_gives_to_connections() -> None:
    ports = {free_port() for _ in range(50)}
    assert len(ports) > 1
    assert all(20_000 <= port < 32_768 for port in ports)


def test_a_port_that_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        first = free_port()
        taken.bind(("127.0.0.1", first))
        other = free_port()
        monkeypatch.setattr(child.random, "sample", lambda _ports, _count: [first, other])
        assert free_port() == other


def test_where_all_of_them_are_taken_the_system_gives_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        port = taken.getsockname()[1]
        monkeypatch.setattr(child.random, "sample", lambda _ports, _count: [port])
        given = free_port()
    assert given != port
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", given))
