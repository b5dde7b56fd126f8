"""What is counted, by value; and that the documentation and the dashboard speak of metrics that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Metric

from schemas.deltas import Timings
from schemas.stages import Dropped, ModelCall
from streams import metrics
from streams.gauges import WorkerCollector
from streams.ledger import Ledger
from streams.records import TopicPartition
from streams.windows import WindowPolicy, Windows
from tests.integration.clickhouse_records import make_delta, make_event
from tests.support.fakes import FakeSource

ROOT = Path(__file__).parents[3]
DASHBOARD = ROOT / "deploy" / "grafana" / "dashboards" / "profilestream.json"


def value(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(f"profilestream_{name}", labels) or 0.0


class Change:
    """By how much metrics rise from when this is made."""

    def __init__(self, *samples: tuple[str, dict[str, str]]) -> None:
        self._samples = samples
        self._before = self._now()

    def _now(self) -> list[float]:
        return [value(name, **labels) for name, labels in self._samples]

    def __call__(self) -> list[float]:
        return [round(now - before, 6) for now, before in zip(self._now(), self._before, strict=True)]


def test_the_end_of_a_flush_is_counted_with_all_that_it_tells() -> None:
    model = {"stage": "summary", "gen_ai_request_model": "small"}
    change = Change(
        ("flushes_ended_total", {"lane": "memo", "outcome": "failed"}),
        ("archive_rows_total", {"table": "flush_events"}),
        ("flush_duration_seconds_sum", {"lane": "memo"}),
        ("end_to_end_lag_seconds_sum", {"lane": "memo"}),
        ("stage_duration_seconds_sum", {"stage": "summary"}),
        ("stage_duration_seconds_count", {"stage": "domain"}),
        ("gen_ai_client_operation_duration_seconds_sum", {**model, "outcome": "timeout"}),
        ("gen_ai_client_requests_total", model),
        ("gen_ai_client_token_usage_sum", {**model, "gen_ai_token_type": "input"}),
        ("gen_ai_client_token_usage_sum", {**model, "gen_ai_token_type": "output"}),
        ("dropped_total", {"stage": "extract", "reason": "no_evidence"}),
        ("branch_errors_total", {"branch": "tag"}),
    )
    ended = make_event(
        outcome="failed",
        calls=(
            ModelCall(
                stage="summary",
                model="small",
                outcome="timeout",
                prompt_tokens=70,
                completion_tokens=7,
                attempts=3,
                duration_ms=1500.0,
            ),
        ),
        dropped=(Dropped(stage="extract", reason="no_evidence", detail="x"),),
        errors={"tag": "timeout"},
        timings=Timings(summary=250.0),
    )
    now = ended.flush.closed_at + timedelta(seconds=4)
    metrics.flushes_ended([ended], now)
    lag = (now - ended.flush.last_occurred_at).total_seconds()
    assert change() == [1, 1, 4.0, lag, 0.25, 0, 1.5, 3, 70, 7, 1, 1]


def test_a_clock_that_is_behind_makes_no_negative_time() -> None:
    ended = make_event()
    change = Change(
        ("flush_duration_seconds_sum", {"lane": "memo"}), ("flush_duration_seconds_count", {"lane": "memo"})
    )
    metrics.flushes_ended([ended], ended.flush.closed_at - timedelta(seconds=1))
    assert change() == [0.0, 1]


def test_deltas_and_flushes_are_counted_by_what_they_are() -> None:
    change = Change(
        ("deltas_total", {"kind": "slot", "op": "update"}),
        ("archive_rows_total", {"table": "profile_deltas"}),
        ("vector_deltas_total", {}),
        ("flushes_sent_total", {"lane": "memo", "trigger": "idle"}),
    )
    deltas = [make_delta(1), make_delta(2)]
    metrics.deltas_sent(deltas)
    metrics.deltas_archived(deltas)
    metrics.deltas_indexed(deltas[:1])
    metrics.flush_sent(make_event().flush)
    assert change() == [2, 2, 1, 1]


@dataclass
class FakeStage:
    ledger: Ledger
    running: int = 0
    windows: Windows[int] = field(default_factory=lambda: Windows(WindowPolicy()))
    signalled: int = 3
    spared: int = 5
    moved: int = 1


def collected(collector: WorkerCollector) -> dict[tuple[str, tuple[str, ...]], float]:
    registry = CollectorRegistry()
    registry.register(collector)
    return {
        (sample.name.removeprefix("profilestream_"), tuple(sample.labels.values())): sample.value
        for metric in registry.collect()
        for sample in metric.samples
    }


def test_the_state_of_a_worker_is_read_when_it_is_asked_for() -> None:
    source = FakeSource()
    window, merge = FakeStage(Ledger()), FakeStage(Ledger(), running=1)
    entries = [window.ledger.open(source.event(offset, topic="chat")) for offset in range(4)]
    for entry in entries[:2]:
        window.ledger.close(entry)
    merge.ledger.open(source.event(7, topic="candidates", partition=1))
    for number, key in enumerate((b"default:a", b"default:b")):
        window.windows.add(key, number, tokens=5, session=None, now=100.0 + number, partition=number)
    window.windows.add(b"default:a", 2, tokens=5, session=None, now=109.0)
    ends: dict[TopicPartition, int | None] = {TopicPartition("chat", 0): 10, TopicPartition("candidates", 1): None}
    highwater = {"window": ends.get, "merge": ends.get}
    found = collected(WorkerCollector(window, {"merge": merge}, highwater, 2, lambda: 110.0))
    assert found == {
        ("messaging_client_consumed_messages_total", ("window",)): 4,
        ("messaging_client_consumed_messages_total", ("merge",)): 1,
        ("open_records", ("window",)): 2,
        ("open_records", ("merge",)): 1,
        ("running_records", ("window",)): 0,
        ("running_records", ("merge",)): 1,
        # The end of a partition that nothing was fetched from is not known.
        ("messaging_consumer_lag", ("window", "chat", "0")): 8,
        ("open_windows", ()): 2,
        ("window_messages", ()): 3,
        ("oldest_window_age_seconds", ()): 10.0,
        ("signal_messages_total", ("yes",)): 3,
        ("signal_messages_total", ("no",)): 5,
        ("moved_messages_total", ()): 1,
    }


def all_metrics() -> Iterator[Metric]:
    stage = FakeStage(Ledger())
    yield from metrics.REGISTRY.collect()
    yield from WorkerCollector(stage, {}, {"window": lambda _place: 0}, 1).collect()


def test_every_metric_is_documented_with_its_kind() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", text, re.MULTILINE))
    assert rows == {
        metric.name + ("_total" if metric.type == "counter" else ""): metric.type
        for metric in all_metrics()
        if metric.name.startswith("profilestream_")
    }


def test_no_label_names_a_user_or_a_tenant() -> None:
    labels = {label for metric in all_metrics() for sample in metric.samples for label in sample.labels}
    assert not {label for label in labels if "user" in label or "tenant" in label}


def queries() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


@pytest.mark.parametrize("query", queries())
def test_the_dashboard_asks_for_metrics_that_exist(query: str) -> None:
    known = {
        metric.name + suffix
        for metric in all_metrics()
        for suffix in {
            "counter": ["_total"],
            "histogram": ["_bucket", "_sum", "_count"],
        }.get(metric.type, [""])
    }
    asked = set(re.findall(r"\b(?:profilestream|process)_\w+", query))
    assert asked
    assert asked <= known
