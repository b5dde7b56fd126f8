"""How fast the archive takes deltas, and how fast it answers over millions of them.

``python -m benchmarks.history --deltas 10000000 --users 100000`` makes so many deltas, with the flush events that
belong to them, in an embedded ClickHouse; the last twentieth is written as a worker writes them, in batches, and timed.
Then each ready query, each view of one user's profile and what the archive reads of a user is asked several times, over
HTTP as every client does. Targets: 20,000 rows a second in batches, 50 ms for a question about one user, 1 s for one
about all users of a tenant. Of what misses its target the query plan is printed. Beside each time stands the time of
the processor that ClickHouse took, which other work on the machine does not lengthen.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final

from benchmarks.history_data import (
    COPIES,
    DAYS,
    SLOTS,
    SQL_DELTAS,
    SQL_EVENTS,
    START,
    TENANT,
    ModelUser,
    copied_delta,
    dead_letters,
    delta_place,
    model_user,
    user_name,
)
from schemas.deltas import ProfileDelta
from schemas.places import Place
from sinks.clickhouse import ClickHouseArchive, queries
from sinks.clickhouse.ready import ready_queries
from streams.embedded.services import EmbeddedServices
from streams.settings import ClickHouseSettings

_ROWS_PER_STATEMENT: Final = 500_000
_BATCHES: Final = (1_000, 5_000, 10_000)
"""Rows of a batch; 5,000 is what a worker writes at the most by default."""
_WRITTEN_SHARE: Final = 20  # one in so many is written in batches
_MERGES_LIMIT: Final = 600.0  # seconds
_ROWS_TARGET: Final = 20_000
_TARGETS: Final = {True: 0.05, False: 1.0}
_ABOUT_ONE_USER: Final = frozenset({"profile_as_of", "slot_history", "user_events"})
_VIEWS: Final = ("profile_current", "facts_current", "facts_replaced", "preferences_current", "tags_current")
_OF_USER: Final = "tenant_id = {tenant:String} AND user_id = {user:String}"


@dataclass(frozen=True)
class Question:
    """Something that the archive is asked.

    Attributes:
        name: for the report.
        one_user: whether it is about one user.
        sql: the statement.
        fixed: parameters that are the same each time.
        names: parameters that differ from time to time.
    """

    name: str
    one_user: bool
    sql: str
    fixed: Mapping[str, Any]
    names: frozenset[str]

    def parameters(self, chance: random.Random, users: int) -> dict[str, Any]:
        """Return parameters for asking once."""
        topic, sub_topic = chance.choice(SLOTS)
        varying = {
            "user": user_name(*divmod(chance.randrange(users), COPIES)),
            "topic": topic,
            "sub_topic": sub_topic,
            "at": (START + timedelta(days=chance.randrange(DAYS))).isoformat(),
        }
        return {**self.fixed, **{name: value for name, value in varying.items() if name in self.names}}


def questions() -> list[Question]:
    """Return everything that is asked."""
    found = [_ready(name) for name in ready_queries()]
    found.append(_ready("profile_as_of", " by what was said", clock="said"))
    found.append(_ready("changes", " of a day", since=START.isoformat(), until=(START + timedelta(days=1)).isoformat()))
    user = {"tenant": TENANT}
    nothing = dict.fromkeys(("topic", "sub_topic", "kind", "item_id"))
    found += [
        Question("deltas to fold", True, queries.USER_DELTAS, user, frozenset({"user"})),
        Question("newest deltas", True, queries.HISTORY, {**user, **nothing, "limit": 100}, frozenset({"user"})),
        Question("newest events", True, queries.USER_EVENTS, {**user, "limit": 100}, frozenset({"user"})),
    ]
    for view in _VIEWS:
        found.append(Question(view, True, f"SELECT * FROM {view} WHERE {_OF_USER}", user, frozenset({"user"})))  # noqa: S608
    return sorted(found, key=lambda question: (not question.one_user, question.name))


def _ready(name: str, what: str = "", **given: str) -> Question:
    query = ready_queries()[name]
    names = frozenset({"user", "topic", "sub_topic", "at"} & {parameter.name for parameter in query.parameters})
    defaults = {each.name: each.default for each in query.parameters if each.default is not None}
    return Question(name + what, name in _ABOUT_ONE_USER, query.sql, {**defaults, **given}, names)


@dataclass(frozen=True)
class Rate:
    """How fast batches were written: rows a second, and microseconds of both processors for a row."""

    rows: float
    client: float
    server: float


async def fill(url: str, database: str, deltas: int, users: int, pid: int) -> tuple[ClickHouseArchive, dict[int, Rate]]:
    """Make the histories in a database of its own.

    Returns:
        The archive, and how fast it took deltas, by the size of the batches.
    """
    length = max(2, deltas // users)
    models = [model_user(number, length) for number in range(users // COPIES)]
    await _write_models(url, models)
    archive = ClickHouseArchive(url=url, database=database, timeout=600.0)
    await archive.migrate()
    written = max(1, length // _WRITTEN_SHARE)
    step = max(1, _ROWS_PER_STATEMENT // users)
    for first in range(1, length + 1, step):
        last = min(first + step - 1, length)
        await archive._client.command(SQL_EVENTS, {"first": first, "last": last})
        if first <= length - written:
            await archive._client.command(SQL_DELTAS, {"first": first, "last": min(last, length - written)})
    letters, decisions = dead_letters(users)
    await archive.write_letters(letters)
    await archive.write_decisions(decisions)
    return archive, await _write(archive, _copies(models, length - written), written * users, pid)


async def _write_models(url: str, models: Sequence[ModelUser]) -> None:
    archive = ClickHouseArchive(url=url, database="model_users", timeout=600.0)
    await archive.migrate()
    for model in models:
        await archive.write_deltas(model.deltas)
        await archive.write_events(model.events)
    await archive.close()


def _copies(models: Sequence[ModelUser], after: int) -> Iterator[tuple[ProfileDelta, Place]]:
    """Give the deltas after this version, as they come: all users' next change, then all users' next."""
    for place in range(after, len(models[0].deltas)):
        for copy in range(COPIES):
            for model in models:
                delta = model.deltas[place]
                yield copied_delta(delta, model.number, copy), delta_place(delta, model.number)


async def _write(
    archive: ClickHouseArchive, deltas: Iterator[tuple[ProfileDelta, Place]], count: int, pid: int
) -> dict[int, Rate]:
    rates = {}
    share = -(-count // len(_BATCHES))
    for size in _BATCHES:
        left, taken, client, server = share, 0.0, 0.0, _processor(pid)
        while batch := list(islice(deltas, min(size, left))):
            records, places = zip(*batch, strict=True)
            started, had = time.perf_counter(), time.process_time()
            await archive.write_deltas(records, places)
            taken, client = taken + time.perf_counter() - started, client + time.process_time() - had
            left -= len(batch)
        rows = share - left
        rates[size] = Rate(rows / taken, client / rows * 1e6, (_processor(pid) - server) / rows * 1e6)
    return rates


async def _merged(archive: ClickHouseArchive) -> None:
    """Wait until ClickHouse has nothing more to merge."""
    async with asyncio.timeout(_MERGES_LIMIT):
        while (await archive._client.rows("SELECT count() FROM system.merges"))[0][0]:
            await asyncio.sleep(1)


@dataclass(frozen=True)
class _Answers:
    """How long the answers to a question took, in seconds, and the most rows that one had."""

    taken: list[float]
    processor: float
    rows: int


async def _ask(archive: ClickHouseArchive, pid: int, question: Question, users: int, times: int) -> _Answers:
    chance = random.Random(7)
    taken, rows, before = [], 0, 0.0
    for number in range(times + 1):
        parameters = question.parameters(chance, users)
        if number == 1:  # the first one opens files and caches
            before = _processor(pid)
        started = time.perf_counter()
        rows = max(rows, len(await archive._client.rows(question.sql, parameters)))
        taken.append(time.perf_counter() - started)
    return _Answers(taken[1:], (_processor(pid) - before) / times, rows)


def _processor(pid: int) -> float:
    """Return the seconds of the processor that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _plan(archive: ClickHouseArchive, question: Question, users: int) -> str:
    parameters = question.parameters(random.Random(7), users)
    rows = await archive._client.rows(f"EXPLAIN indexes = 1 {question.sql}", parameters)
    return "\n".join(str(row[0]) for row in rows)


async def run(deltas: int, users: int, times: int, folder: Path) -> int:
    """Make the data, measure, print; returns 1 when a target is missed."""
    users -= users % COPIES
    async with EmbeddedServices(folder, {"bootstrap_servers": "127.0.0.1:1"}) as services:
        url = ClickHouseSettings.model_validate(services.settings["clickhouse"]).url
        started = time.perf_counter()
        pid = services.processes["clickhouse"]
        archive, rates = await fill(url, "history", deltas, users, pid)
        made = time.perf_counter() - started
        await _merged(archive)
        counts = await archive.counts()
        print(
            f"{counts['deltas']:,} deltas, {counts['events']:,} events, {counts['users']:,} users, "
            f"made in {made:.0f} s; ClickHouse {await archive.ping()}, load {os.getloadavg()[0]:.1f}, "
            f"peak memory {_peak(pid)}"
        )
        for size, rate in rates.items():
            print(
                f"written in batches of {size:,}: {rate.rows:,.0f} rows a second; for a row {rate.client:.0f} µs of "
                f"the writer's processor and {rate.server:.0f} µs of ClickHouse's, merges included"
            )
        missed = await report(archive, pid, users, times)
        await archive.close()
    return int(missed or max(rate.rows for rate in rates.values()) < _ROWS_TARGET)


async def report(archive: ClickHouseArchive, pid: int, users: int, times: int) -> bool:
    """Ask everything and print how long it took; return whether a target was missed."""
    plans = []
    print(
        "\n| query | about | rows | p50 ms | p95 ms | processor ms | target ms | |\n|---|---|---|---|---|---|---|---|"
    )
    for question in questions():
        answers = await _ask(archive, pid, question, users, 4 * times if question.one_user else times)
        p95 = statistics.quantiles(answers.taken, n=20, method="inclusive")[-1]
        target = _TARGETS[question.one_user]
        print(
            f"| `{question.name}` | {'one user' if question.one_user else 'all users'} | {answers.rows:,} "
            f"| {statistics.median(answers.taken) * 1000:.0f} | {p95 * 1000:.0f} | {answers.processor * 1000:.0f} "
            f"| {target * 1000:,.0f} "
            f"| {'missed' if p95 > target else ''} |",
            flush=True,
        )
        if p95 > target:
            plans.append(f"\n{question.name}\n\n{await _plan(archive, question, users)}")
    print("\n".join(plans))
    return bool(plans)


def _peak(pid: int) -> str:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return f"{int(found[1]) / 2**20:.1f} GiB" if found else "unknown"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deltas", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=10_000, help=f"a multiple of {COPIES}")
    parser.add_argument(
        "--times", type=int, default=5, help="how often each question is asked; of one user, four times that"
    )
    options = parser.parse_args(arguments)
    if options.users < COPIES or options.deltas < 2 * options.users:
        parser.error(f"give at least {COPIES} users, and two deltas for each")
    with tempfile.TemporaryDirectory(prefix="history-") as folder:
        return asyncio.run(run(options.deltas, options.users, options.times, Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
