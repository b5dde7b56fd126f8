"""Recovery: how long a worker that was killed takes until it is back where it was.

``python -m benchmarks.recovery`` fills the table of profiles and the chat topic, has a worker take all messages into
windows that nothing closes, kills it (SIGKILL), and starts it again. Meanwhile one user writes a message and asks for
their window to be closed: the first new flush is theirs. The same with ``window.horizon`` set, which bounds what is
read again. Joining takes as long as the broker needs to take the killed worker for dead: ``kafka.session_timeout``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.fixed_size import FixedSize
from benchmarks.kafka_jars import VERSION
from benchmarks.load.machine import Machine, this_machine
from benchmarks.load.report import Finding
from benchmarks.recorded import Result, Table, add_options, changed_settings, finish, performed
from benchmarks.recovery_run import Recovery, Scenario, recover
from streams.settings import KafkaSettings

_STEPS: Final[Mapping[str, str]] = {
    "joined": "joined: it has its partitions",
    "restored": "tables restored: it takes the first message",
    "first_flush": "first new flush batch on its topic",
    "caught_up": "caught up: every message is taken",
}
"""What is reached in turn, and how it is called."""


def result(runs: Mapping[Scenario, Recovery], command: str, machine: Machine, settings: str) -> Result:
    """Return what was measured."""
    scenarios = list(runs)
    first = scenarios[0]
    before = (
        ("messages in open windows", "waiting"),
        ("open windows", "windows"),
        ("records read again", "read_again"),
        ("profiles in the table", "profiles"),
    )
    rows = [
        *((what, *(f"{getattr(run, name):,}" for run in runs.values())) for what, name in before),
        ("their records", *(f"{run.table_bytes / 1e6:,.0f} MB" for run in runs.values())),
        *((what, *(f"{getattr(run, name):,.1f} s" for run in runs.values())) for name, what in _STEPS.items()),
    ]
    return Result(
        title="Recovery from a kill",
        command=command,
        machine=machine,
        settings={
            "messages": f"{first.traffic.messages:,} records of {first.traffic.size} bytes, {first.traffic.users:,} "
            "users; none carries a signal, and nothing is found in them",
            "windows": "no other limit than the horizon closes them",
            "session timeout": f"{first.session_timeout:g} s",
            "services": f"Apache Kafka {VERSION}, ClickHouse and Qdrant embedded, one node and one worker on the same "
            "machine",
            "times": "from the start of the new process, which follows the kill at once",
            "settings": settings,
        },
        findings=tuple(
            Finding(what=f"{scenario.name}: {_STEPS[name]}", value=f"{getattr(run, name):,.1f} s")
            for scenario, run in runs.items()
            for name in ("first_flush", "caught_up")
        ),
        tables=(
            Table(
                title="At the kill, and after the new start",
                columns=("", *(scenario.name for scenario in scenarios)),
                rows=tuple(rows),
            ),
        ),
        problems=tuple(problem for scenario, run in runs.items() for problem in problems(scenario, run)),
        data={scenario.name: msgspec.to_builtins(run) for scenario, run in runs.items()},
    )


def problems(scenario: Scenario, run: Recovery) -> list[str]:
    """Return what was not as it should have been when the worker was killed."""
    sent = scenario.traffic.messages
    if scenario.horizon is None and run.waiting != sent:
        return [f"{scenario.name}: {run.waiting:,} messages were in windows, not the {sent:,} that were sent"]
    if run.read_again < run.waiting:
        return [f"{scenario.name}: {run.read_again:,} records were to be read again, fewer than were in windows"]
    return []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recovery", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=100_000, help="in windows when the worker is killed")
    parser.add_argument("--users", type=int, default=2_000, help="who write them")
    parser.add_argument("--size", type=int, default=200, help="bytes of a record")
    parser.add_argument("--profiles", type=int, default=100_000, help="in the table")
    parser.add_argument("--slots", type=int, default=10, help="of a profile")
    parser.add_argument(
        "--horizon", type=int, metavar="N", help="window.horizon of the second run; default: a fifth of a partition's"
    )
    parser.add_argument(
        "--session-timeout", type=float, default=KafkaSettings().session_timeout, metavar="S",
        help="kafka.session_timeout",
    )  # fmt: skip
    add_options(parser, "recovery.md")
    options = parser.parse_args(arguments)
    if min(options.messages, options.users, options.slots) < 1 or options.profiles < 0:
        parser.error("--messages, --users and --slots must be at least 1")
    partitions = KafkaSettings().partitions
    horizon = options.horizon or max(1, options.messages // partitions // 5)
    try:
        traffic = FixedSize(messages=options.messages, users=options.users, size=options.size)
    except ValueError as error:
        parser.error(str(error))
    scenarios = [
        Scenario(
            traffic=traffic,
            profiles=options.profiles,
            slots=options.slots,
            horizon=bound,
            session_timeout=options.session_timeout,
        )
        for bound in (None, horizon)
    ]
    command = (
        f"python -m benchmarks.recovery --messages {options.messages} --users {options.users} --size {options.size} "
        f"--profiles {options.profiles} --slots {options.slots} --horizon {horizon} "
        f"--session-timeout {options.session_timeout:g}"
    )

    async def run() -> Result:
        machine, settings = this_machine(), changed_settings()
        with tempfile.TemporaryDirectory(prefix="profilestream-recovery-") as folder:
            runs = {
                scenario: await recover(scenario, Path(folder) / str(number))
                for number, scenario in enumerate(scenarios)
            }
        return result(runs, command, machine, settings)

    return performed(run, lambda found: finish(found, options))


if __name__ == "__main__":
    sys.exit(main())
