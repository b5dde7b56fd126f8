"""How records become rows and rows records; the names and types are those of ``migrations/``.

Times are written as whole microseconds since 1970, which is what ``DateTime64(6)`` holds: no float rounds them, and
any year that a record may carry comes back as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec

from schemas.dead_letters import ArchivedDecision, ArchivedLetter
from schemas.deltas import FactDetail, FlushEvent, PreferenceDetail, ProfileDelta
from schemas.flushes import FlushRef
from schemas.places import Place

T = TypeVar("T")

TEXT: Final = "String"
WORD: Final = "LowCardinality(String)"
TIME: Final = "DateTime64(6, 'UTC')"
MAYBE_TEXT: Final = "Nullable(String)"
MAYBE_SHARE: Final = "Nullable(Float64)"

PLACE_COLUMNS: Final = {"kafka_topic": WORD, "kafka_partition": "Int32", "kafka_offset": "Int64"}
"""The columns that say where a row's record lies, with their types; in the order of `schemas.places.Place`."""

_FIRST_TIMINGS: Final = attrgetter("window", "summary", "extract", "tag", "merge")  # the others have columns
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column: its name, its ClickHouse type, and its value for a record."""

    name: str
    type: str
    value: Callable[[T], Any]


@dataclass(frozen=True)
class Table(Generic[T]):
    """A table that holds one kind of record, a row each."""

    name: str
    columns: tuple[Column[T], ...]
    record: Callable[[Mapping[str, Any]], T]
    """Builds the record of a row; raises ``msgspec.ValidationError`` when the row is none."""

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return [column.name for column in self.columns]

    @property
    def types(self) -> list[str]:
        """The columns' ClickHouse types."""
        return [column.type for column in self.columns]

    @property
    def select_list(self) -> str:
        """The columns for a SELECT, quoted."""
        return ", ".join(f"`{name}`" for name in self.names)

    def values(self, records: Sequence[T]) -> list[list[Any]]:
        """Return the records' values, column by column."""
        return [[column.value(record) for record in records] for column in self.columns]

    def records(self, rows: Iterable[Sequence[Any]]) -> list[T]:
        """Return the records of rows that hold all columns in their order.

        Raises:
            msgspec.ValidationError: when a row does not hold such a record.
        """
        names = self.names
        return [self.record(dict(zip(names, row, strict=True))) for row in rows]


def ticks(moment: datetime) -> int:
    """Return the microseconds from 1970 to a moment, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def _field(name: str, type_: str, path: str = "") -> Column[Any]:
    get = attrgetter(path or name)
    if type_ == TIME:
        return Column(name, type_, lambda record: ticks(get(record)))
    return Column(name, type_, get)


def _detail(part: str, name: str, type_: str, absent: object = None) -> Column[ProfileDelta]:
    """A field of the part of a delta that only some kinds have, `absent` for the others."""

    def value(delta: ProfileDelta) -> Any:
        detail = getattr(delta, part)
        return absent if detail is None else getattr(detail, name)

    return Column(name, type_, value)


def _delta(row: Mapping[str, Any]) -> ProfileDelta:
    fact = _part(row, FactDetail) if row["confidence"] is not None else None
    preference = _part(row, PreferenceDetail) if row["strength"] is not None else None
    return msgspec.convert({**row, "fact": fact, "preference": preference}, ProfileDelta)


def _event(row: Mapping[str, Any]) -> FlushEvent:
    timings = {**row["timings"], "domain": row["domain_ms"], "facts": row["facts_ms"]}
    domain = {"facts": row["domain_facts"], "domain": row["domain_keywords"]} if row["domain_asked"] else None
    added = row["added"]
    if row["added_kinds"]:
        added = [{**each, "kind": kind} for each, kind in zip(added, row["added_kinds"], strict=True)]
    parts = {"flush": _part(row, FlushRef), "added": added, "timings": timings, "domain": domain}
    return msgspec.convert({**row, **parts}, FlushEvent)


def _ref(row: Mapping[str, Any]) -> FlushRef:
    return msgspec.convert(row, FlushRef)


def _part(row: Mapping[str, Any], of: type[msgspec.Struct]) -> dict[str, Any]:
    """Return those columns that are the fields of a part of the record."""
    return {name: row[name] for name in of.__struct_fields__}


DELTAS: Final[Table[ProfileDelta]] = Table(
    "profile_deltas",
    (
        _field("tenant_id", WORD),
        _field("user_id", TEXT),
        _field("version", "UInt64"),
        _field("delta_id", TEXT),
        _field("flush_id", TEXT),
        _field("index", "UInt32"),
        _field("kind", WORD),
        _field("op", WORD),
        _field("topic", WORD),
        _field("sub_topic", TEXT),
        _field("before", MAYBE_TEXT),
        _field("after", MAYBE_TEXT),
        _field("added", MAYBE_TEXT),
        _field("reason", TEXT),
        _field("evidence", "Array(String)"),
        _field("assertion", WORD),
        _field("update_hits", "UInt32"),
        _field("said_at", TIME),
        _field("recorded_at", TIME),
        _field("processor", WORD),
        _field("pipeline_version", WORD),
        _field("item_id", TEXT),
        _detail("fact", "confidence", MAYBE_SHARE),
        _detail("fact", "importance", MAYBE_SHARE),
        _detail("fact", "session_id", MAYBE_TEXT),
        _detail("fact", "replaced_by", MAYBE_TEXT),
        _detail("preference", "strength", MAYBE_SHARE),
        _detail("preference", "strength_before", MAYBE_SHARE),
        _detail("preference", "quotes", "Array(String)", ()),
    ),
    _delta,
)

EVENTS: Final[Table[FlushEvent]] = Table(
    "flush_events",
    (
        _field("tenant_id", WORD, "flush.tenant_id"),
        _field("user_id", TEXT, "flush.user_id"),
        _field("event_id", TEXT),
        _field("flush_id", TEXT, "flush.flush_id"),
        _field("lane", WORD, "flush.lane"),
        _field("log_id", WORD, "flush.log_id"),
        _field("partition", "Int32", "flush.partition"),
        _field("first_offset", "Int64", "flush.first_offset"),
        _field("last_offset", "Int64", "flush.last_offset"),
        _field("trigger", WORD, "flush.trigger"),
        _field("opened_at", TIME, "flush.opened_at"),
        _field("closed_at", TIME, "flush.closed_at"),
        _field("first_occurred_at", TIME, "flush.first_occurred_at"),
        _field("last_occurred_at", TIME, "flush.last_occurred_at"),
        _field("message_count", "UInt32", "flush.message_count"),
        _field("token_count", "UInt64", "flush.token_count"),
        _field("outcome", WORD),
        Column(
            "memo",
            "Array(Tuple(text String, evidence Array(String)))",
            lambda event: [(bullet.text, bullet.evidence) for bullet in event.memo],
        ),
        Column(
            "tags",
            "Array(Tuple(tag String, value String))",
            lambda event: [(tag.tag, tag.value) for tag in event.tags],
        ),
        Column(
            "messages",
            f"Array(Tuple(message_id String, role {WORD}, occurred_at {TIME}))",
            lambda event: [(each.message_id, each.role, ticks(each.occurred_at)) for each in event.messages],
        ),
        Column(
            "added",
            f"Array(Tuple(topic {WORD}, sub_topic {WORD}, value String))",
            lambda event: [(each.topic, each.sub_topic, each.value) for each in event.added],
        ),
        _field("delta_ids", "Array(String)"),
        _field("first_version", "Nullable(UInt64)"),
        _field("last_version", "Nullable(UInt64)"),
        Column(
            "calls",
            f"Array(Tuple(stage {WORD}, model {WORD}, outcome {WORD}, prompt_tokens UInt64, "
            f"completion_tokens UInt64, attempts UInt32, duration_ms Float64, prompt_version {WORD}))",
            lambda event: [msgspec.structs.astuple(call) for call in event.calls],
        ),
        Column(
            "dropped",
            f"Array(Tuple(stage {WORD}, reason {WORD}, detail String))",
            lambda event: [msgspec.structs.astuple(item) for item in event.dropped],
        ),
        _field("errors", "Map(String, String)"),
        Column(
            "timings",
            "Tuple(window Float64, summary Float64, extract Float64, tag Float64, merge Float64)",
            lambda event: _FIRST_TIMINGS(event.timings),
        ),
        _field("recorded_at", TIME),
        _field("processor", WORD),
        _field("pipeline_version", WORD),
        Column("added_kinds", f"Array({WORD})", lambda event: [each.kind for each in event.added]),
        Column("domain_asked", "Bool", lambda event: event.domain is not None),
        Column("domain_facts", "Array(String)", lambda event: event.domain.facts if event.domain else ()),
        Column("domain_keywords", "Array(String)", lambda event: event.domain.domain if event.domain else ()),
        _field("domain_ms", "Float64", "timings.domain"),
        _field("facts_ms", "Float64", "timings.facts"),
        _field("redrive", "UInt32", "flush.redrive"),
        _field("only", f"Array({WORD})", "flush.only"),
        _field("letters_of", f"Array({WORD})", "flush.letters_of"),
    ),
    _event,
)

_IN_REF: Final = frozenset(FlushRef.__struct_fields__)
REFS: Final[Table[FlushRef]] = Table(
    EVENTS.name, tuple(_field(each.name, each.type) for each in EVENTS.columns if each.name in _IN_REF), _ref
)
"""The headings in the table of events."""


def _no_record(_row: Mapping[str, Any]) -> Any:
    raise NotImplementedError("this table is read by queries only")


_PLACE: Final = tuple(
    _field(name, kind, f"place.{field}")
    for (name, kind), field in zip(PLACE_COLUMNS.items(), Place._fields, strict=True)
)

LETTERS: Final[Table[ArchivedLetter]] = Table(
    "dead_letters",
    (
        _field("tenant_id", WORD),
        _field("user_id", TEXT),
        _field("letter_id", TEXT),
        _field("stage", WORD, "why.stage"),
        _field("reason", WORD, "why.reason"),
        _field("detail", TEXT, "why.detail"),
        _field("topic", WORD, "why.topic"),
        _field("partition", "Int32", "why.partition"),
        _field("offset", "Int64", "why.offset"),
        _field("attempts", "UInt32", "why.attempts"),
        _field("failed_at", TIME, "why.failed_at"),
        *_PLACE,
    ),
    _no_record,
)

DECISIONS: Final[Table[ArchivedDecision]] = Table(
    "dead_letter_decisions",
    (
        _field("letter_id", TEXT, "resolution.letter_id"),
        _field("decided_at", TIME, "resolution.resolved_at"),
        _field("decision", WORD, "resolution.decision"),
        _field("reason", TEXT, "resolution.reason"),
        *_PLACE,
    ),
    _no_record,
)
