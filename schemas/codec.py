"""Bytes of a record and back: JSON, validated while it is decoded."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")

_QUOTED: Final = 200

_encoder = msgspec.json.Encoder()
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


class InvalidRecord(ValueError):
    """Bytes that are not the record they should be; the message says which field is wrong and why."""


def encode(record: object) -> bytes:
    """Encode a record as UTF-8 JSON; the same record always gives the same bytes."""
    return _encoder.encode(record)


def decode(data: bytes | None, record_type: type[T]) -> T:
    """Decode and validate JSON bytes.

    Raises:
        InvalidRecord: for null values, bytes that are not UTF-8 or not JSON, missing fields and wrong types.
    """
    if data is None:
        raise InvalidRecord("the value is null")
    decoder = _decoders.get(record_type)
    if decoder is None:
        decoder = _decoders[record_type] = msgspec.json.Decoder(record_type)
    try:
        record: T = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRecord(_problem(data, error)) from error
    return record


def _problem(data: bytes, error: Exception) -> str:
    if not data.strip():
        return "it is empty, where JSON should be"
    told = str(error)
    return "the JSON ends before it is complete" if told == "Input data was truncated" else _shortened(told)


def _shortened(problem: str) -> str:
    """Return what is wrong without the middle of what it quotes, which may be as long as the record."""
    return problem if len(problem) <= 2 * _QUOTED else f"{problem[:_QUOTED]} … {problem[-_QUOTED:]}"
