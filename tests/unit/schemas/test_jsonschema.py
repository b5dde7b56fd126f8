"""The JSON Schemas: as checked in, and compatible with every release."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.dead_letters import LETTER_HEADERS, DeadLetterReason, Resolution
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.flushes import FlushBatch
from schemas.jsonschema import DIRECTORY, RELEASED, documents, rendered, write
from schemas.jsonschema.descriptions import describe
from schemas.messages import ChatMessage
from schemas.stages import Candidates, Memo
from tests.support.schema_compatibility import Use, incompatibilities

RECORDS = {
    "chat_message.v1.json": ChatMessage,
    "flush_batch.v1.json": FlushBatch,
    "memo.v1.json": Memo,
    "candidates.v1.json": Candidates,
    "profile_delta.v1.json": ProfileDelta,
    "flush_event.v1.json": FlushEvent,
}
RELEASES = sorted(path.relative_to(RELEASED) for path in RELEASED.glob("*/*.json"))
MOMENT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def use_of(name: str) -> Use:
    return "written" if name.startswith("chat_message") else "read"


def test_what_is_checked_in_is_what_the_records_give() -> None:
    """`python -m schemas.jsonschema` writes it anew."""
    checked_in = {path.name: path.read_text(encoding="utf-8") for path in DIRECTORY.glob("*.json")}
    assert checked_in == {name: rendered(schema) for name, schema in documents().items()}


def test_writing_gives_the_same_files(tmp_path: Path) -> None:
    written = list(write(tmp_path / "new"))
    assert {path.name: path.read_bytes() for path in written} == {
        path.name: path.read_bytes() for path in DIRECTORY.glob("*.json")
    }


@pytest.mark.parametrize(("name", "record"), RECORDS.items(), ids=RECORDS)
def test_a_schema_has_the_fields_of_its_record(name: str, record: type[msgspec.Struct]) -> None:
    schema = documents()[name]
    fields = {field.name: field.required for field in msgspec.structs.fields(record)}
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["properties"].keys() == fields.keys()
    assert schema["required"] == [name for name, required in fields.items() if required]


@pytest.mark.parametrize("name", documents())
def test_every_reference_leads_to_a_definition(name: str) -> None:
    schema = documents()[name]
    references = set(re.findall(r'"\$ref": "#/\$defs/(\w+)"', json.dumps(schema)))
    assert references == schema.get("$defs", {}).keys()


def test_descriptions_are_text_and_no_docstrings() -> None:
    texts = json.dumps(documents(), ensure_ascii=False)
    assert "Attributes:" not in texts
    assert "``" not in texts
    assert "schemas." not in texts
    delta = documents()["profile_delta.v1.json"]
    assert delta["properties"]["said_at"]["description"] == "when the newest evidence was written."


def test_a_docstring_is_shared_out() -> None:
    described = describe(
        {
            "description": "A thing.\n\nIt has\nparts.\n\nAttributes:\n    one: the first, ``x``,\n        and more.\n"
            "    two: the second.\n\nAfter that.",
            "properties": {"one": {"type": "string"}, "two": {"type": "string"}, "three": {"type": "string"}},
        }
    )
    assert described == {
        "description": "A thing.\n\nIt has parts.\n\nAfter that.",
        "properties": {
            "one": {"description": "the first, `x`, and more.", "type": "string"},
            "two": {"description": "the second.", "type": "string"},
            "three": {"type": "string"},
        },
    }


def fitting(schema: dict[str, Any], headers: list[tuple[str, bytes]]) -> bool:
    """Whether headers are those of a schema: all it requires, none it does not know, each as it says."""
    values = {name: value.decode() for name, value in headers}
    return set(schema["required"]) <= values.keys() <= schema["properties"].keys() and all(
        value in schema["properties"][name].get("enum", [value])
        and re.search(schema["properties"][name].get("pattern", ""), value)
        for name, value in values.items()
    )


def test_headers_of_dead_letters_are_as_their_schema_says() -> None:
    schema = documents()["dead_letter_headers.v1.json"]
    reason = DeadLetterReason(
        stage="merge", reason="r", detail="d", topic="t", partition=0, offset=7, attempts=1, failed_at=MOMENT
    )
    assert schema["properties"].keys() == LETTER_HEADERS
    assert fitting(schema, reason.headers())
    assert not fitting(schema, reason.headers()[1:])
    assert not fitting(schema, [*reason.headers()[1:], ("profilestream-stage", b"none")])


@pytest.mark.parametrize("sent_from", [None, 12])
def test_headers_of_decisions_are_as_their_schema_says(sent_from: int | None) -> None:
    decision = Resolution(
        letter_id="l", decision="redriving", reason="r", resolved_at=MOMENT, sent_from=sent_from
    ).headers()
    assert fitting(documents()["dead_letter_decision_headers.v1.json"], decision)


@pytest.mark.parametrize("path", RELEASES, ids=str)
def test_what_was_made_for_a_release_still_fits(path: Path) -> None:
    old = json.loads((RELEASED / path).read_text(encoding="utf-8"))
    assert incompatibilities(old, documents()[path.name], use_of(path.name)) == []


def test_the_first_release_is_kept() -> None:
    assert {path.name for path in RELEASES if path.parts[0] == "0.1.0"} >= RECORDS.keys()


def removed(schema: dict[str, Any]) -> None:
    del schema["properties"]["topic"]


def retyped(schema: dict[str, Any]) -> None:
    schema["properties"]["topic"] = {"type": "integer"}


def not_null(schema: dict[str, Any]) -> None:
    schema["properties"]["after"] = {"type": "string"}


def null(schema: dict[str, Any]) -> None:
    schema["properties"]["topic"] = {"anyOf": [{"type": "string"}, {"type": "null"}]}


def required(schema: dict[str, Any]) -> None:
    schema["properties"]["more"] = {"type": "string"}
    schema["required"].append("more")


def not_required(schema: dict[str, Any]) -> None:
    schema["required"].remove("topic")


def fewer_words(schema: dict[str, Any]) -> None:
    schema["properties"]["kind"]["enum"].remove("tag")


def any_word(schema: dict[str, Any]) -> None:
    schema["properties"]["kind"] = {"type": "string"}


def chosen_word(schema: dict[str, Any]) -> None:
    schema["properties"]["topic"] = {"enum": ["interest"]}


def other_items(schema: dict[str, Any]) -> None:
    schema["properties"]["evidence"]["items"] = {"type": "integer"}


def removed_deep_inside(schema: dict[str, Any]) -> None:
    del schema["$defs"]["FactDetail"]["properties"]["confidence"]


def limited(schema: dict[str, Any]) -> None:
    schema["properties"]["topic"]["maxLength"] = 10


def patterned(schema: dict[str, Any]) -> None:
    schema["properties"]["topic"]["pattern"] = "^[a-z]+$"


def untyped(schema: dict[str, Any]) -> None:
    schema["properties"]["topic"] = {}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (removed, "$.topic: removed"),
        (retyped, "$.topic: string is accepted no more"),
        (not_null, "$.after: null is accepted no more"),
        (null, "$.topic: null is new to those who read it"),
        (required, "$.more: required, and was not"),
        (not_required, "$.topic: required no more"),
        (fewer_words, "$.kind: 'tag' is accepted no more"),
        (any_word, "$.kind: any word may come where there was a choice"),
        (chosen_word, "$.topic: only a choice of words is accepted where any was"),
        (other_items, "$.evidence[*]: string is accepted no more"),
        (removed_deep_inside, "$.fact.confidence: removed"),
        (limited, "$.topic: maxLength is narrower, None before and 10 now"),
        (untyped, "$.topic: anything is new to those who read it"),
        (patterned, "$.topic: pattern was None and is '^[a-z]+$'"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_change_that_breaks_those_who_read_a_record_is_seen(
    change: Callable[[dict[str, Any]], None], problem: str
) -> None:
    old = documents()["profile_delta.v1.json"]
    new = copy.deepcopy(old)
    change(new)
    assert problem in incompatibilities(old, new, "read")


def test_what_is_read_may_get_fields_and_words() -> None:
    old = documents()["profile_delta.v1.json"]
    new = copy.deepcopy(old)
    new["properties"]["more"] = {"type": "string"}
    new["properties"]["kind"]["enum"].append("mood")
    new["properties"]["topic"]["description"] = "another"
    new["$defs"]["FactDetail"]["properties"]["more"] = {"type": "string"}
    assert incompatibilities(old, new, "read") == []


def shorter_name(schema: dict[str, Any]) -> None:
    schema["properties"]["user_id"]["maxLength"] = 128


def longer_least(schema: dict[str, Any]) -> None:
    schema["properties"]["user_id"]["minLength"] = 2


def other_pattern(schema: dict[str, Any]) -> None:
    schema["properties"]["tenant_id"]["pattern"] = "^[a-z]+$"


def role_for_all(schema: dict[str, Any]) -> None:
    schema["required"].append("role")


def role_removed(schema: dict[str, Any]) -> None:
    schema["properties"]["role"]["anyOf"][0]["enum"].remove("tool")


def session_for_messages(schema: dict[str, Any]) -> None:
    schema["then"] = schema["then"] | {"required": ["role", "content", "session_id"]}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (shorter_name, "$.user_id: maxLength is narrower, 256 before and 128 now"),
        (longer_least, "$.user_id: minLength is narrower, 1 before and 2 now"),
        (other_pattern, "$.tenant_id: pattern was"),
        (role_for_all, "$.role: required, and was not"),
        (role_removed, "$.role: 'tool' is accepted no more"),
        (session_for_messages, "$: then was"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_change_that_breaks_those_who_write_a_record_is_seen(
    change: Callable[[dict[str, Any]], None], problem: str
) -> None:
    old = documents()["chat_message.v1.json"]
    new = copy.deepcopy(old)
    change(new)
    assert any(found.startswith(problem) for found in incompatibilities(old, new, "written"))


def test_what_is_written_may_be_more() -> None:
    old = documents()["chat_message.v1.json"]
    new = copy.deepcopy(old)
    new["properties"]["more"] = {"type": "string"}
    new["properties"]["user_id"] = {"anyOf": [{"type": "string", "maxLength": 512}, {"type": "integer"}]}
    new["properties"]["role"]["anyOf"][0]["enum"].append("critic")
    del new["properties"]["tenant_id"]["pattern"]
    assert incompatibilities(old, new, "written") == []
