"""`benchmarks.check`: what fails it and what does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import check
from benchmarks.counted import grown, window_memory


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ({"calls": 110, "none": 0}, []),
        ({"calls": 50, "none": 0}, []),
        ({"calls": 111, "none": 0}, ["calls is 111, it was 100: 11% more"]),
        ({"calls": 100, "none": 1}, ["none is 1, it was 0: there was none"]),
        ({"calls": 100}, ["none is not counted any more"]),
        ({"calls": 100, "none": 0, "tokens": 1234.0}, ["tokens is new: it is 1,234"]),
    ],
)
def test_more_than_a_tenth_more_is_too_much(now: dict[str, float], found: list[str]) -> None:
    assert grown({"calls": 100, "none": 0}, now) == found


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    async def counted() -> dict[str, float]:
        return {"calls": 120}

    file = tmp_path / "counted.json"
    monkeypatch.setattr(check, "everything", counted)
    monkeypatch.setattr(check, "_RECORDED", file)
    return file


def test_the_command_fails_until_it_is_recorded(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded.write_text('{"calls": 100}')
    assert check.main([]) == 1
    told = capsys.readouterr()
    assert told.err.splitlines()[0] == "calls is 120, it was 100: 20% more"
    assert "--update" in told.err
    assert check.main(["--update"]) == 0
    assert json.loads(recorded.read_text()) == {"calls": 120}
    assert check.main(["--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"calls": 120}


async def test_a_message_in_a_window_takes_little_more_than_itself() -> None:
    (size,) = (await window_memory(messages=2_000, users=200)).values()
    assert 300 < size < 2_500
