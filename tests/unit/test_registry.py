"""The announcement of running services: found while its process runs, and only then."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from streams import registry

SETTINGS = {"kafka": {"bootstrap_servers": "127.0.0.1:4000", "single_record_batches": True}}


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PROFILESTREAM_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.mkdir()
    return path


def rewrite(folder: Path, **changes: object) -> None:
    """Change what a running `up` has announced."""
    file = folder / registry.FILE_NAME
    found = msgspec.json.decode(file.read_bytes(), type=registry.Announcement)
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(found, **changes)))


def test_announced_services_are_found_with_and_without_the_folder(folder: Path) -> None:
    made = registry.announce(folder, SETTINGS, {"broker": 12}, processor="rules", metrics="http://127.0.0.1:9/metrics")
    assert registry.find(folder) == made
    assert registry.find() == made
    assert made.settings == SETTINGS
    assert made.processes == {"broker": 12}
    assert (made.processor, made.metrics) == ("rules", "http://127.0.0.1:9/metrics")
    assert made.pid == os.getpid()


def test_only_the_user_may_read_it(folder: Path) -> None:
    registry.announce(folder, SETTINGS)
    assert stat.S_IMODE((folder / registry.FILE_NAME).stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == [registry.FILE_NAME]


def test_withdrawn_services_are_not_found(folder: Path, tmp_path: Path) -> None:
    registry.announce(folder, SETTINGS)
    registry.withdraw(folder)
    assert registry.find(folder) is None
    assert registry.find() is None
    assert list(folder.iterdir()) == []
    assert list((tmp_path / "state/profilestream/running").iterdir()) == []


def test_withdrawing_leaves_what_another_process_announced(folder: Path) -> None:
    registry.announce(folder, SETTINGS)
    rewrite(folder, pid=os.getppid(), process_started=registry.process_started(os.getppid()))
    registry.withdraw(folder)
    assert registry.find(folder) is not None


def test_a_process_that_was_killed_is_ignored_and_its_pointer_removed(folder: Path, tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from streams import registry;"
        "registry.announce(Path(sys.argv[1]), {}); print('ready', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        found = registry.find()
        assert found is not None
        assert found.pid == process.pid
        process.kill()
    assert (folder / registry.FILE_NAME).exists()
    assert registry.find() is None
    assert registry.find(folder) is None
    assert list((tmp_path / "state/profilestream/running").iterdir()) == []


@pytest.mark.skipif(registry.process_started(os.getpid()) is None, reason="needs /proc")
def test_a_number_given_to_another_process_is_recognised(folder: Path) -> None:
    made = registry.announce(folder, SETTINGS)
    assert made.process_started is not None
    rewrite(folder, process_started=made.process_started - 1)
    assert registry.find(folder) is None


def test_the_one_started_last_is_meant(folder: Path, tmp_path: Path) -> None:
    older = tmp_path / "share" / "profilestream"
    older.mkdir(parents=True)
    registry.announce(older, {"kafka": {"group_id": "older"}})
    newer = registry.announce(folder, SETTINGS)
    assert registry.find() == newer
    assert registry.find(older) != newer


def test_a_folder_named_by_variable_is_the_only_one_looked_at(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.announce(folder, SETTINGS)
    monkeypatch.setenv("PROFILESTREAM_DATA_DIR", str(tmp_path / "other"))
    assert registry.default_data_dir() == tmp_path / "other"
    assert registry.find() is None
    monkeypatch.setenv("PROFILESTREAM_DATA_DIR", str(folder))
    assert registry.find() is not None


def test_default_folder_follows_the_users_conventions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert registry.default_data_dir() == tmp_path / "share" / "profilestream"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/anna")
    assert registry.default_data_dir() == Path("/home/anna/.local/share/profilestream")


@pytest.mark.parametrize("content", [b"", b"{", b'{"pid": "x"}', b"\xff"])
def test_a_damaged_file_is_no_announcement(folder: Path, content: bytes) -> None:
    (folder / registry.FILE_NAME).write_bytes(content)
    assert registry.find(folder) is None


def test_a_state_folder_that_cannot_be_written_only_warns(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    registry.announce(folder, SETTINGS)
    assert "--data-dir" in caplog.text
    assert registry.find(folder) is not None
    assert registry.find() is None
    registry.withdraw(folder)


def test_what_an_older_release_announced_is_still_read(folder: Path) -> None:
    registry.announce(folder, SETTINGS)
    file = folder / registry.FILE_NAME
    fields = msgspec.json.decode(file.read_bytes())
    del fields["processor"], fields["metrics"]
    file.write_bytes(msgspec.json.encode(fields))
    found = registry.find(folder)
    assert found is not None
    assert (found.processor, found.metrics) == ("", "")
