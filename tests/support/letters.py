"""Records of the dead-letter topic, made by hand."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from schemas.dead_letters import DeadLetterReason, Decision, Resolution
from schemas.ids import letter_id
from schemas.stages import StageName
from streams.letters import Letters
from tests.support.fakes import TOPICS
from tests.support.records import KEY

LOG = "log"
FAILED = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SOURCES: dict[str, str] = {
    "window": TOPICS.messages,
    "summary": TOPICS.flushes,
    "domain": TOPICS.flushes,
    "facts": TOPICS.flushes,
    "facts_half": TOPICS.flushes,
    "preferences_half": TOPICS.flushes,
    "extract": TOPICS.memos,
    "tag": TOPICS.memos,
    "merge": TOPICS.candidates,
    "archive": TOPICS.events,
    "index": TOPICS.deltas,
}
"""The topic that each stage reads."""


@dataclass
class StoredRecord:
    """A record on the dead-letter topic."""

    headers: list[tuple[str, bytes]]
    key: bytes | None = KEY
    value: bytes | None = b"{}"
    partition: int = 0
    offset: int = 0
    timestamp: int = 1_000


def why(stage: StageName = "window", offset: int = 0, **changes) -> DeadLetterReason:
    """Return why the record at an offset of the topic that a stage reads could not be processed."""
    values = {
        "stage": stage,
        "reason": "invalid_record",
        "detail": "it is wrong",
        "topic": SOURCES[stage],
        "partition": 0,
        "offset": offset,
        "attempts": 1,
        "failed_at": FAILED,
    }
    return DeadLetterReason(**(values | changes))


def parked(reason: DeadLetterReason, *headers: tuple[str, bytes], **changes) -> StoredRecord:
    """Return a letter as it lies on the topic."""
    return StoredRecord([*headers, *reason.headers()], **{"partition": reason.partition, **changes})


def id_of(reason: DeadLetterReason) -> str:
    """Return the id of a letter."""
    return letter_id(LOG, reason.topic, reason.partition, reason.offset, reason.stage)


def decided(reason: DeadLetterReason, decision: Decision, **changes) -> StoredRecord:
    """Return a decision about a letter as it lies on the topic."""
    values = {"letter_id": id_of(reason), "decision": decision, "reason": "tried", "resolved_at": FAILED}
    return StoredRecord(Resolution(**(values | changes)).headers(), value=b"", partition=reason.partition)


def read(*records: StoredRecord) -> Letters:
    """Return what records come to."""
    letters = Letters(LOG)
    for record in records:
        letters.add(record)
    return letters
