"""`ChatMessage`: what an application publishes, and the key that everything about its user is sent under."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final, Literal, get_args

import msgspec

from schemas.codec import InvalidRecord, decode

Role = Literal["user", "assistant", "system", "tool"]
MessageType = Literal["message", "flush", "forget"]

DEFAULT_TENANT: Final = "default"
MAX_MESSAGE_BYTES: Final = 1_000_000
"""Largest record accepted, in bytes of JSON: Kafka's usual limit, with room for its headers."""

EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(2299, 12, 31, tzinfo=UTC)
"""Bounds of the times that messages may have: those of ClickHouse's widest type for a moment."""

ROLES: Final[tuple[str, ...]] = get_args(Role)

TenantId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.\-]{1,64}$(?!\n)")]
UserId = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Name = Annotated[str, msgspec.Meta(max_length=256)]
AwareDatetime = Annotated[datetime, msgspec.Meta(tz=True)]


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One chat message, or a control event for its user.

    Attributes:
        user_id: the person that the conversation belongs to, unique within the tenant; 1 to 256 characters.
        role: who wrote it; needed for messages, not for control events.
        content: the text; not empty for messages.
        tenant_id: letters, digits, ``_``, ``.`` and ``-``, at most 64.
        session_id: the conversation, as the application names it; like the next two, at most 256 characters.
        message_id: the application's id; otherwise the place in the log is used.
        speaker: display name of the author.
        occurred_at: when it was written (RFC 3339 with an offset); otherwise the Kafka timestamp is used.
        type: ``message``, or a control event: ``flush`` closes this user's window, ``forget`` removes all that is known
            of the user.
    """

    user_id: UserId
    role: Role | None = None
    content: str = ""
    tenant_id: TenantId = DEFAULT_TENANT
    session_id: Name | None = None
    message_id: Name | None = None
    speaker: Name | None = None
    occurred_at: AwareDatetime | None = None
    type: MessageType = "message"

    @property
    def key(self) -> bytes:
        """Kafka key of this message's user."""
        return user_key(self.tenant_id, self.user_id)


def user_key(tenant_id: str, user_id: str) -> bytes:
    """Kafka key of a user: ``tenant_id:user_id`` in UTF-8.

    A tenant id has no colon, so the first one separates, whatever the user id holds.
    """
    return f"{tenant_id}:{user_id}".encode()


def split_user_key(key: bytes) -> tuple[str, str]:
    """Return ``(tenant_id, user_id)`` of a key made by `user_key`.

    Raises:
        InvalidRecord: when the bytes are not such a key.
    """
    try:
        tenant_id, separator, user_id = key.decode().partition(":")
    except UnicodeDecodeError as error:
        raise InvalidRecord("the key is not UTF-8") from error
    if not (tenant_id and separator and user_id):
        raise InvalidRecord("the key is not tenant_id:user_id")
    return tenant_id, user_id


def decode_message(data: bytes | None) -> ChatMessage:
    """Decode and check a chat message.

    Raises:
        InvalidRecord: when it cannot be processed; the message says what is wrong with which field.
    """
    if data is not None and len(data) > MAX_MESSAGE_BYTES:
        raise InvalidRecord(f"{len(data)} bytes are more than the {MAX_MESSAGE_BYTES} that a message may have")
    try:
        message = decode(data, ChatMessage)
    except InvalidRecord as error:
        raise InvalidRecord(_explained(str(error))) from error
    if message.occurred_at is not None and not EARLIEST <= message.occurred_at <= LATEST:
        raise InvalidRecord(f"`occurred_at` is not between {EARLIEST.year} and {LATEST.year}")
    if message.type == "message":
        if message.role is None:
            raise InvalidRecord(f"`role` is missing: one of {', '.join(ROLES)}")
        if not message.content.strip():
            raise InvalidRecord("`content` is missing or empty")
    return message


def _explained(problem: str) -> str:
    """Return what is wrong in words, where the decoder says it in its own."""
    if "`$.tenant_id`" in problem and "regex" in problem:
        return "`tenant_id` may have letters, digits, `_`, `.` and `-`, and at most 64 of them"
    if "`$.role`" in problem and "enum" in problem:
        return f"{problem}: one of {', '.join(ROLES)}"
    if "`$.type`" in problem and "enum" in problem:
        return f"{problem}: one of {', '.join(get_args(MessageType))}"
    return problem
