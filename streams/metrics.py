"""What a worker counts and measures, in Prometheus' form; `docs/metrics.md` says what each means.

Names follow OpenTelemetry's conventions for messaging and generative AI where there is one, with the prefix
``profilestream_``. No label holds a user, a tenant or anything that they wrote.

Counting is done where a batch, a flush or a delta passes, never for each message. What was sent or written again after
a restart is counted again: delivery is at least once, and so are the counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, PlatformCollector, ProcessCollector

from schemas.deltas import FlushEvent, ProfileDelta
from schemas.flushes import FlushRef

PREFIX: Final = "profilestream"

REGISTRY: Final = CollectorRegistry(auto_describe=True)
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

_counter: Final = partial(Counter, namespace=PREFIX, registry=REGISTRY)
_histogram: Final = partial(Histogram, namespace=PREFIX, registry=REGISTRY)

_STAGE_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_LAG_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400)
_MODEL_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160)
_TOKENS: Final = tuple(4**power for power in range(1, 11))

FLUSHES_SENT: Final = _counter(
    "flushes_sent",
    "Flush batches sent, by lane and by what closed them.",
    ["lane", "trigger"],
)
FLUSHES_ENDED: Final = _counter(
    "flushes_ended",
    "Flushes whose end is archived, by outcome.",
    ["lane", "outcome"],
)
STAGE_DURATION: Final = _histogram(
    "stage_duration_seconds",
    "How long a stage worked on a flush, its waits for a model included.",
    ["stage"],
    buckets=_STAGE_SECONDS,
)
FLUSH_DURATION: Final = _histogram(
    "flush_duration_seconds",
    "From the close of a flush's window to the archived end.",
    ["lane"],
    buckets=_LAG_SECONDS,
)
END_TO_END_LAG: Final = _histogram(
    "end_to_end_lag_seconds",
    "From the newest message of a flush being written to the archived end.",
    ["lane"],
    buckets=_LAG_SECONDS,
)
MODEL_DURATION: Final = _histogram(
    "gen_ai_client_operation_duration_seconds",
    "Duration of model calls, their repeats included.",
    ["stage", "gen_ai_request_model", "outcome"],
    buckets=_MODEL_SECONDS,
)
MODEL_TOKENS: Final = _histogram(
    "gen_ai_client_token_usage",
    "Tokens of model calls, as the server counted them.",
    ["stage", "gen_ai_request_model", "gen_ai_token_type"],
    buckets=_TOKENS,
)
MODEL_REQUESTS: Final = _counter(
    "gen_ai_client_requests",
    "Requests sent for model calls: more than calls where some were repeated.",
    ["stage", "gen_ai_request_model"],
)
DELTAS: Final = _counter("deltas", "Profile deltas sent, by what changed and how.", ["kind", "op"])
DROPPED: Final = _counter(
    "dropped",
    "What a processor gave that could not be used.",
    ["stage", "reason"],
)
BRANCH_ERRORS: Final = _counter(
    "branch_errors",
    "Flushes that ended without the answer of a branch.",
    ["branch"],
)
DUPLICATES: Final = _counter(
    "duplicates_suppressed",
    "Records that had been dealt with before and changed nothing.",
    ["stage"],
)
RETRIES: Final = _counter(
    "retries",
    "Tries that failed and are made again; cause: the record, or a service that does not answer.",
    ["stage", "cause"],
)
DEAD_LETTERS: Final = _counter("dead_letters", "Records parked in the dead letters.", ["stage", "reason"])
ROWS_ARCHIVED: Final = _counter("archive_rows", "Rows that ClickHouse has taken.", ["table"])
DELTAS_INDEXED: Final = _counter("vector_deltas", "Deltas whose points Qdrant has taken.")


def flush_sent(ref: FlushRef) -> None:
    """Count a flush batch that was sent."""
    FLUSHES_SENT.labels(ref.lane, ref.trigger).inc()


def deltas_sent(deltas: Iterable[ProfileDelta]) -> None:
    """Count deltas that were sent."""
    for delta in deltas:
        DELTAS.labels(delta.kind, delta.op).inc()


def deltas_archived(deltas: Sequence[ProfileDelta]) -> None:
    """Count deltas that are in the archive."""
    ROWS_ARCHIVED.labels("profile_deltas").inc(len(deltas))


def deltas_indexed(deltas: Sequence[ProfileDelta]) -> None:
    """Count deltas that are in the vector index."""
    DELTAS_INDEXED.inc(len(deltas))


def flushes_ended(events: Sequence[FlushEvent], now: datetime) -> None:
    """Count and measure flushes whose events are in the archive at `now`."""
    ROWS_ARCHIVED.labels("flush_events").inc(len(events))
    for event in events:
        _flush_ended(event, now)


def _flush_ended(event: FlushEvent, now: datetime) -> None:
    ref = event.flush
    FLUSHES_ENDED.labels(ref.lane, event.outcome).inc()
    FLUSH_DURATION.labels(ref.lane).observe(max(0.0, (now - ref.closed_at).total_seconds()))
    END_TO_END_LAG.labels(ref.lane).observe(max(0.0, (now - ref.last_occurred_at).total_seconds()))
    for stage in event.timings.__struct_fields__:
        milliseconds = getattr(event.timings, stage)
        if milliseconds:
            STAGE_DURATION.labels(stage).observe(milliseconds / 1000)
    for call in event.calls:
        MODEL_DURATION.labels(call.stage, call.model, call.outcome).observe(call.duration_ms / 1000)
        MODEL_REQUESTS.labels(call.stage, call.model).inc(call.attempts)
        MODEL_TOKENS.labels(call.stage, call.model, "input").observe(call.prompt_tokens)
        MODEL_TOKENS.labels(call.stage, call.model, "output").observe(call.completion_tokens)
    for dropped in event.dropped:
        DROPPED.labels(dropped.stage, dropped.reason).inc()
    for branch in event.errors:
        BRANCH_ERRORS.labels(branch).inc()
