"""The client's records are the pipeline's, and it refuses what the pipeline would refuse."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args

import msgspec
import profilestream_client
import pytest
from profilestream_client import records as client

from schemas import deltas, messages, profiles
from schemas.codec import InvalidRecord, encode
from tests.client.support import read, written

READ = [
    (client.ProfileDelta, deltas.ProfileDelta),
    (client.FactDetail, deltas.FactDetail),
    (client.PreferenceDetail, deltas.PreferenceDetail),
]


def without_choices(schema: Any) -> Any:
    """Return a JSON Schema with any text in the place of a choice of words, and without descriptions."""
    if isinstance(schema, dict):
        if "enum" in schema:
            return {"type": "string"} | {name: value for name, value in schema.items() if name != "enum"}
        return {name: without_choices(value) for name, value in schema.items() if name != "description"}
    return [without_choices(each) for each in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize(("ours", "theirs"), READ, ids=lambda record: record.__name__)
def test_what_is_read_has_the_fields_that_are_written(ours: type[msgspec.Struct], theirs: type[msgspec.Struct]) -> None:
    def fields(record: type[msgspec.Struct]) -> list[tuple[str, Any, Any, bool]]:
        return [
            (field.name, field.default, field.default_factory, field.required)
            for field in msgspec.structs.fields(record)
        ]

    assert fields(ours) == fields(theirs)
    assert without_choices(msgspec.json.schema(ours)) == without_choices(msgspec.json.schema(theirs))


def test_what_is_written_is_what_is_read_with_every_limit() -> None:
    def schema(record: type[msgspec.Struct]) -> Any:
        made = msgspec.json.schema(record)
        del made["$defs"]["ChatMessage"]["description"]
        return made

    assert schema(client.ChatMessage) == schema(messages.ChatMessage)


def test_constants_are_the_same() -> None:
    assert client.DEFAULT_TENANT == messages.DEFAULT_TENANT
    assert client.MAX_MESSAGE_BYTES == messages.MAX_MESSAGE_BYTES
    assert (client.EARLIEST, client.LATEST) == (messages.EARLIEST, messages.LATEST)
    assert get_args(client.Role) == get_args(messages.Role)
    assert get_args(client.MessageType) == get_args(messages.MessageType)
    assert get_args(deltas.DeltaKind) == client.KINDS
    assert get_args(deltas.Operation) == client.OPERATIONS


@pytest.mark.parametrize("user", ["ada", "a:b", "安娜", "🦊"])
def test_the_key_of_a_user_is_the_same(user: str) -> None:
    assert client.user_key("acme", user) == messages.user_key("acme", user)


@pytest.mark.parametrize("topic", ["basic_info", "Basic Info", " Basic \t info "])
def test_a_topic_is_written_the_same_way(topic: str) -> None:
    assert client.unify(topic) == profiles.unify(topic) == "basic_info"


def message(**changes) -> client.ChatMessage:
    return client.ChatMessage(**({"user_id": "ada", "role": "user", "content": "hello"} | changes))


FITTING = {
    "plain": message(),
    "everything": message(
        tenant_id="acme",
        session_id="s",
        message_id="m",
        speaker="Ada",
        occurred_at=datetime(2026, 3, 1, tzinfo=timezone(timedelta(hours=8))),
    ),
    "longest ids": message(user_id="用" * 256, tenant_id="t" * 64, session_id="s" * 256),
    "a flush": client.ChatMessage(user_id="ada", type="flush"),
    "earliest": message(occurred_at=client.EARLIEST),
    "latest": message(occurred_at=client.LATEST),
    "largest": message(
        content="x" * (client.MAX_MESSAGE_BYTES - len(encode(message(content=""))) - len('"content":"",'))
    ),
}
NOT_FITTING = {
    "no user": message(user_id=""),
    "a long user": message(user_id="x" * 257),
    "a bad tenant": message(tenant_id="a:b"),
    "a tenant with a line end": message(tenant_id="a\n"),
    "a long session": message(session_id="s" * 257),
    "no role": message(role=None),
    "no such role": message(role="critic"),
    "no such type": message(type="remember"),
    "no content": message(content=" \n"),
    "a time without offset": message(occurred_at=datetime(2026, 3, 1)),
    "a time too early": message(occurred_at=client.EARLIEST - timedelta(seconds=1)),
    "a time too late": message(occurred_at=client.LATEST + timedelta(seconds=1)),
    "one byte too many": message(content="x" + FITTING["largest"].content),
    "a number for a text": message(content=7),
}


@pytest.mark.parametrize("good", FITTING.values(), ids=FITTING)
def test_a_message_that_fits_is_read_as_it_was_written(good: client.ChatMessage) -> None:
    data = client.encode_message(good)
    assert data == encode(messages.decode_message(data))
    assert msgspec.structs.asdict(messages.decode_message(data)) == msgspec.structs.asdict(good)


@pytest.mark.parametrize("bad", NOT_FITTING.values(), ids=NOT_FITTING)
def test_what_the_pipeline_refuses_is_not_sent(bad: client.ChatMessage) -> None:
    with pytest.raises(InvalidRecord):
        messages.decode_message(encode(bad))
    with pytest.raises(ValueError, match=r"\w"):
        client.encode_message(bad)


def test_the_largest_message_is_exactly_as_large_as_may_be() -> None:
    assert len(client.encode_message(FITTING["largest"])) == client.MAX_MESSAGE_BYTES


def test_half_of_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        client.encode_message(message(content="\ud83d"))


def test_the_reason_names_the_field() -> None:
    with pytest.raises(ValueError, match=re.escape("`$.tenant_id`")):
        client.encode_message(message(tenant_id="a b"))


def test_a_delta_is_read_with_everything_in_it() -> None:
    delta = written(
        3,
        kind="preference",
        op="update",
        item_id="p",
        preference=deltas.PreferenceDetail(strength=0.8, strength_before=0.5, quotes=("详细点",)),
    )
    found = client.decode_delta(encode(delta))
    assert msgspec.to_builtins(found) == msgspec.to_builtins(delta)
    assert found.preference == client.PreferenceDetail(strength=0.8, strength_before=0.5, quotes=("详细点",))
    assert found.said_at.tzinfo is UTC


def test_what_a_later_release_adds_is_no_obstacle() -> None:
    later = msgspec.json.decode(encode(written(3))) | {
        "op": "soften",
        "kind": "mood",
        "assertion": "guessed",
        "colour": {"of": "the mood"},
        "fact": {"confidence": 1, "importance": 1, "certainty": 2},
    }
    delta = client.decode_delta(msgspec.json.encode(later))
    assert (delta.op, delta.kind, delta.assertion) == ("soften", "mood", "guessed")
    assert delta.fact == client.FactDetail(confidence=1.0, importance=1.0)
    assert delta.after == "tea 3"


def test_a_delta_from_before_the_defaults_is_read() -> None:
    earlier = msgspec.json.decode(encode(written(3)))
    for name in ("assertion", "kind", "item_id", "fact", "preference"):
        del earlier[name]
    assert client.decode_delta(msgspec.json.encode(earlier)) == read(written(3))


@pytest.mark.parametrize("data", [None, b"", b"{}", b"\xff", b"[" * 100_000, b'{"delta_id": 1}'])
def test_what_is_no_delta_is_refused(data: bytes | None) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        client.decode_delta(data)


def test_everything_public_is_there() -> None:
    assert {name for name in profilestream_client.__all__ if not hasattr(profilestream_client, name)} == set()
