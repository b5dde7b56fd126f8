"""``profilestream config``: checking and printing the pipeline file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from agents.slots import written_out
from schemas.pipeline import PipelineConfig
from streams.cli import root
from streams.cli.common import explain
from streams.pipeline_file import PipelineFileError, load_pipeline

EXAMPLE = Path(__file__).parents[2] / "examples" / "pipeline.yaml"


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("STATE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    for name in ("PROFILESTREAM_PIPELINE_FILE", "PROFILESTREAM_SETTINGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    def run_command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            root.main(["config", *arguments])
        captured = capsys.readouterr()
        return int(left.value.code or 0), captured.out, captured.err

    return run_command


def test_a_right_file_is_summed_up(run) -> None:
    digest = written_out(load_pipeline(EXAMPLE)).content_hash()
    code, out, err = run("check", str(EXAMPLE))
    assert (code, err) == (0, "")
    assert out.startswith(f"{EXAMPLE} is right: 11 topics, ")
    assert out.endswith(f" slots, 2 event tags, 4 tags in the catalogue, language en, hash {digest}\n")

    code, out, err = run("check", "--json", str(EXAMPLE))
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["file"], found["topics"], found["tags"], found["hash"]) == (str(EXAMPLE), 11, 2, digest)
    assert found["catalogue"] == 4


def test_the_problems_of_a_wrong_file_are_the_result(run) -> None:
    Path("a.yaml").write_text("language: fr\nmax_profile_subtopic: 3\n")
    code, out, err = run("check", "a.yaml")
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "a.yaml:1:11: language: must be en or zh, not 'fr'",
        "a.yaml:2:1: max_profile_subtopic: there is no such key, did you mean 'max_profile_subtopics'?",
    ]
    code, out, err = run("check", "--json", "a.yaml")
    assert (code, err) == (1, "")
    assert json.loads(out.splitlines()[0]) == {
        "file": "a.yaml", "line": 1, "column": 11, "where": "language", "what": "must be en or zh, not 'fr'",
    }  # fmt: skip


def test_a_problem_cannot_command_a_terminal(run) -> None:
    Path("a.yaml").write_text('"\\e[2Jx": 1\n')
    _, out, _ = run("check", "a.yaml")
    assert out == "a.yaml:1:1: \\x1b[2Jx: there is no such key\n"


def test_a_file_that_is_not_there_is_wrong_usage(run) -> None:
    code, out, err = run("check", "none.yaml")
    assert (code, out) == (2, "")
    assert "does not exist" in err


def test_what_is_shown_is_a_file_that_means_the_same(run) -> None:
    code, out, err = run("show", str(EXAMPLE))
    assert (code, err) == (0, "")
    whole = written_out(load_pipeline(EXAMPLE))
    assert out.startswith(f"# {EXAMPLE}, hash {whole.content_hash()}\n")
    Path("whole.yaml").write_text(out)
    assert load_pipeline(Path("whole.yaml")) == whole

    code, out, err = run("show", "--json", str(EXAMPLE))
    assert (code, err) == (0, "")
    Path("whole.json").write_text(out)
    assert load_pipeline(Path("whole.json")) == whole


def test_defaults_are_shown_in_groups_of_keys_too(run) -> None:
    Path("a.yaml").write_text("facts: {similarity: 0.8}\n")
    _, out, _ = run("show", "a.yaml")
    shown = yaml.safe_load(out)
    assert shown["domain"] == {"enabled": False}
    assert shown["facts"] == {
        "enabled": True, "signals": [], "similarity": 0.8, "preference_similarity": 0.7, "nearest": 3, "shown": 20,
        "max_facts": 200, "max_preferences": 50,
    }  # fmt: skip
    _, out, _ = run("show", "--json", "a.yaml")
    assert json.loads(out)["facts"] == shown["facts"]


def test_without_a_file_it_is_what_the_settings_name(run) -> None:
    code, out, _ = run("show")
    assert code == 0
    assert out.startswith("# no file: the defaults, hash ")
    Path("shown.yaml").write_text(out)
    assert load_pipeline(Path("shown.yaml")) == written_out(PipelineConfig())

    Path("own.yaml").write_text("language: zh\n")
    Path("profilestream.yaml").write_text("pipeline_file: own.yaml\n")
    code, out, _ = run("show")
    assert code == 0
    assert "own.yaml, hash " in out.splitlines()[0]
    assert "language: zh" in out
    assert "基本信息" in out


def test_a_wrong_file_is_not_shown(run) -> None:
    Path("a.yaml").write_text("- a\n- b\n")
    code, out, err = run("show", "a.yaml")
    assert (code, out) == (2, "")
    assert err == (
        "profilestream: the pipeline file cannot be used:\n"
        "  a.yaml:1:1: must be keys with values, such as `language: ...`, not a list\n"
    )


def test_every_problem_has_its_line_when_a_command_ends_with_them() -> None:
    Path("a.yaml").write_text("language: fr\nbest_llm_model: 3\n")
    with pytest.raises(PipelineFileError) as caught:
        load_pipeline(Path("a.yaml"))
    sentence, code = explain(caught.value)
    assert code == 2
    assert [line.partition(": ")[0] for line in sentence.splitlines()[1:]] == ["  a.yaml:1:11", "  a.yaml:2:17"]
