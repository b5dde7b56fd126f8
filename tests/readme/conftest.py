"""One `profilestream up` for all blocks of the READMEs, with the sample conversations published."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from streams.samples import sample_names, sample_path


@dataclass(frozen=True)
class Here:
    """Where the blocks run.

    Attributes:
        folder: the working directory, with a file `chat.jsonl`.
        environment: variables of the commands; nothing of the program is set in them.
        services: addresses of what `up` runs, by name.
    """

    folder: Path
    environment: Mapping[str, str]
    services: Mapping[str, str]

    def run(self, command: str, limit: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command in a shell."""
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )


@pytest.fixture(scope="session")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """A folder with a conversation, and `profilestream up` running as the README says."""
    folder = tmp_path_factory.mktemp("readme")
    chat = "".join(sample_path(name).read_text(encoding="utf-8") for name in sample_names())
    (folder / "chat.jsonl").write_text(chat, encoding="utf-8")
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PROFILESTREAM_", "OPENAI_"))}
    own |= {"XDG_STATE_HOME": str(folder / "state"), "XDG_DATA_HOME": str(folder / "share"), "COLUMNS": "100"}
    own["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{own['PATH']}"
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen(
            ["profilestream", "up", "--json"], cwd=folder, env=own, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready, (folder / "up.log").read_text()
        running = Here(folder, own, json.loads(ready))
        published = running.run("profilestream publish --flush chat.jsonl && profilestream flush anna --wait")
        assert published.returncode == 0, published.stderr
        archived = running.run("until profilestream verify; do :; done")
        assert archived.returncode == 0, archived.stderr
        indexed = running.run("until profilestream search sea --json | grep -q user_id; do :; done")
        assert indexed.returncode == 0, indexed.stderr
        yield running
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(150)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    assert process.returncode == 0, (folder / "up.log").read_text()
