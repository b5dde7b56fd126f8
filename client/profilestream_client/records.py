"""The records of the topics that applications write and read.

Those that are read take whatever later releases add: fields that are not known are ignored, and words that are not
known (`ProfileDelta.op`, `ProfileDelta.kind`, ...) are handed on as they are.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

import msgspec

Role = Literal["user", "assistant", "system", "tool"]
MessageType = Literal["message", "flush", "forget"]

DEFAULT_TENANT: Final = "default"
MAX_MESSAGE_BYTES: Final = 1_000_000
"""Largest message, in bytes of JSON."""

EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(2299, 12, 31, tzinfo=UTC)
"""Bounds of the times that messages may have."""

KINDS: Final = ("slot", "fact", "preference", "tag", "profile")
"""Words of `ProfileDelta.kind` in this release."""

OPERATIONS: Final = (
    "add",
    "update",
    "append",
    "confirm",
    "delete",
    "invalidate",
    "organise",
    "shorten",
    "overtaken",
    "forget",
)
"""Words of `ProfileDelta.op` in this release."""

_TenantId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.\-]{1,64}$(?!\n)")]
_UserId = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
_Name = Annotated[str, msgspec.Meta(max_length=256)]
_AwareDatetime = Annotated[datetime, msgspec.Meta(tz=True)]

_SPACES: Final = re.compile(r"\s+")


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One chat message, or a control event for its user.

    Attributes:
        user_id: the person that the conversation belongs to, unique within the tenant; 1 to 256 characters.
        role: who wrote it; needed for messages, not for control events.
        content: the text; not empty for messages.
        tenant_id: letters, digits, ``_``, ``.`` and ``-``, at most 64.
        session_id: the conversation, as the application names it; like the next two, at most 256 characters.
        message_id: the application's id, which deltas cite as evidence; otherwise the place in the log is used.
        speaker: display name of the author.
        occurred_at: when it was written, with an offset from UTC; otherwise the time of publishing.
        type: ``message``, or a control event: ``flush`` closes this user's window, ``forget`` removes all that is known
            of the user.
    """

    user_id: _UserId
    role: Role | None = None
    content: str = ""
    tenant_id: _TenantId = DEFAULT_TENANT
    session_id: _Name | None = None
    message_id: _Name | None = None
    speaker: _Name | None = None
    occurred_at: _AwareDatetime | None = None
    type: MessageType = "message"


class FactDetail(msgspec.Struct, frozen=True, kw_only=True):
    """What a delta of kind ``fact`` says beyond the text.

    Attributes:
        confidence: from 0 to 1, after the change.
        importance: likewise.
        session_id: session of the message behind the change.
        replaced_by: of ``invalidate``: id of the fact that replaces it.
    """

    confidence: float
    importance: float
    session_id: str | None = None
    replaced_by: str | None = None


class PreferenceDetail(msgspec.Struct, frozen=True, kw_only=True):
    """What a delta of kind ``preference`` says beyond the text.

    Attributes:
        strength: from 0 to 1, after the change.
        strength_before: before it; None when the preference is new.
        quotes: the user's words behind it, after the change, oldest first.
    """

    strength: float
    strength_before: float | None = None
    quotes: tuple[str, ...] = ()


class ProfileDelta(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one thing in a profile: what it was, what it is now, why, and which messages say so.

    What changed is a slot, named by `topic` and `sub_topic`; a fact or a preference, named by `item_id`, with its
    category as `topic`; the count of a tag, with ``tag`` as `topic` and the tag's name as `sub_topic`; or, of kind
    ``profile``, all of it.

    Attributes:
        delta_id: the same whenever the delta is sent again.
        version: the profile's version after this change: rises by one for each delta of the user, without gaps.
        flush_id: the batch of messages it comes from.
        index: position among the deltas of that batch, from 0.
        kind: what kind of thing changed; `KINDS`, or a word of a later release.
        op: ``add`` (there was none), ``update`` (rewritten), ``append`` (extended), ``confirm`` (said again, text
            unchanged), ``delete`` (taken back, or given up for want of room), ``invalidate`` (a fact that a newer one
            contradicts), ``organise`` (values of a topic with too many slots were regrouped: moved here, or, when
            `after` is null, moved away), ``shorten`` (said in fewer words), ``overtaken`` (an older value, in `added`,
            that came late: nothing changes), ``forget`` (all that was known of the user is gone), or a word of a later
            release.
        before: the text before; None when there was none. Of a tag: its count.
        after: the text now; None when there is none any more. Likewise.
        added: only what these messages brought, without what was there before.
        reason: why the change was made, for people.
        evidence: ids of the messages that say so; never empty.
        assertion: ``said`` by the user, or ``inferred``.
        update_hits: how often the content was given, this change included: 1 when it was added. Of a fact: times
            mentioned; of a preference: times observed; of a tag: its count.
        said_at: when the newest evidence was written.
        recorded_at: when the change was made, by the worker's clock.
        processor: who decided: ``rules`` or the model's name.
        pipeline_version: content hash of the configuration and prompts in force.
        item_id: id of the fact or preference; empty for the other kinds.
        fact: of kind ``fact``.
        preference: of kind ``preference``.
    """

    delta_id: str
    tenant_id: str
    user_id: str
    version: int
    flush_id: str
    index: int
    op: str
    topic: str
    sub_topic: str
    before: str | None
    after: str | None
    added: str | None
    reason: str
    evidence: tuple[str, ...]
    update_hits: int
    said_at: _AwareDatetime
    recorded_at: _AwareDatetime
    processor: str
    pipeline_version: str
    assertion: str = "said"
    kind: str = "slot"
    item_id: str = ""
    fact: FactDetail | None = None
    preference: PreferenceDetail | None = None


_encoder: Final = msgspec.json.Encoder()
_messages: Final = msgspec.json.Decoder(ChatMessage)
_deltas: Final = msgspec.json.Decoder(ProfileDelta)


def user_key(tenant_id: str, user_id: str) -> bytes:
    """Return the Kafka key of everything about a user."""
    return f"{tenant_id}:{user_id}".encode()


def unify(topic: str) -> str:
    """Return a topic's name in the one form that deltas have it in: lower case, ``_`` for spaces."""
    return _SPACES.sub("_", topic.strip().lower())


def encode_message(message: ChatMessage) -> bytes:
    """Return the bytes of a message, after the checks that the pipeline will make of them.

    Raises:
        ValueError: when it could not be processed; the text says which field is wrong and why.
    """
    try:
        data = _encoder.encode(message)
        _messages.decode(data)
    except (msgspec.MsgspecError, UnicodeEncodeError, TypeError) as error:
        raise ValueError(str(error)) from error
    if len(data) > MAX_MESSAGE_BYTES:
        raise ValueError(f"{len(data)} bytes are more than the {MAX_MESSAGE_BYTES} that a message may have")
    if message.occurred_at is not None and not EARLIEST <= message.occurred_at <= LATEST:
        raise ValueError(f"`occurred_at` is not between {EARLIEST.year} and {LATEST.year}")
    if message.type == "message":
        if message.role is None:
            raise ValueError("`role` is missing: a message has one, only control events have none")
        if not message.content.strip():
            raise ValueError("`content` is missing or empty")
    return data


def decode_delta(data: bytes | None) -> ProfileDelta:
    """Decode a delta.

    Raises:
        ValueError: for bytes that are none; the text says which field is wrong and why.
    """
    if data is None:
        raise ValueError("the value is null")
    try:
        return _deltas.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
