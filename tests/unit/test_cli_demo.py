"""What `profilestream demo` looks at before it starts anything."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from streams.cli import demo as module
from streams.cli.common import CommandFailed
from streams.running import Embedded

ANNA = {"user_id": "anna", "role": "user", "content": "I moved to Lyon."}


class Started(Exception):
    """Services would be started now."""


@pytest.fixture(autouse=True)
def services(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def start(*_: object) -> None:
        raise Started

    monkeypatch.setattr(Embedded, "open", start)
    monkeypatch.setattr("streams.logs.configure_logs", lambda *_: None)
    monkeypatch.setenv("PROFILESTREAM_MODEL__PROCESSOR", "rules")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def show(chat: Path | None) -> None:
    callback = module.demo.callback
    assert callback is not None
    with click.Context(module.demo):
        callback(chat=chat, data_dir=None, settings_file=None)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "it is empty"),
        ("\n  \n", "it is empty"),
        ("hello\n", "line 1: "),
        ('\n{"user_id": "anna"}', "line 2: `role` is missing"),
        ('{"user_id": "anna", "type": "flush"}\n', "it has only control events"),
    ],
)
def test_a_file_without_a_message_starts_nothing(content: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(CommandFailed) as caught:
        show(file)
    assert str(caught.value).startswith(f"{file} holds no message that can be processed ({why}")
    assert str(caught.value).endswith("`profilestream publish --help` shows how a line must be")


@pytest.mark.parametrize("before", ["", "hello\n", '{"user_id": "anna", "type": "flush"}\n'])
def test_one_message_is_enough(before: str, tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text(before + json.dumps(ANNA), encoding="utf-8")
    with pytest.raises(Started):
        show(file)
    with pytest.raises(Started):
        show(None)
