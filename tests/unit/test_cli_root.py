"""The command line as a whole: fast help, errors in a sentence, exit codes."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from sinks.errors import EmbedderUnavailable, SinkRejected, SinkUnavailable
from streams.cli import root
from streams.cli.common import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_READER_LEFT,
    EXIT_REFUSED,
    EXIT_USAGE,
    SENTENCES,
    SETTINGS_ERROR,
    CommandFailed,
    explain,
    printable,
    stderr_console,
    stdout_console,
)
from streams.kafka import KafkaUnavailable
from streams.settings import SettingsError
from streams.topics import TopicsError

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "cli.md"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith(("PROFILESTREAM_", "OPENAI_"))}
    return own | {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_DATA_HOME": str(tmp_path / "share")}


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from streams.cli import main; main()", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_imports_nothing_heavy(environment: dict[str, str]) -> None:
    program = (
        "import sys\n"
        "from streams.cli.root import cli\n"
        "try: cli.main(['--help'], prog_name='profilestream')\n"
        "except SystemExit: pass\n"
        "print([name for name in ('aiokafka', 'faust', 'pydantic', 'rich', 'qdrant_client', 'openai', 'numpy')"
        " if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.splitlines()[-1] == "[]"
    for name in ("publish", "deltas", "profile", "history", "search", "doctor"):
        assert f"\n  {name} " in result.stdout


def commands() -> list[str]:
    return root.cli.list_commands(click.Context(root.cli))


@pytest.mark.parametrize("name", commands())
def test_every_command_has_help(name: str) -> None:
    context = click.Context(root.cli, info_name="profilestream")
    command = root.cli.get_command(context, name)
    assert command is not None
    assert command.name == name
    assert command.get_help(click.Context(command, info_name=name, parent=context)).startswith("Usage: profilestream")


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every command that has none below it."""
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from leaves(below, (*path, name))


@pytest.mark.parametrize("path", list(leaves(root.cli)), ids=" ".join)
def test_the_help_of_every_command_has_examples_of_itself(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(root.cli, [*path, "--help"], prog_name="profilestream")
    assert result.exit_code == 0
    examples = result.output.partition("Example")[2].partition("Options:")[0]
    assert f"profilestream {' '.join(path)}" in examples


WITHOUT_RECORDS = {("demo",), ("worker",), ("completion",)}
"""Commands that print nothing that a program would read."""

ROW = re.compile(r"^\| `profilestream ([\w -]+)` \| (.+?) \| ?(.*?) ?\|$", re.MULTILINE)


def command_at(path: tuple[str, ...]) -> click.Command:
    command: click.Command = root.cli
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    return command


def summary(path: tuple[str, ...]) -> str:
    return root._COMMANDS[path[0]].help if len(path) == 1 else command_at(path).get_short_help_str(200)


def test_the_documentation_has_every_command_and_whether_it_prints_json() -> None:
    rows = {tuple(row[1].split()): (row[2], bool(row[3])) for row in ROW.finditer(DOCUMENTATION.read_text("utf-8"))}
    has_json = {path: any("--json" in option.opts for option in command_at(path).params) for path in leaves(root.cli)}
    assert rows == {path: (summary(path), has_json[path]) for path in has_json}
    assert {path for path, has in has_json.items() if not has} == WITHOUT_RECORDS


def test_the_documentation_has_every_exit_code() -> None:
    codes = re.findall(r"^\| (\d+) \|", DOCUMENTATION.read_text("utf-8"), re.MULTILINE)
    help_text = CliRunner().invoke(root.cli, ["--help"]).output.partition("Exit codes:")[2].partition("Options:")[0]
    assert codes == re.findall(r"^ +(\d+) ", help_text, re.MULTILINE)
    assert {int(code) for code in codes} == {
        *(0, EXIT_FAILED, EXIT_USAGE, EXIT_REFUSED, EXIT_INTERRUPTED, EXIT_READER_LEFT)
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_asks_the_program(shell: str, environment: dict[str, str]) -> None:
    script = run(environment, "completion", shell)
    assert (script.returncode, script.stderr) == (0, "")
    assert "_PROFILESTREAM_COMPLETE" in script.stdout
    words = {"COMP_WORDS": "profilestream hist", "COMP_CWORD": "1" if shell != "fish" else "hist"}
    asked = run(environment | words | {"_PROFILESTREAM_COMPLETE": f"{shell}_complete"})
    assert "history" in asked.stdout
    assert "deltas" not in asked.stdout


def test_a_command_whose_module_is_not_there_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(root._COMMANDS, "later", root._Lazy("not_written_yet", "Nothing."))
    assert "later" not in commands()
    assert root.cli.get_command(click.Context(root.cli), "later") is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "there is no command 'nonsense': `profilestream --help` lists them."),
        (["publish"], "Missing argument 'FILE...'"),
        (["publish", "/no/such/file"], "does not exist"),
        (["deltas", "--from-end"], "--from-end needs --follow"),
        (["deltas", "--limit", "0"], "0 is not in the range"),
        (["search", " "], "TEXT is empty"),
        (["doctor", "--settings", "/no/such/file"], "does not exist"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_is_code_2(arguments: list[str], said: str, environment: dict[str, str]) -> None:
    result = run(environment, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr


def test_wrong_settings_are_code_2_and_all_named(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("kafka: {partitions: x}\nwindow: {tokns: 1}\n")
    result = run(environment, "doctor", "--settings", str(file))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines()[0] == "profilestream: the settings are wrong:"
    assert len(result.stderr.splitlines()) == 3


def test_version(environment: dict[str, str]) -> None:
    assert run(environment, "--version").stdout.startswith("profilestream, version ")


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (SettingsError(["a", "b\x1b"]), 2, "the settings are wrong:\n  a\n  b\\x1b"),
        (KafkaUnavailable("no broker"), 1, "no broker"),
        (TopicsError("topics differ"), 1, "topics differ"),
        (SinkUnavailable("no store"), 1, "no store; start one, for example with `profilestream up`"),
        (EmbedderUnavailable("no embedder"), 1, "no embedder"),
        (SinkRejected("bad\x07"), 1, "bad\\x07"),
        (CommandFailed("cannot"), 1, "cannot"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_known_errors_are_their_own_sentence(
    error: Exception, code: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # where no `profilestream up` of this machine is known
    assert explain(error) == (sentence, code)


@pytest.mark.parametrize("name", [*sorted(SENTENCES), SETTINGS_ERROR])
def test_errors_made_for_people_exist_under_their_names(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert issubclass(getattr(importlib.import_module(module), attribute), Exception)


def test_unknown_errors_are_named_without_a_traceback() -> None:
    sentence, code = explain(ValueError("one\ntwo"))
    assert code == 1
    assert sentence.startswith("unexpected error, ValueError: one two (")
    sentence, code = explain(ModuleNotFoundError("No module named 'chdb'", name="chdb"))
    assert code == 1
    assert "chdb is missing" in sentence
    assert "profilestream[embedded]" in sentence


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (CommandFailed("it is broken: mend it"), 1, "profilestream: it is broken: mend it\n"),
        (KeyboardInterrupt(), 130, ""),
        (click.UsageError("no"), 2, "Error: no\n"),
    ],
    ids=["failed", "interrupted", "usage"],
)
def test_what_a_command_raises_becomes_an_exit_code(
    raised: BaseException,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(root.cli, "main", fail)
    with pytest.raises(SystemExit) as left:
        root.main([])
    assert left.value.code == code
    assert capsys.readouterr().err == said


@pytest.fixture
def nobody_reads() -> Iterator[int]:
    """The end for writing of a pipe whose other end is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["query", "--help"],
        ["query"],
        ["query", "--json"],
        ["query", "fill_rates", "--sql"],
        ["config", "show"],
        ["config", "show", "--json"],
        ["completion", "bash"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_a_reader_who_leaves_ends_a_command_quietly(
    arguments: list[str], environment: dict[str, str], nobody_reads: int
) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "streams.cli", *arguments],
        env=environment,
        stdout=nobody_reads,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (EXIT_READER_LEFT, b"")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_output_that_is_closed_from_the_start_is_no_error(closed: str, environment: dict[str, str]) -> None:
    result = subprocess.run(
        ["sh", "-c", f'exec "$0" -m streams.cli query {closed}', sys.executable],
        env=environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["nonsense"], EXIT_USAGE), (["profile", "ada"], EXIT_FAILED), (["query"], 0)],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_remarks_that_nobody_reads_change_nothing(
    arguments: list[str], code: int, environment: dict[str, str], nobody_reads: int
) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "streams.cli", *arguments],
        env=environment | {"PROFILESTREAM_CLICKHOUSE__URL": "http://127.0.0.1:9"},
        stdout=subprocess.PIPE,
        stderr=nobody_reads,
        timeout=60,
        check=False,
    )
    assert result.returncode == code


def test_remarks_on_a_console_that_nobody_reads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unread(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Unread())
    console = stderr_console()
    for remark in ("stopping ...", "stopped"):
        console.print(remark)
    monkeypatch.setattr(sys, "stdout", Unread())
    with pytest.raises(BrokenPipeError):
        stdout_console().print("a result")


def test_a_pipe_that_a_service_broke_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(click.Group, "invoke", fail)
    with pytest.raises(SystemExit) as left:
        root.main(["query"])
    assert left.value.code == EXIT_FAILED
    assert capsys.readouterr().err == (
        "profilestream: a service has closed its connection: see with `profilestream doctor`\n"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("我住在北京 🙂 — é", "我住在北京 🙂 — é"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("\u202eabc\u2066", r"\u202eabc\u2066"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("\ud800", r"\ud800"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
    ],
)
def test_what_is_printed_cannot_command_a_terminal(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_doctor_says_what_is_wrong_and_what_to_do(environment: dict[str, str]) -> None:
    for name in ("KAFKA__BOOTSTRAP_SERVERS", "CLICKHOUSE__URL", "QDRANT__URL"):
        environment[f"PROFILESTREAM_{name}"] = "127.0.0.1:9" if "KAFKA" in name else "http://127.0.0.1:9"
    environment |= {
        "PROFILESTREAM_EMBEDDING__KIND": "hash",
        "OPENAI_API_KEY": "sk-hidden",
        "OPENAI_MODEL": "m",
        "OPENAI_BASE_URL": "http://u:hidden@127.0.0.1:9/v1",
    }
    result = run(environment, "doctor", "--json")
    assert result.returncode == 1
    assert result.stderr == ""
    assert "hidden" not in result.stdout
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    settings = {line["setting"]: line for line in lines if "setting" in line}
    assert settings["model.api_key"]["value"] == "set"
    assert settings["model.name"]["source"] == "environment variable OPENAI_MODEL"
    checks = {line["check"]: line for line in lines if "check" in line}
    assert {name: check["ok"] for name, check in checks.items()} == {
        "Kafka": False,
        "ClickHouse": False,
        "Qdrant": False,
        "embedding": True,
        "model": False,
        "pipeline file": True,
    }
    for name, setting in (
        ("Kafka", "kafka.bootstrap_servers"),
        ("ClickHouse", "clickhouse.url"),
        ("Qdrant", "qdrant.url"),
        ("model", "model.base_url"),
    ):
        assert "does not answer at" in checks[name]["found"]
        assert setting in checks[name]["advice"]

    result = run(environment, "doctor")
    assert result.returncode == 1
    assert "WRONG  Kafka: does not answer at 127.0.0.1:9" in result.stdout
    assert "hidden" not in result.stdout
