"""`ChatMessage`: what is accepted, what is refused with which words, and whose it is."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import InvalidRecord, encode
from schemas.messages import MAX_MESSAGE_BYTES, ChatMessage, decode_message, split_user_key, user_key


def given_fields(**fields: object) -> bytes:
    return json.dumps({"user_id": "ada", "role": "user", "content": "hi"} | fields).encode()


def test_the_smallest_message_has_defaults() -> None:
    assert decode_message(given_fields()) == ChatMessage(
        user_id="ada",
        role="user",
        content="hi",
        tenant_id="default",
        session_id=None,
        message_id=None,
        speaker=None,
        occurred_at=None,
        type="message",
    )


def test_every_field_is_read() -> None:
    fields = {
        "tenant_id": "a-B_9.c",
        "session_id": "s",
        "message_id": "m",
        "speaker": "Ada",
        "occurred_at": "2026-03-01T20:00:00+08:00",
        "type": "message",
    }
    found = decode_message(given_fields(**fields, role="tool", content="嗨 👋"))
    assert found.occurred_at == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert (found.tenant_id, found.role, found.content, found.speaker) == ("a-B_9.c", "tool", "嗨 👋", "Ada")


def test_a_control_event_needs_neither_role_nor_content() -> None:
    assert decode_message(b'{"user_id": "ada", "type": "flush"}') == ChatMessage(user_id="ada", type="flush")


def test_unknown_fields_are_ignored() -> None:
    assert decode_message(given_fields(model="x", nested={"a": [1]})) == decode_message(given_fields())


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "the value is null"),
        (b"", "it is empty, where JSON should be"),
        (b" \n", "it is empty, where JSON should be"),
        (b'{"user_id": "u"', "the JSON ends before it is complete"),
        (b"?", "JSON is malformed: invalid character (byte 0)"),
        (b"[]", "Expected `object`, got `array`"),
        (b"{}", "Object missing required field `user_id`"),
        (given_fields() + b" x", "JSON is malformed: trailing characters (byte 53)"),
        (b'{"user_id":"\xff","role":"user","content":"x"}', "Invalid UTF-8 encoded string"),
        (given_fields(user_id=""), "Expected `str` of length >= 1 - at `$.user_id`"),
        (given_fields(user_id="u" * 257), "Expected `str` of length <= 256 - at `$.user_id`"),
        (given_fields(user_id=7), "Expected `str`, got `int` - at `$.user_id`"),
        (given_fields(role=None), "`role` is missing: one of user, assistant, system, tool"),
        (given_fields(role="boss"), "Invalid enum value 'boss' - at `$.role`: one of user, assistant, system, tool"),
        (given_fields(content=""), "`content` is missing or empty"),
        (given_fields(content=" \n\u3000"), "`content` is missing or empty"),
        (given_fields(content=None), "Expected `str`, got `null` - at `$.content`"),
        (
            given_fields(tenant_id="a:b"),
            r"`tenant_id` may have letters, digits, `_`, `.` and `-`, and at most 64 of them",
        ),
        (
            given_fields(tenant_id=""),
            r"`tenant_id` may have letters, digits, `_`, `.` and `-`, and at most 64 of them",
        ),
        (
            given_fields(occurred_at="2026-03-01T12:00:00"),
            "Expected `datetime` with a timezone component - at `$.occurred_at`",
        ),
        (given_fields(occurred_at="yesterday"), "Invalid RFC3339 encoded datetime - at `$.occurred_at`"),
        (given_fields(occurred_at=1_772_000_000), "Expected `datetime | null`, got `int` - at `$.occurred_at`"),
        (given_fields(type="drop"), "Invalid enum value 'drop' - at `$.type`: one of message, flush, forget"),
    ],
)
def test_what_is_refused_is_named(data: bytes | None, problem: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        decode_message(data)
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    "data",
    [
        b'{"user_id":"ada","role":"user","content":"\\ud800"}',
        b'{"user_id":"\\udc00","role":"user","content":"x"}',
        b"\xef\xbb\xbf" + given_fields(),
        b"[" * 200_000,
        b'{"user_id":' * 100_000,
    ],
    ids=["half a character", "half a user", "byte order mark", "deep list", "deep object"],
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecord):
        decode_message(data)


def test_the_largest_message_is_accepted_and_one_byte_more_is_not() -> None:
    largest = given_fields(content="x" * (MAX_MESSAGE_BYTES - len(given_fields(content=""))))
    assert len(largest) == MAX_MESSAGE_BYTES
    assert len(decode_message(largest).content) > 999_000
    with pytest.raises(InvalidRecord, match="1000001 bytes are more than the 1000000 that a message may have"):
        decode_message(largest + b" ")


def test_a_tenant_id_does_not_end_in_a_line_feed() -> None:
    with pytest.raises(InvalidRecord):
        decode_message(given_fields(tenant_id="acme\n"))


@pytest.mark.parametrize(
    ("tenant_id", "user_id", "key"),
    [
        ("default", "ada", b"default:ada"),
        ("a", "b:c:d", b"a:b:c:d"),
        ("t", "用户 1", "t:用户 1".encode()),
        ("t", ":", b"t::"),
    ],
)
def test_a_key_names_tenant_and_user(tenant_id: str, user_id: str, key: bytes) -> None:
    assert user_key(tenant_id, user_id) == key
    assert split_user_key(key) == (tenant_id, user_id)
    assert ChatMessage(user_id=user_id, tenant_id=tenant_id).key == key


@pytest.mark.parametrize("key", [b"", b"ada", b":ada", b"default:", b":"])
def test_other_bytes_are_no_key(key: bytes) -> None:
    with pytest.raises(InvalidRecord, match="the key is not tenant_id:user_id"):
        split_user_key(key)


def test_a_key_is_utf_8() -> None:
    with pytest.raises(InvalidRecord, match="the key is not UTF-8"):
        split_user_key(b"default:\xff")


@given(
    st.text("abcXYZ019_.-", min_size=1, max_size=64),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=256),
)
def test_different_users_have_different_keys(tenant_id: str, user_id: str) -> None:
    assert split_user_key(user_key(tenant_id, user_id)) == (tenant_id, user_id)


@given(
    st.builds(
        ChatMessage,
        user_id=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
        role=st.sampled_from(["user", "assistant", "system", "tool"]),
        content=st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip),
        occurred_at=st.none()
        | st.datetimes(
            datetime(1900, 1, 1),
            datetime(2200, 1, 1),
            timezones=st.integers(-14, 14).map(lambda hours: timezone(timedelta(hours=hours))),
        ),
    )
)
def test_a_message_that_is_encoded_is_read_back(message: ChatMessage) -> None:
    assert decode_message(encode(message)) == message
