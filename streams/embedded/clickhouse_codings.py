"""Content codings of HTTP bodies: those that ClickHouse's clients ask for."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from typing import Any, Final

import lz4.frame

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

OFFERED: Final = ("zstd", "lz4", "gzip", "deflate")
"""Codings of answers, best first."""


def encoded(body: bytes, accepted: str) -> tuple[str, bytes]:
    """Return the best coding that an ``Accept-Encoding`` header allows, and the body in it."""
    allowed = set()
    for item in accepted.split(","):
        coding, _, quality = item.strip().partition(";")
        if quality.replace(" ", "") not in {"q=0", "q=0.0"}:
            allowed.add(coding.strip().lower())
    chosen = next((coding for coding in OFFERED if coding in allowed), "identity")
    match chosen:
        case "zstd":
            return chosen, bytes(zstd.compress(body))
        case "lz4":
            return chosen, bytes(lz4.frame.compress(body))
        case "gzip":
            return chosen, zlib.compress(body, wbits=31)
        case "deflate":
            return chosen, zlib.compress(body)
        case _:
            return "identity", body


def decoded(body: bytes, coding: str) -> bytes:
    """Return a body without its ``Content-Encoding``.

    Raises:
        ValueError: the coding is unknown, or the body is not of that coding or lacks its end.
    """
    match coding.strip().lower():
        case "" | "identity":
            return body
        case "zstd":
            return _decompressed(body, zstd.ZstdDecompressor)
        case "lz4":
            return _decompressed(body, lz4.frame.LZ4FrameDecompressor)
        case "gzip" | "deflate":
            return _decompressed(body, lambda: zlib.decompressobj(wbits=47))
        case _:
            raise ValueError(f"unknown Content-Encoding {coding!r}")


def _decompressed(body: bytes, new_decompressor: Callable[[], Any]) -> bytes:
    """Decompress every frame of a body: clients compress each block of rows by itself."""
    parts: list[bytes] = []
    rest: bytes | None = body
    while rest:
        decompressor = new_decompressor()
        try:
            parts.append(decompressor.decompress(rest))
        except (zlib.error, zstd.ZstdError, RuntimeError) as error:
            raise ValueError(f"the body is not in its Content-Encoding: {error}") from error
        if not decompressor.eof:
            raise ValueError("the compressed body ends too early")
        rest = decompressor.unused_data
    return b"".join(parts)
