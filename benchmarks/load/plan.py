"""`Plan`: everything that decides one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from benchmarks.load.model import ModelPlan
from benchmarks.load.pace import Pace
from benchmarks.load.traffic import Traffic

EMBEDDED: Final = "embedded"
APACHE: Final = "apache"
FROM_SETTINGS: Final = "settings"

Stores = Literal["embedded", "settings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run.

    Attributes:
        name: what it is called in the report.
        traffic: what is sent.
        pace: how fast.
        workers: processes.
        model: how the scripted model answers; None: the rules judge.
        kafka: ``embedded``, ``apache`` (a node that is started for the run), ``settings`` (the one that the settings
            name), or the address of one that runs.
        stores: ``embedded``, or those that the settings name.
        settings: settings of the workers by their full name, with precedence over all others.
        patience: seconds without any progress after which the run is given up.
        warm_up: seconds after the first message whose flushes do not count among the latencies: a worker that has just
            started reads its rules and opens its connections meanwhile.
    """

    name: str
    traffic: Traffic = field(default_factory=Traffic)
    pace: Pace = field(default_factory=Pace)
    workers: int = 1
    model: ModelPlan | None = None
    kafka: str = EMBEDDED
    stores: Stores = "embedded"
    settings: Mapping[str, str] = field(default_factory=dict)
    patience: float = 180.0
    warm_up: float = 0.0

    def described(self) -> dict[str, str]:
        """Return what decides the run, as people read it."""
        traffic, model = self.traffic, self.model
        return {
            "messages": f"{traffic.messages:,} of {traffic.users:,} users, {self.pace}",
            "skew": f"Zipf {traffic.zipf:g}",
            "length": f"{traffic.length} characters",
            "language": f"{traffic.chinese:.0%} of the users Chinese, the others English",
            "telling": f"{traffic.telling:.0%} of the users' own messages",
            "late": f"{traffic.late:.0%}",
            "duplicates": f"{traffic.duplicates:.0%}",
            "seed": str(traffic.seed),
            "processor": "rules" if model is None else f"model, {model.latency} s, {model.errors:.1%} errors",
            "workers": str(self.workers),
            "kafka": self.kafka,
            "stores": self.stores,
            "latency": f"without the first {self.warm_up:g} s" if self.warm_up else "of all flushes",
        }
