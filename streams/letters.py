"""`Letters`: what the records of the dead-letter topic come to: letters, and what was decided about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, Protocol

import msgspec

from schemas.codec import InvalidRecord, decode
from schemas.dead_letters import (
    HEADER_PREFIX,
    LETTER_HEADERS,
    NULL_HEADER,
    OMITTED_HEADER,
    TIMESTAMP_HEADER,
    DeadLetterReason,
    Resolution,
    taken_back,
)
from schemas.ids import letter_id
from schemas.messages import DEFAULT_TENANT, split_user_key

_DIGITS: Final = 18

State = Literal["open", "redriven", "discarded", "forgotten"]
User = tuple[str, str]
"""Tenant and user."""


class Stored(Protocol):
    """A record of the topic, as `streams.tail` yields it; `timestamp` in milliseconds since the epoch."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]]


class Content(NamedTuple):
    """The record that was parked.

    Attributes:
        key: as it came, like the next two.
        value: likewise; empty where there is none.
        headers: its own ones.
        timestamp: its Kafka timestamp when it was written first, in milliseconds since the epoch.
        missing: why it is not in the letter, or None.
    """

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp: int
    missing: str | None


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter without the record in it.

    Attributes:
        letter_id: its id; a record that was parked twice is one letter.
        why: where it came from and why.
        key: the record's key.
        user: whose record it is, as far as it says so.
        offset: where it lies on the dead-letter topic, in the partition of the record's own number.
        resolution: what was decided about it last, if anything.
    """

    letter_id: str
    why: DeadLetterReason
    key: bytes | None
    user: User | None
    offset: int
    resolution: Resolution | None = None

    @property
    def state(self) -> State:
        """What has become of it."""
        if self.resolution is None or self.resolution.decision == "redriving":
            return "open"
        return self.resolution.decision

    @property
    def sent_from(self) -> int | None:
        """From where on its record may be found where it was being sent to, by a redrive that was cut short."""
        return self.resolution.sent_from if self.resolution is not None else None


class Letters:
    """Takes in the records of the topic, those of a partition in their order, and says what they come to.

    Args:
        log_id: name of the message log.

    Attributes:
        unreadable: places of the records that are neither letters nor decisions, with the reason.
    """

    def __init__(self, log_id: str) -> None:
        self.unreadable: list[tuple[int, int, str]] = []
        self._log_id = log_id
        self._letters: dict[str, Letter] = {}
        self._resolutions: dict[str, Resolution] = {}

    def add(self, record: Stored) -> None:
        """Take in a record."""
        try:
            entry = read_entry(record, self._log_id)
        except InvalidRecord as error:
            self.unreadable.append((record.partition, record.offset, str(error)))
            return
        if isinstance(entry, Letter):
            self._letters.setdefault(entry.letter_id, entry)
        else:
            self._resolve(entry)

    def _resolve(self, resolution: Resolution) -> None:
        """Keep the first decision, until it is carried out; that a user is forgotten stands above all."""
        known = self._resolutions.get(resolution.letter_id)
        carried_out = known is not None and known.decision == "redriving" != resolution.decision
        if known is None or carried_out or resolution.decision == "forgotten":
            self._resolutions[resolution.letter_id] = resolution

    def all(self) -> list[Letter]:
        """Return every letter with what was decided about it, the one that failed first at the beginning."""
        letters = (replace(letter, resolution=self._resolutions.get(id_)) for id_, letter in self._letters.items())
        return sorted(letters, key=lambda letter: (letter.why.failed_at, letter.why.partition, letter.offset))


def read_entry(record: Stored, log_id: str) -> Letter | Resolution:
    """Read a record of the topic.

    Raises:
        InvalidRecord: when it is neither letter nor decision; the message says which header is missing or wrong.
    """
    try:
        resolution = Resolution.from_headers(record.headers)
        if resolution is not None:
            return resolution
        why = DeadLetterReason.from_headers(record.headers)
    except KeyError as error:
        raise InvalidRecord(f"it has no header {HEADER_PREFIX}{str(error.args[0]).replace('_', '-')}") from error
    except ValueError as error:
        raise InvalidRecord(str(error)) from error
    return Letter(
        letter_id=letter_id(why.log_id or log_id, why.topic, why.partition, why.offset, why.stage),
        why=why,
        key=record.key,
        user=_user_of(record, why),
        offset=record.offset,
    )


def read_content(record: Stored) -> Content:
    """Read the record that was parked as a letter."""
    found = dict(record.headers)
    missing = None
    if OMITTED_HEADER in found:
        missing = f"its {found[OMITTED_HEADER].decode(errors='replace')} bytes were more than the broker takes"
    elif NULL_HEADER in found:
        missing = "it had neither key nor value"
    own = [(taken_back(name), value) for name, value in record.headers if name not in LETTER_HEADERS]
    first = first_timestamp(record.headers)
    return Content(record.key, record.value, own, record.timestamp if first is None else first, missing)


def first_timestamp(headers: Iterable[tuple[str, bytes | None]]) -> int | None:
    """Return when a record was written first, in milliseconds since the epoch, where its headers say so."""
    value = dict(headers).get(TIMESTAMP_HEADER) or b""
    # For any client to write: what is no number of Kafka's says nothing.
    return int(value) if value.isdigit() and len(value) <= _DIGITS else None


class _Named(msgspec.Struct):
    user_id: str
    tenant_id: str = DEFAULT_TENANT


def _user_of(record: Stored, why: DeadLetterReason) -> User | None:
    """Return whose record it is: a chat message says so itself, whatever key it was published under."""
    if why.stage == "window":
        try:
            named = decode(record.value, _Named)
        except InvalidRecord:
            pass
        else:
            return named.tenant_id, named.user_id
    try:
        return split_user_key(record.key or b"")
    except InvalidRecord:
        return None
