"""The jars of Apache Kafka are fetched whole or not at all, and what stands in the way is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import kafka_jars
from benchmarks.kafka_jars import VERSION, KafkaMissing, fetch, fetched, jars_folder, main

JAVA_17 = """echo 'openjdk version "17.0.1" 2021-10-19' >&2"""
MAVEN = """
echo called >> "$CALLS"
for argument; do case "$argument" in -DoutputDirectory=*) into=${argument#*=};; esac; done
mkdir "$into" && echo jar > "$into/kafka.jar"
"""
MAVEN_THAT_FAILS = (
    MAVEN + "echo '[ERROR] Could not transfer artifact: refused -> [Help 1]'; echo '[ERROR] more'; exit 1\n"
)


class Machine:
    """A search path and a cache of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.calls = folder / "calls"

    def install(self, name: str, script: str) -> None:
        program = self.programs / name
        program.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        program.chmod(0o755)

    def times_fetched(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path)
    monkeypatch.setenv("PATH", str(found.programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(found.calls))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return found


def test_jars_are_fetched_once(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.install("java", JAVA_17)
    machine.install("mvn", MAVEN)
    with pytest.raises(KafkaMissing, match="make kafka"):
        fetched()
    assert (main(), main()) == (0, 0)
    assert f"Apache Kafka {VERSION} is in {jars_folder()}" in capsys.readouterr().out
    assert machine.times_fetched() == 1
    assert (fetched() / "kafka.jar").exists()
    assert list(jars_folder().parent.iterdir()) == [jars_folder()]


def test_jars_of_another_list_are_replaced(machine: Machine) -> None:
    machine.install("java", JAVA_17)
    machine.install("mvn", MAVEN)
    (fetch() / "kafka.pom.xml").write_text("another list")
    (jars_folder() / "old.jar").touch()
    with pytest.raises(KafkaMissing):
        fetched()
    fetch()
    assert machine.times_fetched() == 2
    assert not (fetched() / "old.jar").exists()


def test_a_failed_fetch_leaves_nothing_and_says_what_maven_said(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.install("java", JAVA_17)
    machine.install("mvn", MAVEN_THAT_FAILS)
    assert main() == 1
    said = capsys.readouterr().err
    assert said == f"Maven could not fetch Apache Kafka {VERSION}: Could not transfer artifact: refused\n"
    assert list(jars_folder().parent.iterdir()) == []


def test_a_maven_that_does_not_end_is_given_up(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.install("java", JAVA_17)
    machine.install("mvn", "exec sleep 60")
    monkeypatch.setattr(kafka_jars, "_FETCH_LIMIT", 0.2)
    with pytest.raises(KafkaMissing, match="did not fetch"):
        fetch()
    assert list(jars_folder().parent.iterdir()) == []


def test_missing_programs_are_named(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KafkaMissing, match=r"needs Java 17 or newer, and there is none on the search path"):
        fetch()
    machine.install("java", JAVA_17)
    with pytest.raises(KafkaMissing, match="no mvn on the search path"):
        fetch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(KafkaMissing, match=r"there is none in JAVA_HOME"):
        fetch()


@pytest.mark.parametrize(("said", "version"), [('openjdk version "11.0.2"', "11"), ('java version "1.8.0_1"', "1")])
def test_an_old_java_is_named(machine: Machine, said: str, version: str) -> None:
    machine.install("java", f"echo '{said}' >&2")
    with pytest.raises(KafkaMissing, match=f"{machine.programs}/java is {version}$"):
        fetch()
