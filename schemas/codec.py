"""Bytes of a record and back: JSON, validated while it is decoded."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

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
        raise InvalidRecord(str(error)) from error
    return record
