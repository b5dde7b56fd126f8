"""What arguments and options take, and what is said of the rest."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import click
import pytest
from click.testing import CliRunner

from sinks.clickhouse.ready import ready_queries
from streams.cli import root
from streams.cli.archive import TIMES, checked
from streams.cli.parameters import SECONDS, Moment, TenantId, Text, UserId, moment

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
TEXTS = (Text, click.Choice, click.Path, click.types.BoolParamType, click.types.IntParamType)
TEXTS += (click.types.FloatParamType, Moment, click.IntRange, click.FloatRange)
"""Kinds of parameters that take no text but UTF-8, or the name of a file, which may be any bytes."""


def leaves(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from leaves(below, *path, name)


LEAVES = dict(leaves(root.cli))
PARAMETERS = [(path, one) for path, command in LEAVES.items() for one in command.params]
OF_A_USER = [
    path for path, one in PARAMETERS if isinstance(one, click.Argument) and one.name == "user"
]  # as `profile USER`


def refusal(*arguments: str) -> str:
    """Run a command that must end with a usage error, and return its sentence."""
    result = CliRunner().invoke(root.cli, arguments)
    assert result.exit_code == 2, result.output
    error = result.stderr.strip().splitlines()[-1]
    assert error.startswith("Error: ")
    return error.removeprefix("Error: ").removeprefix("Invalid value for ")


@pytest.fixture
def tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A reader whose clock is nine hours ahead of UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("now", timedelta()),
        ("30s", timedelta(seconds=30)),
        ("5m", timedelta(minutes=5)),
        ("2h", 2 * HOUR),
        ("7d", timedelta(days=7)),
    ],
)
def test_a_moment_may_be_an_age(text: str, age: timedelta) -> None:
    assert abs(datetime.now(UTC) - age - Moment().convert(text, None, None)) < timedelta(seconds=10)


@pytest.mark.parametrize("text", ["2026-03-01T12:00:00Z", "2026-03-01T13:00:00+01:00", "2026-03-01 12:00Z"])
def test_a_moment_may_be_a_time(text: str) -> None:
    assert Moment().convert(text, None, None) == NOON
    assert Moment().convert(NOON, None, None) is NOON


@pytest.mark.usefixtures("tokyo")
@pytest.mark.parametrize(
    ("text", "found"),
    [("2026-03-01T12:00", NOON - 9 * HOUR), ("2026-03-01", NOON - 21 * HOUR), ("20260301T2100", NOON)],
)
def test_a_time_without_an_offset_is_local(text: str, found: datetime) -> None:
    assert moment(text) == found


@pytest.mark.parametrize(
    "text", ["", "yesterday", "5x", "-3h", "1.5h", "9" * 30 + "d", "2026-13-01", "0001-01-01", "2400-01-01", "a\udcff"]
)
def test_other_words_are_no_time(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is no time: give a date \(2026-03-01\), .* an age .* or now\.$"):
        Moment().convert(text, None, None)


@pytest.mark.parametrize("text", ["a", "李雷", "x" * 256, "a:b", "\x1b", " "])
def test_ids_of_users(text: str) -> None:
    assert UserId().convert(text, None, None) == text


@pytest.mark.parametrize("text", ["default", "a.b_c-D9", "x" * 64])
def test_ids_of_tenants(text: str) -> None:
    assert TenantId().convert(text, None, None) == text


@pytest.mark.parametrize("text", ["", "a b", "a:b", "x" * 65, "ä", "a\n", "\x1b[2J"])
def test_what_cannot_be_a_tenant(text: str) -> None:
    with pytest.raises(click.BadParameter, match="cannot be a tenant: its id has 1 to 64 letters, digits") as caught:
        TenantId().convert(text, None, None)
    assert "\x1b" not in caught.value.message


def test_every_parameter_refuses_what_is_not_utf_8() -> None:
    assert [(path, one.name) for path, one in PARAMETERS if not isinstance(one.type, TEXTS)] == []


@pytest.mark.parametrize("path", OF_A_USER, ids=" ".join)
def test_a_user_who_cannot_be(path: tuple[str, ...]) -> None:
    assert refusal(*path, "") == "'USER': the id of a user has 1 to 256 characters, and this one none: give another."
    assert refusal(*path, "x" * 257).endswith("and this one 257: give another.")
    assert refusal(*path, "a\udcff") == (
        r"'USER': 'a\xff' is not UTF-8: give it from a terminal or file whose encoding is."
    )
    assert refusal(*path, "ada", "--tenant", "a b").startswith("'--tenant': 'a b' cannot be a tenant: ")


def test_the_commands_of_a_user_are_known() -> None:
    assert {path[0] for path in OF_A_USER} == {
        "profile", "history", "events", "similar-users", "context", "flush", "forget",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["profile", "ada", "--as-of", "yesterday"], "'--as-of': 'yesterday' is no time: give a date (2026-03-01), "),
        (["events", "ada", "--since", "tomorrow"], "'--since': 'tomorrow' is no time: "),
        (["context", "ada", "--until", "soon"], "'--until': 'soon' is no time: "),
        (["query", "changes", "-p", "since=tomorrow"], "--param since: 'tomorrow' is no time: give a date "),
        (["query", "changes", "-p", "limit=many"], "--param limit: 'many' is no whole number: give one such as 100."),
        (["query", "changes", "-p", "limit=-1"], "--param limit: '-1' is no whole number: give one such as 100."),
        (
            ["query", "model_usage", "-p", "prompt_price=low"],
            "--param prompt_price: 'low' is no number: give one such as 0.15.",
        ),
        (["search", "sea", "--user", ""], "'--user': the id of a user has 1 to 256 characters"),
        (["search", "sea", "--tenant", "\udcff"], r"'--tenant': '\xff' is not UTF-8"),
        (["search", "\udcff"], r"'TEXT': '\xff' is not UTF-8"),
    ],
    ids=ascii,
)
def test_a_value_that_cannot_be_read_is_named_and_nothing_else(arguments: list[str], said: str) -> None:
    assert refusal(*arguments).startswith(said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["query", "slot_history"],
            "query slot_history needs --param user, topic and sub_topic, for example "
            "`profilestream query slot_history -p user=anna -p topic=work -p sub_topic=company`.",
        ),
        (
            ["query", "slot_history", "-p", "user=an na", "-p", "topic=likes"],
            "query slot_history needs --param sub_topic, for example "
            "`profilestream query slot_history -p 'user=an na' -p topic=likes -p sub_topic=company`.",
        ),
        (
            ["query", "slot_history", "-p", "usr=anna"],
            "query slot_history has no parameter 'usr' (did you mean user?): it has tenant, user, topic, sub_topic.",
        ),
        (
            ["query", "slot_histry"],
            "there is no query 'slot_histry' (did you mean slot_history or slot_holders?): "
            "`profilestream query` lists them.",
        ),
        (["query", "zzz", "--sql"], "there is no query 'zzz': `profilestream query` lists them."),
        (["profil"], "there is no command 'profil' (did you mean profile?): `cli --help` lists them."),
        (
            ["deadletters", "lst"],
            "there is no command 'lst' (did you mean list?): `cli deadletters --help` lists them.",
        ),
        (["zzz"], "there is no command 'zzz': `cli --help` lists them."),
        (["query", "fill_rates", "-p", "tenant"], "--param 'tenant' is not of the form NAME=VALUE."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_may_have_been_meant(arguments: list[str], said: str) -> None:
    assert refusal(*arguments) == said


@pytest.mark.usefixtures("tokyo")
def test_times_of_a_query_are_local_and_reach_it_in_utc() -> None:
    query = ready_queries()["changes"]
    assert checked(query, {"since": "2026-03-01", "until": "2026-03-01T12:00Z", "limit": "5"}) == {
        "since": "2026-02-28T15:00:00+00:00",
        "until": "2026-03-01T12:00:00+00:00",
        "limit": "5",
    }


def test_every_time_that_a_ready_query_reads_is_one_of_those_that_are_checked() -> None:
    read = {name for query in ready_queries().values() for name in re.findall(r"DateTime64\w+\(\{(\w+):", query.sql)}
    assert read | {"at"} == TIMES
    assert "at" in {parameter.name for parameter in ready_queries()["profile_as_of"].parameters}


def test_help_says_in_which_zone_times_are_read() -> None:
    moments = {path for path, one in PARAMETERS if isinstance(one.type, Moment)}
    assert moments >= {("profile",), ("events",), ("context",), ("deadletters", "list")}
    for path in moments:
        shown = CliRunner().invoke(root.cli, [*path, "--help"]).output
        assert "local time unless it has an offset" in " ".join(shown.split())
    for path in ([], ["query"], ["history"], ["deltas"]):
        assert "local time" in CliRunner().invoke(root.cli, [*path, "--help"]).output


@pytest.mark.parametrize(
    ("path", "option", "default"),
    [
        (("flush",), "--timeout", SECONDS),
        (("forget",), "--wait", SECONDS),
        (("deadletters", "redrive"), "--wait", None),
    ],
)
def test_waiting_is_limited_alike(path: tuple[str, ...], option: str, default: float | None) -> None:
    found = next(one for one in LEAVES[path].params if option in one.opts)
    assert found.default == default
    assert found.metavar == "SECONDS"
    with pytest.raises(click.BadParameter):
        found.type.convert("0", found, None)
