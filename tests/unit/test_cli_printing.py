"""How changes are printed: one line each, two on a terminal that is too narrow."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from rich.console import Console

from schemas.deltas import FactDetail, Operation, PreferenceDetail, ProfileDelta
from streams.cli.common import stdout_console
from streams.cli.deltas import Wanted
from streams.cli.printing import delta_line, item_name, local_time, print_delta

RECORDED = datetime(2026, 2, 2, 12, 0, tzinfo=UTC)
HEAD = f"{local_time(RECORDED)}  ada v3  "


def delta(**changes: Any) -> ProfileDelta:
    fields: dict[str, Any] = {
        "delta_id": "d",
        "tenant_id": "default",
        "user_id": "ada",
        "version": 3,
        "flush_id": "f",
        "index": 0,
        "op": "add",
        "topic": "contact",
        "sub_topic": "city",
        "before": None,
        "after": "Lyon",
        "added": None,
        "reason": "why",
        "evidence": ("m1", "m2"),
        "update_hits": 1,
        "said_at": RECORDED,
        "recorded_at": RECORDED,
        "processor": "rules",
        "pipeline_version": "p",
    }
    return ProfileDelta(**fields | changes)


def fact(**changes: Any) -> ProfileDelta:
    detail = FactDetail(
        confidence=0.9, importance=0.9, replaced_by="other" if changes.get("op") == "invalidate" else None
    )
    own = {
        "kind": "fact",
        "topic": "location",
        "sub_topic": "",
        "item_id": "i",
        "fact": detail,
        "after": "用户住在杭州",
    }
    return delta(**own | changes)


def preference(strength: float, strength_before: float | None = None, **changes: Any) -> ProfileDelta:
    detail = PreferenceDetail(strength=strength, strength_before=strength_before)
    own = {"kind": "preference", "topic": "time", "sub_topic": "", "item_id": "i", "after": "Prefers mornings"}
    return delta(**own | {"preference": detail} | changes)


def tag(**changes: Any) -> ProfileDelta:
    return delta(**{"kind": "tag", "topic": "tag", "sub_topic": "Board Games"} | changes)


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (delta(), "+ contact/city  “Lyon”"),
        (delta(op="update", before="Paris"), "~ contact/city  “Paris” → “Lyon”"),
        (delta(op="append", before="Lyon", after="Lyon; Nice"), "+ contact/city  “Lyon” → “Lyon; Nice”"),
        (delta(op="confirm", before="Lyon", update_hits=4), "= contact/city  “Lyon”  said again ×4"),
        (delta(op="delete", before="Lyon", after=None), "- contact/city  “Lyon” → nothing"),
        (delta(op="organise", before=None), "~ contact/city  “Lyon”"),
        (delta(op="organise", before="Lyon", after=None), "~ contact/city  “Lyon” → nothing"),
        (delta(op="shorten", before="Lyon, in France"), "~ contact/city  “Lyon, in France” → “Lyon”"),
        (delta(after="Ly\x1bon"), r"+ contact/city  “Ly\x1bon”"),
        (fact(), "+ fact/location  用户住在杭州  ×1"),
        (fact(op="confirm", before="用户住在杭州", update_hits=3), "= fact/location  用户住在杭州  said again ×3"),
        (
            fact(op="update", before="用户住在北京", update_hits=2),
            "~ fact/location  用户住在北京 → 用户住在杭州  ×2",
        ),
        (fact(op="invalidate", before="用户住在北京", after=None), "✗ fact/location  用户住在北京  no longer holds"),
        (fact(op="delete", before="用户住在北京", after=None), "- fact/location  用户住在北京 → nothing"),
        (preference(0.8), "+ preference/time  Prefers mornings  ×1  strength 0.80"),
        (
            preference(0.864, 0.8, op="confirm", before="Prefers mornings", update_hits=2),
            "= preference/time  Prefers mornings  said again ×2  strength 0.80 → 0.86",
        ),
        (
            preference(0.5, 0.9, op="update", before="Prefers evenings", update_hits=3),
            "~ preference/time  Prefers evenings → Prefers mornings  ×3  strength 0.90 → 0.50",
        ),
        (preference(0.3, 0.3, op="delete", before="x", after=None), "- preference/time  x → nothing"),
        (tag(after="1"), "+ tag/Board Games  1"),
        (tag(op="confirm", before="3", after="4", update_hits=4), "= tag/Board Games  3 → 4"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_change_is_one_line(change: ProfileDelta, shown: str) -> None:
    assert delta_line(change).plain == f"{HEAD}{shown}  (why)  [m1, m2]"


@pytest.mark.parametrize("op", get_args(Operation))
def test_every_operation_has_a_sign(op: str) -> None:
    sign = delta_line(delta(op=op)).plain.removeprefix(HEAD).partition(" ")[0]
    assert sign in {"+", "~", "=", "-", "✗", "·"}


def test_a_change_without_a_reason_and_one_of_many_messages() -> None:
    line = delta_line(delta(reason="", evidence=tuple("abcdefg"), tenant_id="t1")).plain
    assert line == f"{local_time(RECORDED)}  t1:ada v3  + contact/city  “Lyon”  [a, b, c, d, e and 2 more]"


@pytest.mark.parametrize(("columns", "lines"), [(None, 1), ("40", 3)])
def test_what_goes_into_a_pipe_is_not_folded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str | None, lines: int
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    stdout_console().print("word " * 20 + "end")
    assert len(capsys.readouterr().out.splitlines()) == lines


def printed(change: ProfileDelta, width: int, *, terminal: bool) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None, markup=False)
    print_delta(console, change)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_grounds_have_a_line_of_their_own_where_a_terminal_is_narrow() -> None:
    whole = f"{HEAD}+ contact/city  “Lyon”  (why)  [m1, m2]"
    assert printed(delta(), len(whole), terminal=True) == [whole]
    assert printed(delta(), len(whole) - 1, terminal=True) == [f"{HEAD}+ contact/city  “Lyon”", "    (why)  [m1, m2]"]
    assert printed(delta(), 20, terminal=False) == [whole]


def test_what_does_not_fit_a_narrow_terminal_is_set_in() -> None:
    lines = printed(delta(after="a garden with three old apple trees", reason="a long reason " * 6), 60, terminal=True)
    assert max(map(len, lines)) <= 60
    assert lines[0] == f"{HEAD}+ contact/city  “a garden"
    assert all(line.startswith("    ") and not line.endswith(" ") for line in lines[1:])
    assert " ".join(" ".join(lines).split()) == (
        f"{' '.join(HEAD.split())} + contact/city “a garden with three old apple trees” "
        f"({'a long reason ' * 6}) [m1, m2]"
    )


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("slot", "work", "company"), "work/company"),
        (("fact", "location", ""), "fact/location"),
        (("preference", "time", ""), "preference/time"),
        (("tag", "tag", "coffee"), "tag/coffee"),
        (("slot", "a\x07", "b"), r"a\x07/b"),
    ],
)
def test_names(parts: tuple[str, str, str], name: str) -> None:
    assert item_name(*parts) == name


@pytest.mark.parametrize(
    ("wanted", "kinds"),
    [
        (Wanted(), ["slot", "fact", "preference", "tag"]),
        (Wanted(kind="fact"), ["fact"]),
        (Wanted(kind="slot"), ["slot"]),
        (Wanted(kind="fact", topic="work"), []),
        (Wanted(topic=" Location"), ["fact"]),
        (Wanted(user="bert"), []),
        (Wanted(tenant="default", kind="tag"), ["tag"]),
    ],
)
def test_changes_are_chosen(wanted: Wanted, kinds: list[str]) -> None:
    changes = [delta(), fact(), preference(0.8), tag()]
    assert [change.kind for change in changes if wanted.matches(change)] == kinds
