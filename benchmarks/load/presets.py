"""The benchmarks that have a name: what they run, and what their figures should be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.load.model import ModelPlan
from benchmarks.load.pace import Pace
from benchmarks.load.plan import APACHE, Plan
from benchmarks.load.report import Finding, RunReport
from benchmarks.load.traffic import Traffic

Run = Callable[[Plan], Awaitable[RunReport]]
Results = tuple[list[RunReport], list[Finding]]

_SHORT: Final = {"window.messages": "5"}
"""Windows that close all along the run, and not only at its end."""

_WARM_UP: Final = 10.0
"""Seconds of a run at half load before latencies count."""

_MANY: Final = {**_SHORT, "lanes.concurrency": "200", "lanes.max_open": "4000", "model.max_in_flight": "200"}
_FEWER: Final = {**_SHORT, "lanes.concurrency": "64", "lanes.max_open": "2000", "model.max_in_flight": "40"}
"""For two workers on two cores: few enough calls that the model is what they wait for, and not the processors."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A benchmark.

    Attributes:
        help: what it is, in a sentence.
        plan: what it runs, before options change it.
        perform: runs it, once or several times.
    """

    help: str
    plan: Plan
    perform: Callable[[Plan, Run], Awaitable[Results]]


async def _plain(plan: Plan, run: Run) -> Results:
    report = await run(plan)
    return [report], _common(report)


async def _pipeline(plan: Plan, run: Run) -> Results:
    report = await run(plan)
    rate = report.messages_per_second
    return [report], [
        Finding(
            what="messages a second to archived deltas",
            value=f"{rate:,.0f}",
            target="at least 2,000",
            met=rate >= 2_000,
        ),
        *_common(report)[1:],
    ]


async def _model_bound(plan: Plan, run: Run) -> Results:
    report = await run(plan)
    use = report.model
    if use is None:
        return [report], _common(report)
    return [report], [
        Finding(
            what="flushes a second, of the ideal",
            value=f"{report.steady_flushes_per_second:,.1f} of {use.ideal:,.1f}: {use.share:.1%}",
            target="at least 95 %",
            met=use.share >= 0.95,
        ),
        Finding(what="model calls of a flush", value=f"{use.calls_per_flush:.2f}"),
        *_common(report)[1:],
    ]


async def _latency(plan: Plan, run: Run) -> Results:
    """Find out how fast it can go, then go at half of that."""
    full = await run(replace(plan, name=f"{plan.name}, as fast as possible", pace=Pace()))
    half = await run(
        replace(
            plan,
            name=f"{plan.name}, half load",
            pace=replace(plan.pace, rate=full.messages_per_second / 2),
            warm_up=_WARM_UP,
        )
    )
    findings = [
        Finding(what="half load, messages a second", value=f"{full.messages_per_second / 2:,.0f}"),
        Finding(what="latencies count from", value=f"{_WARM_UP:g} s after the first message"),
    ]
    for lane in half.latency:
        added = lane.added
        findings += [
            Finding(
                what=f"added latency of lane {lane.lane}, {name}",
                value=f"{value:,.1f} ms",
                target=f"at most {limit} ms",
                met=value <= limit,
            )
            for name, value, limit in (("p50", added.p50, 50), ("p99", added.p99, 250))
        ]
    return [full, half], findings


async def _two_workers(plan: Plan, run: Run) -> Results:
    """Two workers against one, bound by the model and bound by the processors."""
    reports: list[RunReport] = []
    findings: list[Finding] = []
    model = plan.model or ModelPlan()
    fewer = replace(plan.traffic, messages=max(1, plan.traffic.messages // 10), users=max(1, plan.traffic.users // 4))
    kinds = (
        ("model-bound", replace(plan, model=model, traffic=fewer, settings={**_FEWER, **plan.settings})),
        ("rules", replace(plan, model=None)),
    )
    for kind, base in kinds:
        one, two = [await run(replace(base, name=f"{kind}, {count} workers", workers=count)) for count in (1, 2)]
        reports += [one, two]
        rates = [_steady(report) for report in (one, two)]
        ratio = rates[1] / rates[0] if rates[0] else 0.0
        bound = kind == "model-bound"
        unit = "model requests" if bound else "flushes"
        findings.append(
            Finding(
                what=f"two workers against one, {kind}",
                value=f"{ratio:.2f} x ({rates[1]:,.1f} against {rates[0]:,.1f} {unit}/s)",
                target="at least 1.9 x" if bound else "",
                met=ratio >= 1.9 if bound else None,
            )
        )
    return reports, findings


def _steady(report: RunReport) -> float:
    return report.model.requests_per_second if report.model else report.steady_flushes_per_second


def _common(report: RunReport) -> list[Finding]:
    return [
        Finding(what="messages a second to archived deltas", value=f"{report.messages_per_second:,.0f}"),
        Finding(what="processor time of the workers for a message", value=f"{report.cpu_us_per_message:,.0f} µs"),
        Finding(what="largest memory of a worker", value=f"{report.peak_rss_mib:,.0f} MiB"),
    ]


PLAIN: Final = Preset("The traffic that the options describe.", Plan(name="load"), _plain)

PRESETS: Final[Mapping[str, Preset]] = {
    "pipeline": Preset(
        "The whole pipeline with rules, one worker, as fast as it goes.",
        Plan(name="pipeline", kafka=APACHE, traffic=Traffic(messages=100_000, users=2_000)),
        _pipeline,
    ),
    "model-bound": Preset(
        "A model of 800 ms a call, 2,000 users, 200 calls in flight: flushes a second against the ideal.",
        Plan(
            name="model-bound",
            kafka=APACHE,
            traffic=Traffic(messages=20_000, users=2_000),
            model=ModelPlan(),
            settings=_MANY,
        ),
        _model_bound,
    ),
    "latency": Preset(
        "From the message that closes a window to its delta, at half load.",
        Plan(name="latency", kafka=APACHE, traffic=Traffic(messages=40_000, users=500)),
        _latency,
    ),
    "two-workers": Preset(
        "Two workers against one: bound by the model, and by the processors.",
        Plan(name="two-workers", kafka=APACHE, traffic=Traffic(messages=60_000, users=2_000)),
        _two_workers,
    ),
}
