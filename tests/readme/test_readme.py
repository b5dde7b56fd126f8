"""Every block of the READMEs that a shell, Python or ClickHouse can run does run, against one `profilestream up`."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import textwrap
import urllib.parse
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import certifi
import msgspec
import pytest

from schemas.deltas import FactDetail, PreferenceDetail, ProfileDelta
from schemas.messages import decode_message
from tests.readme.blocks import FILES, ROOT, Block, Command, blocks, commands
from tests.readme.conftest import Here

pytestmark = pytest.mark.timeout(300)

NOT_RUN: Final = {
    ". .venv/bin/activate": "the tests run in an environment already",
    "profilestream up": "it runs for all the others",
    "kcat ": "kcat is not among the tests' packages",
    "echo 'default:anna|": "likewise",
    "pip install": "tests/client/test_distribution.py installs it",
    "export ": "services of one's own: the names of the variables are checked below",
    "profilestream bench": "minutes of load, with workers of its own; tests/integration runs a short one",
    "profilestream worker": "a second worker; tests/integration and tests/chaos run several",
    ".venv/bin/python -m benchmarks.": "minutes, and figures that a busy machine spoils",
}
"""Beginnings of commands that do not run here, and why."""

FOLLOWING: Final = " --follow"
"""Commands with this option run until their first line."""


def reason_not_to_run(command: Command) -> str | None:
    return next((why for start, why in NOT_RUN.items() if command.text.startswith(start)), None)


def named(found: Iterable[Block | Command]) -> list[object]:
    return [pytest.param(one, id=f"{one.file}:{one.line} {one.text.splitlines()[0][:60]}") for one in found]


def test_what_does_not_run_is_still_there() -> None:
    every = list(commands())
    assert [start for start in NOT_RUN if not any(command.text.startswith(start) for command in every)] == []


def test_every_block_that_could_run_has_a_language() -> None:
    assert {
        block.language for block in blocks("", "sh", "sql", "python", "json", "bash", "shell", "console", "py")
    } <= {
        "sh",
        "sql",
        "python",
        "json",
        "",
    }
    assert not [block for block in blocks("") if "profilestream " in block.text]


@pytest.mark.parametrize("command", named(command for command in commands() if command.text.startswith("make ")))
def test_make_knows_its_targets(command: Command) -> None:
    dry = subprocess.run(
        [*command.text.split(), "--dry-run"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert dry.returncode == 0, dry.stderr


def running() -> list[Command]:
    return [one for one in commands() if reason_not_to_run(one) is None and not one.text.startswith("make ")]


@pytest.mark.parametrize("command", named(running()))
def test_commands_run(command: Command, here: Here) -> None:
    text = command.text
    if FOLLOWING in text:
        follow(text, here)
        return
    for placeholder in re.findall(r"\b[0-9a-f]{8}-[0-9a-f]{3}\b", text):
        text = text.replace(placeholder, open_letter(here)[: len(placeholder)])
    result = here.run(text)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout or result.stderr


def follow(text: str, here: Here) -> None:
    """Run a command that goes on for ever until it has printed a line, then interrupt it."""
    process = subprocess.Popen(
        text.split(),
        cwd=here.folder,
        env=dict(here.environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)  # takes what it prints, which is more than a pipe holds
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def open_letter(here: Here) -> str:
    """Return the id of a dead letter; one is made where there is none."""
    listed = here.run("profilestream deadletters list --json").stdout.splitlines()
    if not listed:
        (block,) = [block for block in blocks("python") if "chat.messages.v1" in block.text]
        run_python(block, here)
        wait = here.run(
            "for _ in $(seq 60); do profilestream deadletters list --json | grep '\"id\"' && exit; done; exit 1"
        )
        assert wait.returncode == 0, wait.stderr
        listed = wait.stdout.splitlines()
    return str(json.loads(listed[0])["id"])


@pytest.mark.parametrize("block", named(blocks("sql")))
def test_sql_is_answered(block: Block, here: Here) -> None:
    ask(block.text, here)


@pytest.mark.parametrize("query", re.findall(r"`(SELECT [^`]+)`", FILES[0].read_text(encoding="utf-8")))
def test_sql_within_a_sentence_is_answered(query: str, here: Here) -> None:
    assert int(ask(query, here)) > 0


def ask(sql: str, here: Here) -> str:
    url = f"{here.services['clickhouse']}/?{urllib.parse.urlencode({'default_format': 'TSV'})}"
    with urllib.request.urlopen(urllib.request.Request(url, data=sql.encode()), timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def run_python(block: Block, here: Here) -> str:
    """Run a block as it is; the one that uses another Kafka client is given the address that `up` prints."""
    text = block.text.replace("localhost:9092", here.services["kafka"])
    if "import asyncio" not in text:
        text = surrounded(text)
    (here.folder / "ca.pem").write_bytes(Path(certifi.where()).read_bytes())
    script = here.folder / "block.py"
    script.write_text(text, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, str(script)],
        cwd=here.folder,
        env=dict(here.environment) | {"KAFKA_PASSWORD": "secret", "PYTHONPATH": str(ROOT / "client")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def surrounded(text: str) -> str:
    """Return a fragment with what it takes for granted around it: a client, and a place to store what it got."""
    return f"""
import asyncio, os, ssl
from profilestream_client import Client, Connection, Position

class Enough(Exception):
    pass

stored = []

def load_position():
    return stored[-1] if stored else None

def save(delta, position):
    stored.append(position)
    raise Enough

async def main():
    async with Client.local() as client:
{textwrap.indent(text, " " * 8)}

for _ in range(2):
    try:
        asyncio.run(main())
    except Enough:
        pass
print(len(stored))
"""


@pytest.mark.parametrize("block", named(blocks("python")))
def test_python_runs(block: Block, here: Here) -> None:
    printed = run_python(block, here)
    if "print(delta.version" in block.text:
        assert re.match(r"\d+ (add|update|confirm) \w+ .*-> .*Lyon", printed), printed
    elif "load_position" in block.text:
        assert printed == "2\n"
    elif "client.context(" in block.text:
        assert printed.startswith("# What is known of the user\n"), printed


def objects(block: Block) -> list[dict[str, object]]:
    decoder, text, found = json.JSONDecoder(), block.text.strip(), []
    while text:
        one, end = decoder.raw_decode(text)
        found.append(one)
        text = text[end:].lstrip()
    return found


@pytest.mark.parametrize("block", named(blocks("json")))
def test_json_is_as_it_is_on_the_topics(block: Block, here: Here) -> None:
    for shown in objects(block):
        if "role" in shown:
            assert decode_message(json.dumps(shown).encode()).type == "message"
            continue
        fields = {field.name for field in msgspec.structs.fields(ProfileDelta)}
        assert shown.keys() <= fields
        for name, kind in (("fact", FactDetail), ("preference", PreferenceDetail)):
            if name in shown:
                msgspec.convert(shown[name], kind, strict=True)
        if evidence := shown.get("evidence"):
            deltas = map(json.loads, here.run("profilestream history anna --json").stdout.splitlines())
            compared = {"op", "topic", "sub_topic", "before", "after", "added", "reason", "kind", "assertion"}
            assert any(
                delta["evidence"] == evidence and all(delta[name] == shown[name] for name in compared & shown.keys())
                for delta in deltas
            )


def test_the_variables_that_are_set_are_settings() -> None:
    from streams.settings import describe, load_settings, variable

    names = {variable(shown.name) for shown in describe(load_settings())}
    used = set(re.findall(r"PROFILESTREAM_[A-Z]+__[A-Z_]*[A-Z]", FILES[0].read_text(encoding="utf-8")))
    assert used <= names
