"""CloudEvents 1.0 headers of profile deltas: the attributes of the Kafka protocol binding, in binary mode.

The record's value stays the delta itself, so that a subscriber that knows nothing of CloudEvents loses nothing.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC
from typing import Final
from urllib.parse import quote

from schemas.deltas import ProfileDelta

DELTA_TYPE: Final = "profilestream.profile.delta.v1"
"""``ce_type`` of every delta; its number is that of the topic."""

_LAST_OF_PLANE: Final = 0xFFFE
_ARABIC_NONCHARACTERS: Final = range(0xFDD0, 0xFDF0)


def delta_headers(delta: ProfileDelta, log_id: str) -> list[tuple[str, bytes]]:
    """Return the Kafka headers of a delta; the same delta always has the same ones.

    ``ce_subject`` is ``tenant_id:user_id``. It is left out where CloudEvents has no way to write it, which is when the
    user id holds a control character or a code point that is no character.

    Args:
        delta: what the record holds.
        log_id: the message log that its flush was read from (`schemas.flushes.FlushRef`).
    """
    attributes = {
        "ce_specversion": "1.0",
        "ce_id": delta.delta_id,
        "ce_source": f"/profilestream/{quote(log_id, safe='')}",
        "ce_type": DELTA_TYPE,
        "ce_time": delta.recorded_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "content-type": "application/json",
    }
    subject = f"{delta.tenant_id}:{delta.user_id}"
    if all(map(_allowed, subject)):
        attributes["ce_subject"] = subject
    return [(name, value.encode()) for name, value in attributes.items()]


def _allowed(character: str) -> bool:
    """Whether CloudEvents allows this character in a string."""
    code = ord(character)
    return (
        unicodedata.category(character) not in {"Cc", "Cs"}
        and code & 0xFFFF < _LAST_OF_PLANE
        and code not in _ARABIC_NONCHARACTERS
    )
