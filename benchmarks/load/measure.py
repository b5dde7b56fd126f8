"""What the workers say of themselves every two seconds: the same metrics that their operator sees."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from streams.metrics import PREFIX

_TIMEOUT: Final = aiohttp.ClientTimeout(total=30.0)

_SUMS: Final = {
    f"{PREFIX}_open_windows": "open_windows",
    f"{PREFIX}_window_messages": "window_messages",
    f"{PREFIX}_deltas_total": "deltas",
    f"{PREFIX}_retries_total": "retries",
    f"{PREFIX}_dead_letters_total": "dead_letters",
    f"{PREFIX}_duplicates_suppressed_total": "suppressed",
    f"{PREFIX}_archive_rows_total": "rows",
    "process_resident_memory_bytes": "rss",
    "process_cpu_seconds_total": "cpu",
}
"""Metrics that are added up over their labels, and what they are called here."""

_BY_LABEL: Final = {
    f"{PREFIX}_messaging_client_consumed_messages_total": ("consumed", "stage"),
    f"{PREFIX}_messaging_consumer_lag": ("lag", "stage"),
    f"{PREFIX}_running_records": ("running", "stage"),
    f"{PREFIX}_flushes_sent_total": ("sent", "lane"),
}
"""Metrics that are added up by one label."""


class Reading(msgspec.Struct, kw_only=True):
    """What one worker says, or all of them together.

    Attributes:
        rss: resident memory in bytes.
        cpu: processor seconds since their start.
        rows: rows of all tables that the archive has taken.
        consumed: records taken, by stage.
        lag: records that are not acknowledged, by stage; of ``window`` those in open windows included.
        running: records that are being worked on, by stage.
        sent: flush batches sent, by lane.
    """

    open_windows: float = 0.0
    window_messages: float = 0.0
    deltas: float = 0.0
    retries: float = 0.0
    dead_letters: float = 0.0
    suppressed: float = 0.0
    rows: float = 0.0
    rss: float = 0.0
    cpu: float = 0.0
    consumed: dict[str, float] = {}
    lag: dict[str, float] = {}
    running: dict[str, float] = {}
    sent: dict[str, float] = {}


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A moment of a run.

    Attributes:
        at: seconds since the first message.
        sent: messages that the broker has.
        ended: messages in windows that have ended.
        workers: all of them together.
        rss: memory of each worker in bytes.
    """

    at: float
    sent: int
    ended: int
    workers: Reading
    rss: tuple[float, ...]


def read_metrics(text: str) -> Reading:
    """Return what a worker's metrics say."""
    reading = Reading()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in _SUMS:
                name = _SUMS[sample.name]
                setattr(reading, name, getattr(reading, name) + sample.value)
            elif sample.name in _BY_LABEL:
                name, label = _BY_LABEL[sample.name]
                values: dict[str, float] = getattr(reading, name)
                values[sample.labels[label]] = values.get(sample.labels[label], 0.0) + sample.value
    return reading


def total(readings: Sequence[Reading]) -> Reading:
    """Return the sum of what several workers say."""
    summed = Reading()
    for name in _SUMS.values():
        setattr(summed, name, sum(getattr(reading, name) for reading in readings))
    for name, _ in _BY_LABEL.values():
        values: Counter[str] = Counter()
        for reading in readings:
            values.update(getattr(reading, name))
        setattr(summed, name, dict(values))
    return summed


_EVERY: Final = 2.0
"""Seconds from sample to sample: to answer every second takes a twentieth of a loaded worker's processor time."""


class Sampler:
    """Asks every worker for its metrics.

    Args:
        addresses: of their metrics.
        progress: returns how many messages are sent, and how many are in windows that have ended.
        clock: seconds since the first message.
        on_sample: called with every sample.

    Attributes:
        samples: all so far.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        progress: Callable[[], tuple[int, int]],
        clock: Callable[[], float],
        on_sample: Callable[[Sample], None],
    ) -> None:
        self._addresses = addresses
        self._progress = progress
        self._clock = clock
        self._on_sample = on_sample
        self.samples: list[Sample] = []

    async def run(self) -> None:
        """Take a sample every other second until the task is cancelled."""
        while True:
            await self.take()
            await asyncio.sleep(_EVERY - self._clock() % _EVERY)

    async def take(self) -> Sample:
        """Take a sample now."""
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            readings = await asyncio.gather(*(_scrape(session, address) for address in self._addresses))
        sent, ended = self._progress()
        sample = Sample(
            at=self._clock(),
            sent=sent,
            ended=ended,
            workers=total(readings),
            rss=tuple(reading.rss for reading in readings),
        )
        self.samples.append(sample)
        self._on_sample(sample)
        return sample


async def _scrape(session: aiohttp.ClientSession, address: str) -> Reading:
    async with session.get(address) as answer:
        answer.raise_for_status()
        return read_metrics(await answer.text())


def cpu_seconds(processes: Mapping[str, int]) -> dict[str, float]:
    """Return the processor seconds of processes since their start, by name, of those that Linux tells of."""
    found: dict[str, float] = {}
    for name, pid in processes.items():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found[name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found
