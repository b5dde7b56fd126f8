"""The wire format: these bytes are on other people's topics, so a change of them must be seen."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from schemas.codec import InvalidRecord, decode, encode
from schemas.deltas import AddedValue, FlushEvent, ProfileDelta, Timings
from schemas.flushes import FlushBatch
from schemas.messages import ChatMessage
from schemas.profiles import AppliedMark, Profile, ProfileState, apply_deltas
from schemas.stages import Candidates, Dropped, EventTag, Memo, ModelCall
from schemas.windows import EmittedBatch, WindowState
from tests.support.records import CLOSED, OPENED, SAID, candidate, extracted, flush_batch, flush_ref, memo

REF = (
    '{"flush_id":"c21e5c07-a528-5866-99fc-6661b6c4f898","tenant_id":"default","user_id":"ada","lane":"memo",'
    '"log_id":"log","partition":0,"first_offset":0,"last_offset":0,"trigger":"idle",'
    '"opened_at":"2026-03-01T11:59:58.500000Z","closed_at":"2026-03-01T12:00:00Z",'
    '"first_occurred_at":"2026-02-01T09:00:00Z","last_occurred_at":"2026-02-01T09:00:00Z",'
    '"message_count":1,"token_count":30}'
)
CALL = (
    '{"stage":"extract","model":"m","outcome":"ok","prompt_tokens":7,"completion_tokens":3,"attempts":2,'
    '"duration_ms":1.5,"prompt_version":"p1"}'
)
DROPPED = '{"stage":"extract","reason":"no_evidence","detail":"x"}'
MESSAGES = '[{"message_id":"m0","role":"user","occurred_at":"2026-02-01T09:00:00Z"}]'
BULLETS = '[{"text":"likes tea","evidence":["m0"]}]'
MEMO = (
    f'{{"flush":{REF},"status":"ok","messages":{MESSAGES},"bullets":{BULLETS},'
    '"calls":[],"dropped":[],"error":null,"duration_ms":0.0}'
)
DELTA = (
    '{"delta_id":"d","tenant_id":"default","user_id":"ada","version":1,"flush_id":"f","index":0,"op":"add",'
    '"topic":"interest","sub_topic":"drinks","before":null,"after":"绿茶","added":"绿茶","reason":"first",'
    '"evidence":["m0"],"update_hits":1,"said_at":"2026-02-01T09:00:00Z","recorded_at":"2026-03-01T12:00:00Z",'
    '"processor":"rules","pipeline_version":"v","assertion":"said","kind":"slot"}'
)
EVENT = (
    f'{{"event_id":"e","flush":{REF},"outcome":"applied","memo":{BULLETS},'
    f'"tags":[{{"tag":"mood","value":"glad"}}],"messages":{MESSAGES},"delta_ids":["d"],"first_version":1,'
    f'"last_version":1,"calls":[{CALL}],"dropped":[{DROPPED}],"errors":{{"tag":"x: y"}},'
    '"timings":{"window":1500.0,"summary":0.0,"extract":0.0,"tag":0.0,"merge":0.25},'
    '"recorded_at":"2026-03-01T12:00:00Z","processor":"rules","pipeline_version":"v",'
    '"added":[{"topic":"t","sub_topic":"s","value":"v"}]}'
)
SLOT = (
    '{"topic":"interest","sub_topic":"drinks","value":"绿茶","update_hits":1,"evidence":["m0"],"assertion":"said",'
    '"first_said_at":"2026-02-01T09:00:00Z","said_at":"2026-02-01T09:00:00Z","recorded_at":"2026-03-01T12:00:00Z",'
    '"version":1}'
)

ref = flush_ref(0, 0)
call = ModelCall(
    stage="extract",
    model="m",
    outcome="ok",
    prompt_tokens=7,
    completion_tokens=3,
    attempts=2,
    duration_ms=1.5,
    prompt_version="p1",
)
dropped = Dropped(stage="extract", reason="no_evidence", detail="x")
delta = ProfileDelta(
    delta_id="d",
    tenant_id="default",
    user_id="ada",
    version=1,
    flush_id="f",
    index=0,
    op="add",
    topic="interest",
    sub_topic="drinks",
    before=None,
    after="绿茶",
    added="绿茶",
    reason="first",
    evidence=("m0",),
    update_hits=1,
    said_at=SAID,
    recorded_at=CLOSED,
    processor="rules",
    pipeline_version="v",
)
event = FlushEvent(
    event_id="e",
    flush=ref,
    outcome="applied",
    memo=memo(ref).bullets,
    tags=(EventTag(tag="mood", value="glad"),),
    messages=memo(ref).messages,
    added=(AddedValue(topic="t", sub_topic="s", value="v"),),
    delta_ids=("d",),
    first_version=1,
    last_version=1,
    calls=(call,),
    dropped=(dropped,),
    errors={"tag": "x: y"},
    timings=Timings(window=1500.0, merge=0.25),
    recorded_at=CLOSED,
    processor="rules",
    pipeline_version="v",
)
emitted = EmittedBatch(
    log_id="log", partition=0, first_offset=0, last_offset=2, trigger="idle", opened_at=OPENED, closed_at=CLOSED
)
state = ProfileState(
    profile=apply_deltas(Profile(tenant_id="default", user_id="ada"), [delta]),
    applied={"memo": AppliedMark(log_id="log", partition=0, last_offset=2)},
    deltas=(delta,),
    event=event,
)

GOLDEN = {
    "smallest message": (
        ChatMessage(user_id="ada", role="user", content="你好"),
        '{"user_id":"ada","role":"user","content":"你好"}',
    ),
    "full message": (
        ChatMessage(
            user_id="ada",
            role="user",
            content="hi",
            tenant_id="acme",
            session_id="s",
            message_id="m",
            speaker="Ada",
            occurred_at=SAID,
        ),
        '{"user_id":"ada","role":"user","content":"hi","tenant_id":"acme","session_id":"s","message_id":"m",'
        '"speaker":"Ada","occurred_at":"2026-02-01T09:00:00Z"}',
    ),
    "control event": (ChatMessage(user_id="ada", type="flush"), '{"user_id":"ada","type":"flush"}'),
    "batch": (
        flush_batch(ref),
        f'{{"ref":{REF},"messages":[{{"message_id":"m0","offset":0,"role":"user","content":"message 0",'
        '"occurred_at":"2026-02-01T09:00:00Z"}],"context":[]}',
    ),
    "memo": (memo(ref), MEMO),
    "candidates": (
        extracted(candidate("tea"), ref=ref, calls=(call,), dropped=(dropped,)),
        f'{{"flush":{REF},"branch":"extract","status":"ok","memo":{MEMO},"candidates":[{{"topic":"interest",'
        '"sub_topic":"drinks","memo":"tea","evidence":["m0"],"assertion":"said","retracts":false}],"tags":[],'
        f'"calls":[{CALL}],"dropped":[{DROPPED}],"error":null,"duration_ms":0.0}}',
    ),
    "delta": (delta, DELTA),
    "event": (event, EVENT),
    "window state": (
        WindowState(lanes={"memo": emitted}),
        '{"lanes":{"memo":{"log_id":"log","partition":0,"first_offset":0,"last_offset":2,"trigger":"idle",'
        '"opened_at":"2026-03-01T11:59:58.500000Z","closed_at":"2026-03-01T12:00:00Z"}}}',
    ),
    "profile state": (
        state,
        f'{{"profile":{{"tenant_id":"default","user_id":"ada","version":1,"slots":[{SLOT}]}},'
        '"applied":{"memo":{"log_id":"log","partition":0,"last_offset":2}},'
        f'"deltas":[{DELTA}],"event":{EVENT}}}',
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_record_has_these_bytes_and_is_read_back_from_them(name: str) -> None:
    record, text = GOLDEN[name]
    assert encode(record).decode() == text
    assert decode(text.encode(), type(record)) == record


@pytest.mark.parametrize("name", GOLDEN)
def test_fields_that_a_later_version_adds_are_ignored(name: str) -> None:
    record, text = GOLDEN[name]
    assert decode(f'{{"added_later":[1],{text[1:]}'.encode(), type(record)) == record


@pytest.mark.parametrize("record_type", [FlushBatch, Memo, Candidates, ProfileDelta, FlushEvent, ProfileState])
@pytest.mark.parametrize("data", [None, b"", b"{}", b"[]", b"null", b"\xff", b'{"ref":1,"flush":1,"profile":1}'])
def test_anything_else_is_refused(record_type: type, data: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        decode(data, record_type)


def test_a_refusal_names_the_field() -> None:
    broken = GOLDEN["delta"][1].replace('"version":1', '"version":"one"').encode()
    with pytest.raises(InvalidRecord) as refused:
        decode(broken, ProfileDelta)
    assert str(refused.value) == "Expected `int`, got `str` - at `$.version`"


def test_times_without_a_zone_are_refused() -> None:
    broken = GOLDEN["delta"][1].replace("09:00:00Z", "09:00:00").encode()
    with pytest.raises(InvalidRecord, match="timezone"):
        decode(broken, ProfileDelta)


def test_the_same_record_has_the_same_bytes() -> None:
    again = msgspec.structs.replace(event, recorded_at=CLOSED + timedelta(0))
    assert encode(again) == encode(event)
