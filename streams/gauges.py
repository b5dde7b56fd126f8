"""What Prometheus reads off a worker at each request: its position, its open records and its windows.

Nothing of it is counted as messages pass: that would cost each of them something.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from streams.ledger import Ledger
from streams.metrics import PREFIX
from streams.records import TopicPartition
from streams.windows import Windows

_TOPIC: Final = "messaging_destination_name"
_PARTITION: Final = "messaging_destination_partition_id"


class Stage(Protocol):
    """Something that takes records of a topic and acknowledges them."""

    @property
    def ledger(self) -> Ledger:
        """Its records that are not acknowledged."""
        ...

    @property
    def running(self) -> int:
        """Records that it works on now, or that wait for it."""
        ...


class WindowStage(Stage, Protocol):
    """The stage that windows messages."""

    @property
    def windows(self) -> Windows[Any]:
        """The open ones."""
        ...

    @property
    def signalled(self) -> int:
        """Users' messages in which there was a signal."""
        ...

    @property
    def spared(self) -> int:
        """Those without."""
        ...

    @property
    def moved(self) -> int:
        """Messages that were sent on to the partition of their user."""
        ...


HighWater = Callable[[TopicPartition], int | None]
"""Says which offset the next record of a partition will have, as far as the last fetch told."""


class WorkerCollector(Collector):
    """Reads the state of one worker; in its event loop.

    Args:
        window: its window agent.
        stages: every other stage, by its name.
        highwater: for each stage's name and ``window``, the ends of its partitions.
        partitions: number of partitions of every topic.
        monotonic: the clock that windows are opened by, in seconds.
    """

    def __init__(
        self,
        window: WindowStage,
        stages: Mapping[str, Stage],
        highwater: Mapping[str, HighWater],
        partitions: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._window = window
        self._stages: dict[str, Stage] = {"window": window, **stages}
        self._highwater = highwater
        self._partitions = partitions
        self._monotonic = monotonic

    def describe(self) -> Iterable[Metric]:
        """Say nothing before the first request: the worker may not have started."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Yield every metric as it is now."""
        yield from self._records()
        yield from self._of_windows()

    def _records(self) -> Iterable[Metric]:
        consumed = CounterMetricFamily(
            f"{PREFIX}_messaging_client_consumed_messages",
            "Records taken, also those read again.",
            labels=["stage"],
        )
        open_records = GaugeMetricFamily(
            f"{PREFIX}_open_records", "Records taken and not acknowledged.", labels=["stage"]
        )
        running = GaugeMetricFamily(
            f"{PREFIX}_running_records", "Records being processed, or queued for it in this process.", labels=["stage"]
        )
        lag = GaugeMetricFamily(
            f"{PREFIX}_messaging_consumer_lag", "Records on a partition that are not acknowledged.",
            labels=["stage", _TOPIC, _PARTITION],
        )  # fmt: skip
        for name, stage in self._stages.items():
            consumed.add_metric([name], stage.ledger.opened)
            open_records.add_metric([name], len(stage.ledger))
            running.add_metric([name], stage.running)
            for place, position in stage.ledger.positions().items():
                end = self._highwater[name](place)
                if end is not None:
                    lag.add_metric([name, place.topic, str(place.partition)], max(0, end - position))
        return consumed, open_records, running, lag

    def _of_windows(self) -> Iterable[Metric]:
        windows = self._window.windows
        firsts = (windows.oldest(partition) for partition in range(self._partitions))
        opened = min((window.opened for window in firsts if window is not None), default=None)
        age = 0.0 if opened is None else self._monotonic() - opened
        yield GaugeMetricFamily(f"{PREFIX}_open_windows", "Users with an open window.", len(windows))
        yield GaugeMetricFamily(f"{PREFIX}_window_messages", "Messages in open windows.", windows.items)
        yield GaugeMetricFamily(f"{PREFIX}_oldest_window_age_seconds", "Age of the window opened first.", age)
        signals = CounterMetricFamily(
            f"{PREFIX}_signal_messages", "Users' messages, by whether they had a signal and so cost a call.",
            labels=["signal"],
        )  # fmt: skip
        signals.add_metric(["yes"], self._window.signalled)
        signals.add_metric(["no"], self._window.spared)
        yield signals
        yield CounterMetricFamily(
            f"{PREFIX}_moved_messages", "Messages sent on to the partition of their user.", self._window.moved
        )
