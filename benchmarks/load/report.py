"""What was measured: the records of a report, and what is worked out from what was seen."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Self

import msgspec

from benchmarks.load.following import End, Follower, Latency, Seen
from benchmarks.load.machine import Machine
from benchmarks.load.measure import Sample
from benchmarks.load.plan import Plan
from benchmarks.load.sending import Sender
from benchmarks.load.traffic import Message

_STEADY: Final = (0.2, 0.8)
"""Share of the flushes before and after which a run warms up and runs out."""

_SHORTEST: Final = 0.5
"""Seconds between two moments, at least: the last samples of a run are taken in quick succession."""

_SHOWN: Final = 5
"""Messages of each kind that a problem names."""


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Of a number of durations, in milliseconds."""

    count: int
    p50: float
    p95: float
    p99: float
    most: float

    @classmethod
    def of(cls, seconds: Iterable[float]) -> Percentiles | None:
        """Return those of durations in seconds, or None when there are none."""
        values = sorted(seconds)
        if not values:
            return None
        cuts = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else values * 99
        p50, p95, p99 = (round(1000 * cuts[place - 1], 1) for place in (50, 95, 99))
        return cls(count=len(values), p50=p50, p95=p95, p99=p99, most=round(1000 * values[-1], 1))


class LaneLatency(msgspec.Struct, frozen=True, kw_only=True):
    """From the message that closes a window to its last delta, of one lane.

    Attributes:
        total: all of it.
        added: without the time that the model took.
    """

    lane: str
    total: Percentiles
    added: Percentiles


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """A second of a run, for the plots.

    Attributes:
        at: seconds since the first message.
        sent: messages a second since the moment before; likewise the next two.
        consumed: messages taken by the window stage.
        flushes: flushes that ended.
        lag: messages that the broker has and the window stage has not taken.
        windowed: messages in open windows.
        running: records that are being worked on, by stage.
        rss: memory of each worker in MiB.
        p50: milliseconds of latency, without the model's, of the windows that a message closed; None when none closed.
        p99: likewise.
    """

    at: float
    sent: float
    consumed: float
    flushes: float
    lag: float
    windowed: float
    running: dict[str, float]
    rss: tuple[float, ...]
    p50: float | None = None
    p99: float | None = None


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What became of every message.

    Attributes:
        sent: messages that the broker has.
        accounted: those in exactly one window that has ended.
        flushes: that have ended, by lane and outcome (``memo applied``).
        triggers: windows, by what closed them.
        deltas: on the topic.
        archived: deltas and events in the archive.
        repeats: records that came more than once, which is allowed and changes nothing.
        retries: tries that failed and were made again.
        dead_letters: records that were parked.
        problems: what does not add up, a sentence each.
    """

    sent: int
    accounted: int
    flushes: dict[str, int]
    triggers: dict[str, int]
    deltas: int
    archived: dict[str, int]
    repeats: int
    retries: int
    dead_letters: int
    problems: tuple[str, ...]


class ModelUse(msgspec.Struct, frozen=True, kw_only=True):
    """How the scripted model was used.

    Attributes:
        calls: by stage.
        requests: sent for them.
        calls_per_flush: of both lanes.
        requests_per_second: while the run was steady, of the flushes that ended then.
        ideal: flushes a second, of those that ended then, if every request that may be in flight always were: limit x
            workers / (requests of a flush x mean latency).
        share: of the ideal that was reached.
    """

    calls: dict[str, int]
    requests: int
    calls_per_flush: float
    requests_per_second: float
    ideal: float
    share: float


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    Attributes:
        plan: what decided it.
        settings: settings of the workers that are not the defaults.
        send_seconds: from the first message to the last one being acknowledged.
        seconds: from the first message to the last delta and event in the archive.
        messages_per_second: over that time.
        flushes_per_second: likewise, both lanes.
        deltas_per_second: likewise.
        steady_flushes_per_second: flushes a second without the first and the last fifth of them.
        cpu: processor seconds meanwhile, by process.
        cpu_us_per_message: processor time of the workers, in microseconds.
        peak_rss_mib: largest memory of one worker.
        peak_lag: most messages that the broker had and the window stage had not taken.
    """

    name: str
    plan: dict[str, str]
    settings: dict[str, str]
    send_seconds: float
    seconds: float
    messages_per_second: float
    flushes_per_second: float
    deltas_per_second: float
    steady_flushes_per_second: float
    latency: tuple[LaneLatency, ...]
    model: ModelUse | None
    cpu: dict[str, float]
    cpu_us_per_message: float
    peak_rss_mib: float
    peak_lag: float
    account: Account
    moments: tuple[Moment, ...]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A figure that a preset is about.

    Attributes:
        target: what it should be, in words; empty when there is none.
        met: whether it is.
    """

    what: str
    value: str
    target: str = ""
    met: bool | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a command has measured."""

    command: str
    machine: Machine
    findings: tuple[Finding, ...]
    runs: tuple[RunReport, ...]

    @property
    def problems(self) -> list[str]:
        """What does not add up in any run."""
        return [f"{run.name}: {problem}" for run in self.runs for problem in run.account.problems]


def run_report(
    plan: Plan,
    *,
    settings: dict[str, str],
    messages: Sequence[Message],
    sender: Sender,
    follower: Follower,
    samples: Sequence[Sample],
    archived: dict[str, int],
    archived_at: float,
    cpu: dict[str, float],
    in_flight: int,
    stuck: str,
) -> RunReport:
    """Work out the report of a run.

    Args:
        plan: what decided it.
        settings: of its workers.
        messages: that were sent.
        sender: that sent them.
        follower: that saw what came of them.
        samples: of the workers.
        archived: rows in the archive.
        archived_at: when they were there.
        cpu: processor seconds by process.
        in_flight: limit of model requests of one worker.
        stuck: why the run was given up; empty when it came to its end.
    """
    seen, last = follower.seen, samples[-1].workers
    latencies = follower.measured()
    seconds = archived_at - sender.began
    worked = sum(spent for name, spent in cpu.items() if name.startswith("worker"))
    steady, expected = Steady.of(seen.ends), _expected(messages)
    moments = _moments(samples, latencies, seen.ends, sender.began)
    return RunReport(
        name=plan.name,
        plan=plan.described(),
        settings=settings,
        send_seconds=round(sender.ended - sender.began, 3),
        seconds=round(seconds, 3),
        messages_per_second=round(sender.acknowledged / seconds, 1),
        flushes_per_second=round(seen.events / seconds, 1),
        deltas_per_second=round(seen.deltas / seconds, 1),
        steady_flushes_per_second=round(steady.flushes, 1),
        latency=lane_latencies(latencies, sender.began + plan.warm_up),
        model=_model_use(plan, seen, in_flight, steady),
        cpu={name: round(spent, 2) for name, spent in cpu.items()},
        cpu_us_per_message=round(1e6 * worked / max(1, sender.acknowledged), 1),
        peak_rss_mib=round(max((rss for sample in samples for rss in sample.rss), default=0.0) / 2**20, 1),
        peak_lag=max((moment.lag for moment in moments), default=0.0),
        account=Account(
            sent=sender.acknowledged,
            accounted=sum(count for number, count in expected.items() if seen.messages[number] == count),
            flushes={f"{lane} {outcome}": count for (lane, outcome), count in sorted(seen.outcomes.items())},
            triggers={trigger: count for (lane, trigger), count in sorted(seen.flushes.items()) if lane == "memo"},
            deltas=seen.deltas,
            archived=archived,
            repeats=seen.repeats,
            retries=round(last.retries),
            dead_letters=round(last.dead_letters),
            problems=(*([stuck] if stuck else []), *problems(messages, seen, archived)),
        ),
        moments=moments,
    )


def problems(messages: Sequence[Message], seen: Seen, archived: dict[str, int]) -> list[str]:
    """Return what does not add up: every message is in exactly one window, and the archive has what the topics have."""
    found: list[str] = []
    wrong = _wrong(messages, seen)
    if wrong:
        examples = ", ".join(f"message {number} in {seen.messages[number]}" for number in wrong[:_SHOWN])
        found.append(f"{len(wrong)} messages are not in as many windows as they were sent: {examples}")
    if seen.strays:
        found.append(f"{seen.strays} messages in windows were sent by nobody")
    for what, count in (("deltas", seen.deltas), ("events", seen.events)):
        if archived.get(what) != count:
            found.append(f"the archive has {archived.get(what, 0)} {what}, the topic {count}")
    return found


def _expected(messages: Sequence[Message]) -> Counter[int]:
    return Counter(message.number for message in messages)


def _wrong(messages: Sequence[Message], seen: Seen) -> list[int]:
    """Return the numbers of messages that are not in as many windows as they were sent times."""
    expected = _expected(messages)
    return sorted(
        number for number in expected.keys() | seen.messages.keys() if expected[number] != seen.messages[number]
    )


def lane_latencies(latencies: Sequence[Latency], since: float) -> tuple[LaneLatency, ...]:
    """Return the latencies of each lane, by name, of what ended at that time or later."""
    counted = [latency for latency in latencies if latency.at >= since]
    return tuple(_of_lane(lane, counted) for lane in sorted({latency.lane for latency in counted}))


def _of_lane(lane: str, latencies: Sequence[Latency]) -> LaneLatency:
    own = [latency for latency in latencies if latency.lane == lane]
    all_of_it, added = Percentiles.of(one.seconds for one in own), Percentiles.of(one.added for one in own)
    assert all_of_it is not None
    assert added is not None
    return LaneLatency(lane=lane, total=all_of_it, added=added)


def _model_use(plan: Plan, seen: Seen, in_flight: int, steady: Steady) -> ModelUse | None:
    if plan.model is None or not seen.events:
        return None
    in_flight_on_average = steady.requests * plan.model.latency.mean
    share = in_flight_on_average / (in_flight * plan.workers)
    return ModelUse(
        calls=dict(seen.calls),
        requests=seen.requests,
        calls_per_flush=round(sum(seen.calls.values()) / seen.events, 3),
        requests_per_second=round(steady.requests, 1),
        ideal=round(steady.flushes / share, 1) if share else 0.0,
        share=round(share, 3),
    )


class Steady(NamedTuple):
    """Flushes that ended a second, and the requests that these had cost, without the first and the last fifth."""

    flushes: float
    requests: float

    @classmethod
    def of(cls, ends: Iterable[End]) -> Self:
        """Return the rates of all ends of a run."""
        ordered = sorted(ends)
        first, last = (round(share * (len(ordered) - 1)) for share in _STEADY) if ordered else (0, 0)
        span = ordered[last].at - ordered[first].at if ordered else 0.0
        if span <= 0:
            return cls(0.0, 0.0)
        return cls((last - first) / span, sum(end.requests for end in ordered[first + 1 : last + 1]) / span)


def _moments(
    samples: Sequence[Sample], latencies: Sequence[Latency], ends: Sequence[End], began: float
) -> tuple[Moment, ...]:
    by_second: dict[int, list[float]] = {}
    for latency in latencies:
        by_second.setdefault(int(latency.at - began), []).append(latency.added)
    ended = Counter(int(end.at - began) for end in ends)
    found: list[Moment] = []
    before = samples[0]
    for sample in samples[1:]:
        span = sample.at - before.at
        if span < _SHORTEST:
            continue
        taken = [now.workers.consumed.get("window", 0.0) for now in (before, sample)]
        seconds = range(int(before.at), max(int(sample.at), int(before.at) + 1))
        added = Percentiles.of(one for second in seconds for one in by_second.get(second, ()))
        found.append(
            Moment(
                at=round(sample.at, 2),
                sent=round((sample.sent - before.sent) / span, 1),
                consumed=round((taken[1] - taken[0]) / span, 1),
                flushes=round(sum(ended[second] for second in seconds) / len(seconds), 1),
                lag=max(0.0, sample.sent - taken[1]),
                windowed=sample.workers.window_messages,
                running={stage: count for stage, count in sample.workers.running.items() if stage != "window"},
                rss=tuple(round(rss / 2**20, 1) for rss in sample.rss),
                p50=added.p50 if added else None,
                p99=added.p99 if added else None,
            )
        )
        before = sample
    return tuple(found)
