"""The window agent alone: messages a second from the chat topic to acknowledged flush batches, beside a plain loop.

``python -m benchmarks.windowing`` starts Apache Kafka, fills the chat topic, and reads it again and again, each time in
a new process: with the window agent of a worker in which no other stage runs, with the same agent without lane
``facts``, and with a loop that does the least that could be called grouping by user (``aiokafka``'s ``getmany``, JSON
to a dictionary, a list for each user). The passes take turns, so that whatever else the machine does meets all of them;
compared are medians.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.fixed_size import FixedSize, publish
from benchmarks.harness import CommandError, environment
from benchmarks.kafka_jars import VERSION
from benchmarks.load.machine import Machine, this_machine
from benchmarks.load.report import Finding
from benchmarks.recorded import Result, Table, add_options, changed_settings, finish, performed, say, tenths
from benchmarks.windowing_process import Kind, Pass
from schemas.codec import decode
from streams.embedded.child import end_with_parent
from streams.settings import KafkaSettings

TARGET: Final = 0.10
"""Of the rate of the plain loop."""

PLAIN: Final = "plain loop"
AGENT: Final = "window agent"
WITHOUT_FACTS: Final = "window agent, without lane facts"

_KINDS: Final[Mapping[str, Kind]] = {PLAIN: "plain", AGENT: "agent", WITHOUT_FACTS: "agent"}
"""What takes turns, and what its process does."""

_OWN: Final = "windowing"


async def measure(traffic: FixedSize, rounds: int, folder: Path) -> dict[str, list[Pass]]:
    """Fill a topic, let all take their turns, and return their passes.

    Raises:
        KafkaMissing: when there are no jars of Apache Kafka, or no Java.
        ServiceFailed: when it does not start.
        CommandError: when a pass fails.
    """
    passes: dict[str, list[Pass]] = {name: [] for name in _KINDS}
    without_facts = folder / "without_facts.yaml"
    without_facts.write_text("facts:\n  enabled: false\n")
    say("starting Apache Kafka ...")
    async with ApacheKafka(folder / "kafka") as node:
        common = {**node.settings(), "topic_prefix": f"{_OWN}."}
        kafka = KafkaSettings.model_validate({**common, "group_id": _OWN})
        say(f"sending {traffic.messages:,} messages ...")
        await publish(kafka, traffic.records(), tenths(traffic.messages, "sent"))
        await publish(kafka, traffic.closings())
        for turn in range(1, rounds + 1):
            for number, (name, kind) in enumerate(_KINDS.items()):
                say(f"round {turn} of {rounds}: {name} ...")
                group = _OWN if kind == "plain" else f"{_OWN}-{turn}-{number}"
                env = environment({"kafka": {**common, "group_id": group}})
                if name == WITHOUT_FACTS:
                    env["PROFILESTREAM_PIPELINE_FILE"] = str(without_facts)
                done = await _pass(kind, traffic.messages, env)
                say(f"{rate(done):,.0f} messages a second, {cost(done):.1f} µs of the processor for a message")
                passes[name].append(done)
    return passes


async def _pass(kind: Kind, messages: int, env: Mapping[str, str]) -> Pass:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.windowing_process", kind, str(messages)),
        env=dict(env),
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=end_with_parent,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise CommandError(f"a pass of kind {kind} ended with {process.returncode}")
    return decode(said.strip(), Pass)


def rate(one: Pass) -> float:
    """Return messages a second."""
    return one.messages / one.seconds


def cost(one: Pass) -> float:
    """Return microseconds of the processor for a message."""
    return 1e6 * one.processor / one.messages


def result(
    passes: Mapping[str, Sequence[Pass]], traffic: FixedSize, command: str, machine: Machine, settings: str
) -> Result:
    """Return what was measured: the ratios are of the medians of all rounds."""
    rates = {name: statistics.median(map(rate, found)) for name, found in passes.items()}
    ratios = {name: rates[name] / rates[PLAIN] for name in (AGENT, WITHOUT_FACTS)}
    findings = [
        Finding(
            what="window agent against the plain loop",
            value=f"{ratios[AGENT]:.1%} ({rates[AGENT]:,.0f} against {rates[PLAIN]:,.0f} messages/s)",
            target=f"at least {TARGET:.0%}",
            met=ratios[AGENT] >= TARGET,
        ),
        Finding(
            what="without lane facts, and so without its detector",
            value=f"{ratios[WITHOUT_FACTS]:.1%} ({rates[WITHOUT_FACTS]:,.0f} messages/s)",
        ),
        *(
            Finding(
                what=f"processor time for a message, {name}",
                value=f"{statistics.median(map(cost, found)):.1f} µs",
            )
            for name, found in passes.items()
        ),
    ]
    rows = [
        (
            name,
            f"{number}",
            f"{rate(one):,.0f}",
            f"{cost(one):.1f}",
            f"{one.seconds:.2f}",
            ", ".join(f"{count:,} {lane}" for lane, count in sorted(one.batches.items())),
        )
        for name, found in passes.items()
        for number, one in enumerate(found, 1)
    ]
    columns = ("what", "round", "messages/s", "processor µs a message", "seconds", "flush batches")
    return Result(
        title="The window agent alone",
        command=command,
        machine=machine,
        settings={
            "messages": f"{traffic.messages:,} records of {traffic.size} bytes, {traffic.users:,} users, half of them "
            "the users' own, and at the end one request to close each user's window",
            "telling": f"{traffic.telling:.0%} of the users' own messages carry a signal",
            "rounds": f"{min(map(len, passes.values()))}, by turns, each pass in a process of its own",
            "Kafka": f"Apache Kafka {VERSION}, one node on the same machine",
            "settings": settings,
        },
        findings=tuple(findings),
        tables=(Table(title="Each pass", columns=columns, rows=tuple(rows)),),
        problems=tuple(problems(passes, traffic.messages)),
        data={
            "messages": traffic.messages,
            "ratios": ratios,
            "passes": {name: msgspec.to_builtins(found) for name, found in passes.items()},
        },
    )


def problems(passes: Mapping[str, Sequence[Pass]], messages: int) -> list[str]:
    """Return what makes the passes no comparison: every one must take every message once."""
    return [
        f"{name}, round {number}: {one.messages:,} messages were taken, {messages:,} were sent"
        for name, found in passes.items()
        for number, one in enumerate(found, 1)
        if one.messages != messages
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.windowing", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--users", type=int, default=5_000)
    parser.add_argument("--size", type=int, default=200, help="bytes of a record")
    parser.add_argument("--telling", type=float, default=0.0, help="share of users' messages with a signal")
    parser.add_argument("--rounds", type=int, default=3)
    add_options(parser, "windowing.md")
    options = parser.parse_args(arguments)
    if min(options.messages, options.users, options.rounds) < 1:
        parser.error("--messages, --users and --rounds must be at least 1")
    try:
        traffic = FixedSize(messages=options.messages, users=options.users, size=options.size, telling=options.telling)
    except ValueError as error:
        parser.error(str(error))
    command = (
        f"python -m benchmarks.windowing --messages {options.messages} --users {options.users} --size {options.size} "
        f"--telling {options.telling:g} --rounds {options.rounds}"
    )

    async def run() -> Result:
        machine, settings = this_machine(), changed_settings()
        with tempfile.TemporaryDirectory(prefix="profilestream-windowing-") as folder:
            passes = await measure(traffic, options.rounds, Path(folder))
        return result(passes, traffic, command, machine, settings)

    return performed(run, lambda found: finish(found, options))


if __name__ == "__main__":
    sys.exit(main())
