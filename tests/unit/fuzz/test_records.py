"""Every record that crosses a topic or rests in a table: bytes are one, or `InvalidRecord` says what is wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.forget import forget_user
from agents.policy import MergePolicy
from schemas.codec import InvalidRecord, decode, encode
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.flushes import FlushBatch
from schemas.messages import ChatMessage, decode_message, split_user_key, user_key
from schemas.profiles import ProfileState
from schemas.stages import Candidates, Memo, TagHit
from schemas.windows import EmittedBatch, WindowState
from tests.support.fact_lane import FactLane, fact, preference
from tests.support.records import (
    CLOSED,
    KEY,
    OPENED,
    SAID,
    candidate,
    described,
    extracted,
    flush_batch,
    flush_ref,
    found,
    memo,
    signal_batch,
    tagged,
    turn,
)
from tests.unit.fuzz.mutations import Mutator, long_texts, within

VARIATIONS = 400


def said() -> ProfileState:
    """Return the record of a user who has said something."""
    lane = FactLane()
    asyncio.run(lane.say(fact("User lives in Oslo"), preference("Prefers tea"), session="s"))
    return lane.state


def forgotten() -> ProfileState:
    """Return the record of a user who is forgotten."""
    answer = Candidates(flush=flush_ref(9, 9, lane="forget", trigger="forget"), branch="forget", status="ok")
    return forget_user(said(), answer, processor="p", policy=MergePolicy(pipeline_version="v"), now=CLOSED)


STATES = [said(), forgotten()]
EMITTED = EmittedBatch(
    log_id="log", partition=0, first_offset=3, last_offset=9, trigger="idle", opened_at=OPENED, closed_at=CLOSED,
    left_out=(4,),
)  # fmt: skip
EXAMPLES: dict[type, list[Any]] = {
    ChatMessage: [
        ChatMessage(user_id="ada", role="user", content="I live in Oslo.\n我住在北京 🦜"),
        ChatMessage(
            user_id="a:b", role="tool", content="x", tenant_id="t", session_id="s", message_id="m", speaker="Ada",
            occurred_at=SAID,
        ),
        ChatMessage(user_id="ada", type="flush"),
        ChatMessage(user_id="ada", type="forget"),
    ],
    FlushBatch: [flush_batch(), signal_batch("I live in Oslo", turn("assistant", "Where?"))],
    Memo: [memo(), memo(status="failed", error="x", bullets=())],
    Candidates: [
        extracted(candidate("tea")),
        tagged(),
        described(TagHit(name="tea", evidence=("m0",))),
        found(fact("User lives in Oslo"), preference("Prefers tea")),
    ],
    ProfileDelta: [delta for state in STATES for delta in state.deltas],
    FlushEvent: [state.event for state in STATES],
    ProfileState: STATES,
    WindowState: [
        WindowState(lanes={"memo": EMITTED}, moved={"log:1": 4}, signalled=3, turns=(turn("user", "hello"),)),
    ],
}  # fmt: skip
KINDS = pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)


def check(kind: type, data: bytes) -> None:
    """Check that bytes are such a record, or are said not to be; a record that is taken can be sent on as it is."""
    with within(1, data):
        try:
            record = decode(data, kind)
        except InvalidRecord:
            return
        assert decode(encode(record), kind) == record


@KINDS
def test_a_record_with_something_wrong_is_one_or_is_refused(kind: type) -> None:
    for data in Mutator([encode(example) for example in EXAMPLES[kind]], seed=1).draw(VARIATIONS):
        check(kind, data)


@KINDS
@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused(kind: type, data: bytes) -> None:
    check(kind, data)


@KINDS
@pytest.mark.parametrize("brackets", ["[]", "{}", '{"flush":{', '{"x":['])
@pytest.mark.parametrize("levels", [900, 1_000, 10_000, 1_000_000])
def test_brackets_within_brackets_are_refused(kind: type, brackets: str, levels: int) -> None:
    data = (brackets[: len(brackets) // 2 or 1] * levels).encode()
    check(kind, data)
    example = encode(EXAMPLES[kind][0])
    check(kind, example[:-1] + b', "x": ' + b"[" * levels + b"]" * levels + b"}")


@KINDS
def test_long_texts_take_no_long_time(kind: type) -> None:
    for text in long_texts(200_000):
        check(kind, text.encode())


def test_chat_messages_with_something_wrong_are_refused_in_words() -> None:
    reasons: set[str] = set()
    for data in Mutator([encode(example) for example in EXAMPLES[ChatMessage]], seed=2).draw(4 * VARIATIONS):
        try:
            message = decode_message(data)
        except InvalidRecord as error:
            reasons.add(str(error))
            continue
        assert message.type != "message" or (message.role and message.content.strip())
        assert split_user_key(message.key) == (message.tenant_id, message.user_id)
        assert decode_message(encode(message)) == message
    assert len(reasons) > 20
    assert all(5 < len(reason) < 500 for reason in reasons)


@given(st.binary(max_size=60) | st.sampled_from([KEY, user_key("default", "a:b\x00")]))
def test_a_key_is_that_of_a_user_or_none(key: bytes) -> None:
    try:
        tenant_id, user_id = split_user_key(key)
    except InvalidRecord:
        return
    assert user_key(tenant_id, user_id) == key
