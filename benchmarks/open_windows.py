"""The memory of open windows: a worker holds messages of many users, and no window closes.

``python -m benchmarks.open_windows`` starts Apache Kafka, the embedded stores and a whole worker, reads its resident
memory, sends ten messages of each user, waits until all of them are in open windows, and reads it again.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.fixed_size import FixedSize, publish
from benchmarks.kafka_jars import VERSION
from benchmarks.load.machine import Machine, this_machine
from benchmarks.load.measure import Sample
from benchmarks.load.report import Finding
from benchmarks.real_worker import Watched, idle, open_place
from benchmarks.recorded import Result, add_options, changed_settings, finish, performed, say, tenths

TARGET_RSS: Final = 1.5e9
"""Bytes of the worker with all windows open."""

TARGET_MESSAGE: Final = 1_500
"""Bytes for a message."""

_READY: Final = 120.0
_SETTLE: Final = 10
"""Samples, a second apart, that are taken while nothing happens any more; the last one counts."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker held, and its resident memory in bytes.

    Attributes:
        before: ready, with nothing taken.
        after: with all windows open, when it has settled.
        peak: most in any sample.
        seconds: from the first message being sent to the last one being in its window.
        flushes: batches sent, of which there should be none.
    """

    windows: int
    messages: int
    before: float
    after: float
    peak: float
    seconds: float
    flushes: int

    @property
    def of_message(self) -> float:
        """Bytes for a message: what came on top of the worker that held none."""
        return (self.after - self.before) / self.messages


async def measure(traffic: FixedSize, folder: Path) -> Held:
    """Run it once.

    Raises:
        ServiceFailed: when a service does not start, or the worker ends.
        TimeoutError: when the worker does not take the messages.
    """
    peak = 0.0
    tell = tenths(traffic.messages, "in windows")

    def note(sample: Sample) -> None:
        nonlocal peak
        peak = max(peak, *sample.rss)
        tell(sample.workers.window_messages)

    say("starting Apache Kafka, the stores and a worker ...")
    async with open_place("open-windows", {}, folder) as place:
        worker = place.worker()
        await worker.start(_READY)
        try:
            watched = Watched(worker)
            before = await _settled(watched, note)
            say(f"{before.rss[0] / 2**20:,.0f} MiB with nothing taken; sending {traffic.messages:,} messages ...")
            began = before.at
            await publish(place.kafka, traffic.records(), tenths(traffic.messages, "sent"))
            say("waiting until all of them are in windows ...")
            last = await watched.until(lambda sample: sample.workers.window_messages >= traffic.messages, note)
            seconds = last.at - began
            after = await _settled(watched, note)
        finally:
            await worker.kill()  # stopping in order says nothing more
    return Held(
        windows=round(after.workers.open_windows),
        messages=round(after.workers.window_messages),
        before=before.rss[0],
        after=after.rss[0],
        peak=peak,
        seconds=round(seconds, 1),
        flushes=round(sum(after.workers.sent.values())),
    )


async def _settled(watched: Watched, note: Callable[[Sample], None]) -> Sample:
    sample = await watched.until(idle, note)
    for _ in range(_SETTLE):
        await asyncio.sleep(1.0)
        sample = await watched.until(idle, note)
    return sample


def result(held: Held, traffic: FixedSize, command: str, machine: Machine, settings: str) -> Result:
    """Return what was measured."""
    return Result(
        title="The memory of open windows",
        command=command,
        machine=machine,
        settings={
            "messages": f"{traffic.messages:,} records of {traffic.size} bytes, {traffic.users:,} users, half of them "
            "the users' own; none carries a signal",
            "services": f"Apache Kafka {VERSION}, ClickHouse and Qdrant embedded, one node and one worker on the same "
            "machine",
            "windows": "no limit closes them",
            "settings": settings,
        },
        findings=(
            Finding(
                what="resident memory of the worker with all windows open",
                value=f"{held.after / 1e9:.2f} GB",
                target=f"at most {TARGET_RSS / 1e9:g} GB",
                met=held.after <= TARGET_RSS,
            ),
            Finding(
                what="for a message in a window",
                value=f"{held.of_message:,.0f} bytes",
                target=f"at most {TARGET_MESSAGE:,} bytes",
                met=held.of_message <= TARGET_MESSAGE,
            ),
            Finding(what="resident memory before, with nothing taken", value=f"{held.before / 1e9:.2f} GB"),
            Finding(what="largest resident memory meanwhile", value=f"{held.peak / 1e9:.2f} GB"),
        ),
        problems=tuple(problems(held, traffic)),
        data=msgspec.to_builtins(held) | {"bytes_a_message": held.of_message},
        timed=False,
    )


def problems(held: Held, traffic: FixedSize) -> list[str]:
    """Return what makes the figures worth nothing: every message must be held, and nothing else."""
    found = []
    if (held.windows, held.messages) != (traffic.users, traffic.messages):
        found.append(
            f"{held.messages:,} messages are in {held.windows:,} windows, not {traffic.messages:,} in {traffic.users:,}"
        )
    if held.flushes:
        found.append(f"{held.flushes:,} flush batches were sent")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.open_windows",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--users", type=int, default=100_000, help="one window each")
    parser.add_argument("--each", type=int, default=10, help="messages of a user")
    parser.add_argument("--size", type=int, default=200, help="bytes of a record")
    add_options(parser, "open_windows.md")
    options = parser.parse_args(arguments)
    if min(options.users, options.each) < 1:
        parser.error("--users and --each must be at least 1")
    try:
        traffic = FixedSize(messages=options.users * options.each, users=options.users, size=options.size)
    except ValueError as error:
        parser.error(str(error))
    command = f"python -m benchmarks.open_windows --users {options.users} --each {options.each} --size {options.size}"

    async def run() -> Result:
        machine, settings = this_machine(), changed_settings()
        with tempfile.TemporaryDirectory(prefix="profilestream-open-windows-") as folder:
            held = await measure(traffic, Path(folder))
        return result(held, traffic, command, machine, settings)

    return performed(run, lambda found: finish(found, options))


if __name__ == "__main__":
    sys.exit(main())
