"""Headers of the dead-letter topic: where a letter came from and why, and what was decided about it.

A letter is a record as it came, its key, value and own headers untouched, with the headers of `DeadLetterReason`. An
own header that has the name of one of those, such as ``profilestream-stage``, is ``profilestream-own-stage`` there. A
decision is a record without a value under the same key in the same partition, with the headers of `Resolution`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Literal, get_args

import msgspec

from schemas.places import Place
from schemas.stages import StageName

HEADER_PREFIX: Final = "profilestream-"
_DETAIL_LIMIT: Final = 1_000

OMITTED_HEADER: Final = HEADER_PREFIX + "omitted"
"""On a dead letter without its record, because that is too large to be sent: the size of its value in bytes."""

NULL_HEADER: Final = HEADER_PREFIX + "null"
"""On a dead letter with an empty value: what of the record was null."""

TIMESTAMP_HEADER: Final = HEADER_PREFIX + "timestamp"
"""On a dead letter, and on a chat message that is sent again: when the record was written first, in milliseconds since
the epoch. A topic may give it a timestamp of its own."""

REDRIVE_HEADER: Final = HEADER_PREFIX + "redrive-of"
"""On a record that was sent again: the id of its letter."""

LOG_ID_HEADER: Final = HEADER_PREFIX + "log-id"
"""On a dead letter that was carried to another message log: the name of the one that its record was on."""

_OWN_PREFIX: Final = HEADER_PREFIX + "own-"
"""On a dead letter: begins the names of the record's own headers that have the name of a letter's."""

Decision = Literal["redriving", "redriven", "discarded", "forgotten"]
"""What was decided about a letter.

``redriving``: it is about to be sent again; it counts as open until that is done. ``redriven``: it was sent again.
``discarded``: it is not to be. ``forgotten``: its user is.
"""

Headers = list[tuple[str, bytes]]


class DeadLetterReason(msgspec.Struct, frozen=True, kw_only=True):
    """Where a record failed and why.

    Attributes:
        stage: the stage that could not process it.
        reason: a short code, for counting (``invalid_record``, ``model_unavailable``, ...).
        detail: one sentence for people.
        topic: the topic that the record was read from.
        partition: its partition.
        offset: its offset.
        attempts: how often it was tried.
        failed_at: when it was given up, by the worker's clock.
        log_id: name of the message log that the record was read from, where the letter lies on another by now.
    """

    stage: StageName
    reason: str
    detail: str
    topic: str
    partition: int
    offset: int
    attempts: int
    failed_at: datetime
    log_id: str | None = None

    def headers(self) -> Headers:
        """Return the Kafka headers that carry this reason."""
        values = {
            "stage": self.stage,
            "reason": self.reason,
            "detail": self.detail[:_DETAIL_LIMIT],
            "topic": self.topic,
            "partition": str(self.partition),
            "offset": str(self.offset),
            "attempts": str(self.attempts),
            "failed-at": self.failed_at.astimezone(UTC).isoformat(),
        }
        carried = [] if self.log_id is None else [(LOG_ID_HEADER, self.log_id.encode())]
        return [*_headers(values), *carried]

    @classmethod
    def from_headers(cls, headers: Iterable[tuple[str, bytes]]) -> DeadLetterReason:
        """Read the reason back.

        Raises:
            KeyError: when one of the headers is missing.
            ValueError: when one of them is malformed.
        """
        found = _read(headers, _REASON_FIELDS)
        stage = next((name for name in get_args(StageName) if name == found["stage"]), None)
        if stage is None:
            raise ValueError(f"{found['stage']!r} is no stage")
        return cls(
            stage=stage,
            reason=found["reason"],
            detail=found["detail"],
            topic=found["topic"],
            partition=int(found["partition"]),
            offset=int(found["offset"]),
            attempts=int(found["attempts"]),
            failed_at=_moment(found["failed_at"]),
            log_id=found.get("log_id"),
        )


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided about a dead letter.

    Attributes:
        letter_id: the letter's id (`schemas.ids.letter_id`).
        decision: what was decided.
        reason: why, for people.
        resolved_at: when, by the clock of whoever decided.
        sent_from: of ``redriving``: the end of the partition that the record is sent to, before it was sent: from there
            on it is found if it has been.
    """

    letter_id: str
    decision: Decision
    reason: str
    resolved_at: datetime
    sent_from: int | None = None

    def headers(self) -> Headers:
        """Return the Kafka headers that carry this decision."""
        values = {
            "resolves": self.letter_id,
            "resolution": self.decision,
            "reason": self.reason[:_DETAIL_LIMIT],
            "resolved-at": self.resolved_at.astimezone(UTC).isoformat(),
        }
        return _headers(values if self.sent_from is None else values | {"sent-from": str(self.sent_from)})

    @classmethod
    def from_headers(cls, headers: Iterable[tuple[str, bytes]]) -> Resolution | None:
        """Read a decision back; None where the headers are those of a letter, whatever else they hold.

        Raises:
            KeyError: when one of the headers is missing.
            ValueError: when one of them is malformed.
        """
        items = list(headers)
        names = {name for name, _ in items}
        if HEADER_PREFIX + "resolves" not in names or HEADER_PREFIX + "stage" in names:
            return None
        found = _read(items, _RESOLUTION_FIELDS)
        decision = next((name for name in get_args(Decision) if name == found["resolution"]), None)
        if decision is None:
            raise ValueError(f"{found['resolution']!r} is no decision")
        return cls(
            letter_id=found["resolves"],
            decision=decision,
            reason=found["reason"],
            resolved_at=_moment(found["resolved_at"]),
            sent_from=int(found["sent_from"]) if "sent_from" in found else None,
        )


class ArchivedLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter as it is archived: without its record.

    Attributes:
        letter_id: its id (`schemas.ids.letter_id`).
        tenant_id: of the user whose record it is; empty where it says of nobody.
        user_id: likewise.
        why: where the record was read from and why it failed.
        place: where the letter lies.
    """

    letter_id: str
    tenant_id: str
    user_id: str
    why: DeadLetterReason
    place: Place


class ArchivedDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision about a dead letter as it is archived.

    Attributes:
        resolution: what was decided.
        place: where it lies.
    """

    resolution: Resolution
    place: Place


_REASON_FIELDS: Final = frozenset(DeadLetterReason.__struct_fields__)
_RESOLUTION_FIELDS: Final = frozenset({"resolves", "resolution", "reason", "resolved_at", "sent_from"})

LETTER_HEADERS: Final = frozenset(
    {HEADER_PREFIX + field.replace("_", "-") for field in _REASON_FIELDS}
    | {OMITTED_HEADER, NULL_HEADER, TIMESTAMP_HEADER}
)
"""Names of the headers that make a record a letter."""


def put_aside(name: str) -> str:
    """Return the name that a record's own header has in a letter."""
    taken = name in LETTER_HEADERS or name.startswith(_OWN_PREFIX)
    return _OWN_PREFIX + name.removeprefix(HEADER_PREFIX) if taken else name


def taken_back(name: str) -> str:
    """Return the name that a header of a letter had in the record."""
    return HEADER_PREFIX + name.removeprefix(_OWN_PREFIX) if name.startswith(_OWN_PREFIX) else name


def _headers(values: dict[str, str]) -> Headers:
    # A detail may quote what is no text, such as half of a surrogate pair.
    return [(HEADER_PREFIX + name, value.encode(errors="backslashreplace")) for name, value in values.items()]


def _read(headers: Iterable[tuple[str, bytes]], fields: frozenset[str]) -> dict[str, str]:
    named = {
        name.removeprefix(HEADER_PREFIX).replace("-", "_"): value
        for name, value in headers
        if name.startswith(HEADER_PREFIX)
    }
    return {name: (named[name] or b"").decode() for name in fields & named.keys()}


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset from UTC")
    return moment
