"""JSON Schemas (draft 2020-12) of what crosses the topics, made from the records themselves.

They are checked in beside this module, for whoever reads or writes the topics in another language, and made again by
``python -m schemas.jsonschema``. `released` holds those of each release, to which later ones stay compatible.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from schemas.dead_letters import (
    HEADER_PREFIX,
    NULL_HEADER,
    OMITTED_HEADER,
    TIMESTAMP_HEADER,
    DeadLetterReason,
    Resolution,
)
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.flushes import FlushBatch
from schemas.jsonschema.descriptions import describe
from schemas.messages import ChatMessage
from schemas.stages import Candidates, Memo

Schema = dict[str, Any]

DIRECTORY: Final = Path(__file__).parent
"""Where the schemas of the present records are."""

RELEASED: Final = DIRECTORY / "released"
"""Where those of the releases are, in a folder for each."""

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_NUMBER: Final[Schema] = {"type": "string", "pattern": "^-?[0-9]+$"}
_HEADERS_OF_DECISIONS: Final = {"letter_id": "resolves", "decision": "resolution"}


def documents() -> dict[str, Schema]:
    """Return the schemas by the names of their files; the number in a name is that of the topic."""
    return {
        "chat_message.v1.json": _chat_message(),
        "flush_batch.v1.json": _record(FlushBatch),
        "memo.v1.json": _record(Memo),
        "candidates.v1.json": _record(Candidates),
        "profile_delta.v1.json": _record(ProfileDelta),
        "flush_event.v1.json": _record(FlushEvent),
        "dead_letter_headers.v1.json": _letter_headers(),
        "dead_letter_decision_headers.v1.json": _headers(Resolution, _HEADERS_OF_DECISIONS),
    }


def rendered(schema: Schema) -> str:
    """Return the text of a schema's file; the same schema always has the same one."""
    return json.dumps(schema, ensure_ascii=False, indent=2) + "\n"


def write(directory: Path) -> Iterator[Path]:
    """Write the schemas of the present records into a directory, and yield each file.

    Raises:
        OSError: when one cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name, schema in documents().items():
        path = directory / name
        path.write_text(rendered(schema), encoding="utf-8")
        yield path


def _record(record: type[msgspec.Struct]) -> Schema:
    schema = msgspec.json.schema(record)
    definitions: dict[str, Schema] = {name: describe(each) for name, each in schema["$defs"].items()}
    root = definitions.pop(record.__name__)
    return {"$schema": _DIALECT, **root} | ({"$defs": definitions} if definitions else {})


def _chat_message() -> Schema:
    """Return the schema of a chat message, with what a message needs and a control event does not."""
    return _record(ChatMessage) | {
        "if": {"properties": {"type": {"const": "message"}}},
        "then": {
            "properties": {"role": {"type": "string"}, "content": {"pattern": "\\S"}},
            "required": ["role", "content"],
        },
    }


def _headers(record: type[msgspec.Struct], names: dict[str, str]) -> Schema:
    """Return the schema of a record whose fields are headers: an object of their names and values, all of them text."""

    def header(field: str) -> str:
        return HEADER_PREFIX + names.get(field, field).replace("_", "-")

    schema = _record(record)
    fields: dict[str, Schema] = schema["properties"]
    return schema | {
        "properties": {header(field): _as_text(each) for field, each in fields.items()},
        "required": [header(field) for field in schema["required"]],
    }


def _letter_headers() -> Schema:
    schema = _headers(DeadLetterReason, {})
    schema["properties"] |= {
        OMITTED_HEADER: {
            "description": "on a letter without its record, because that is too large: the size of its value in bytes.",
            **_NUMBER,
        },
        NULL_HEADER: {"description": "on a letter with an empty value: what of the record was null.", "type": "string"},
        TIMESTAMP_HEADER: {
            "description": "when the record was written first, in milliseconds since the epoch.",
            **_NUMBER,
        },
    }
    return schema


def _as_text(field: Schema) -> Schema:
    """Return how a field is written in a header; one without a value is left out."""
    kinds = [each for each in field.get("anyOf", [field]) if each.get("type") != "null"]
    (kind,) = kinds
    text = _NUMBER if kind.get("type") == "integer" else {k: v for k, v in kind.items() if k != "description"}
    return {key: field[key] for key in ("description",) if key in field} | text
