"""`Client.local`: the services of a running `profilestream up`, as it announces them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from profilestream_client import Client, Connection, KafkaUnavailable, Stores
from profilestream_client.local import find_local

from streams import registry

HERE = {
    "kafka": {"bootstrap_servers": "127.0.0.1:4711", "single_record_batches": True, "session_timeout": 6.0},
    "clickhouse": {"url": "http://127.0.0.1:4712"},
    "qdrant": {"url": "http://127.0.0.1:4713"},
}
FOUND = (
    Connection(bootstrap_servers="127.0.0.1:4711", idempotent=False),
    Stores(clickhouse_url="http://127.0.0.1:4712", qdrant_url="http://127.0.0.1:4713"),
)


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who runs nothing yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("PROFILESTREAM_DATA_DIR", raising=False)


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def test_what_runs_is_found_wherever_its_data_is(tmp_path: Path) -> None:
    registry.announce(folder(registry.default_data_dir()), HERE | {"kafka": {"bootstrap_servers": "older:1"}})
    assert find_local()[0] == Connection(bootstrap_servers="older:1")
    registry.announce(folder(tmp_path / "data"), HERE)
    assert find_local() == find_local(tmp_path / "data") == FOUND
    assert find_local(str(registry.default_data_dir()))[0].servers == ["older:1"]


def test_a_folder_named_by_variable_is_the_only_one_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.announce(folder(tmp_path / "data"), HERE)
    monkeypatch.setenv("PROFILESTREAM_DATA_DIR", str(tmp_path / "other"))
    with pytest.raises(KafkaUnavailable, match=r"with its data in .*other: start it"):
        find_local()


def test_where_none_runs_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(KafkaUnavailable) as caught:
        Client.local()
    assert str(caught.value) == (
        "no `profilestream up` of this user is running: start it, or say where Kafka is with Client('HOST:PORT')"
    )
    file = folder(tmp_path / "data") / registry.FILE_NAME
    made = registry.announce(file.parent, HERE)
    Client.local(file.parent)
    file.write_bytes(file.read_bytes().replace(b'"pid":%d' % os.getpid(), b'"pid":%d' % 2**30))
    for content in (file.read_bytes(), b"", b"{}"):
        file.write_bytes(content)
        with pytest.raises(KafkaUnavailable, match="is running with its data in"):
            Client.local(file.parent)
    assert made.settings == HERE
