"""The wire format: these bytes are on other people's topics, so a change of them must be seen."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from schemas.codec import InvalidRecord, decode, encode
from schemas.deltas import AddedValue, FactDetail, FlushEvent, PreferenceDetail, ProfileDelta, Timings
from schemas.flushes import FlushBatch
from schemas.messages import ChatMessage
from schemas.profiles import AppliedMark, Profile, ProfileState, apply_deltas
from schemas.stages import (
    Candidates,
    Domain,
    Dropped,
    EventTag,
    FactCandidate,
    Memo,
    ModelCall,
    PreferenceCandidate,
    TagHit,
)
from schemas.windows import EmittedBatch, WindowState
from tests.support.records import (
    CLOSED,
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
    turn,
)

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
    '"processor":"rules","pipeline_version":"v","assertion":"said","kind":"slot","item_id":"","fact":null,'
    '"preference":null}'
)
EVENT = (
    f'{{"event_id":"e","flush":{REF},"outcome":"applied","memo":{BULLETS},'
    f'"tags":[{{"tag":"mood","value":"glad"}}],"messages":{MESSAGES},"delta_ids":["d"],"first_version":1,'
    f'"last_version":1,"calls":[{CALL}],"dropped":[{DROPPED}],"errors":{{"tag":"x: y"}},'
    '"timings":{"window":1500.0,"summary":0.0,"extract":0.0,"tag":0.0,"merge":0.25,"domain":0.0,"facts":0.0},'
    '"recorded_at":"2026-03-01T12:00:00Z","processor":"rules","pipeline_version":"v",'
    '"added":[{"topic":"t","sub_topic":"s","value":"v","kind":"slot"}],"domain":null}'
)
SLOT = (
    '{"topic":"interest","sub_topic":"drinks","value":"绿茶","update_hits":1,"evidence":["m0"],"assertion":"said",'
    '"first_said_at":"2026-02-01T09:00:00Z","said_at":"2026-02-01T09:00:00Z","recorded_at":"2026-03-01T12:00:00Z",'
    '"version":1}'
)
FACTS_REF = (
    '{"flush_id":"645320b8-f4ea-5260-98b3-a9c0f2557b8b","tenant_id":"default","user_id":"ada","lane":"facts",'
    '"log_id":"log","partition":0,"first_offset":9,"last_offset":9,"trigger":"signal",'
    '"opened_at":"2026-03-01T11:59:58.500000Z","closed_at":"2026-03-01T12:00:00Z",'
    '"first_occurred_at":"2026-02-01T09:00:00Z","last_occurred_at":"2026-02-01T09:00:00Z",'
    '"message_count":1,"token_count":30}'
)
DELTA_HEAD = '{"delta_id":"d","tenant_id":"default","user_id":"ada","version":1,"flush_id":"f","index":0,'
DELTA_TAIL = (
    '"reason":"first","evidence":["m0"],"update_hits":1,"said_at":"2026-02-01T09:00:00Z",'
    '"recorded_at":"2026-03-01T12:00:00Z","processor":"rules","pipeline_version":"v",'
)
TURNS = (
    '[{"message_id":"m7","offset":7,"role":"user","content":"你好","occurred_at":"2026-02-01T09:00:00Z"},'
    '{"message_id":"m8","offset":8,"role":"assistant","content":"hi","occurred_at":"2026-02-01T09:00:00Z"}]'
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
fact_delta = msgspec.structs.replace(
    delta,
    op="invalidate",
    kind="fact",
    topic="location",
    sub_topic="",
    before="用户住在杭州",
    after=None,
    added=None,
    item_id="i",
    fact=FactDetail(confidence=0.9, importance=0.95, session_id="s", replaced_by="i2"),
)
preference_delta = msgspec.structs.replace(
    delta,
    kind="preference",
    topic="communication_style",
    sub_topic="",
    assertion="inferred",
    item_id="i",
    preference=PreferenceDetail(strength=0.65, strength_before=0.5, quotes=("简短点",)),
)
tag_delta = msgspec.structs.replace(
    delta,
    op="confirm",
    kind="tag",
    topic="tag",
    sub_topic="Coffee",
    before="1",
    after="2",
    added=None,
    assertion="inferred",
)
turns = (turn("user", "你好", 7), turn("assistant", "hi", 8))
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
        '"occurred_at":"2026-02-01T09:00:00Z"}]}',
    ),
    "batch of lane facts": (
        signal_batch("我在杭州工作", *turns),
        f'{{"ref":{FACTS_REF},"messages":[{{"message_id":"m","offset":9,"role":"user","content":"我在杭州工作",'
        f'"occurred_at":"2026-02-01T09:00:00Z","session_id":"s"}}],"context":{TURNS},'
        '"signals":{"facts":["location"],"preferences":["explicit"]}}',
    ),
    "memo": (memo(ref), MEMO),
    "candidates": (
        extracted(candidate("tea"), ref=ref, calls=(call,), dropped=(dropped,)),
        f'{{"flush":{REF},"branch":"extract","status":"ok","memo":{MEMO},"candidates":[{{"topic":"interest",'
        '"sub_topic":"drinks","memo":"tea","evidence":["m0"],"assertion":"said","retracts":false}],'
        f'"calls":[{CALL}],"dropped":[{DROPPED}]}}',
    ),
    "facts answer": (
        found(
            FactCandidate(text="用户在杭州工作", category="location", confidence=0.9, evidence=("m",), repeats="i"),
            PreferenceCandidate(
                text="偏好简短",
                category="communication_style",
                strength=0.8,
                evidence=("m",),
                quote="简短点",
                opposes="p",
            ),
            calls=(call,),
            dropped=(dropped,),
            duration_ms=1.5,
        ),
        f'{{"flush":{FACTS_REF},"branch":"facts","status":"ok","facts":[{{"text":"用户在杭州工作","category":"location",'
        '"confidence":0.9,"evidence":["m"],"conflicts_with":null,"repeats":"i"}],'
        '"preferences":[{"text":"偏好简短","category":"communication_style","strength":0.8,"evidence":["m"],'
        '"quote":"简短点","opposes":"p"}],'
        '"messages":[{"message_id":"m","role":"user","occurred_at":"2026-02-01T09:00:00Z"}],"session_id":"s",'
        f'"calls":[{CALL}],"dropped":[{DROPPED}],"duration_ms":1.5}}',
    ),
    "domain answer": (
        described(
            TagHit(name="Coffee", evidence=("m0",)),
            ref=ref,
            domain=Domain(facts=("北京今天天气晴朗",), domain=("Coffee",)),
        ),
        f'{{"flush":{REF},"branch":"domain","status":"ok","domain":{{"facts":["北京今天天气晴朗"],'
        '"domain":["Coffee"]},"hits":[{"name":"Coffee","evidence":["m0"]}]}',
    ),
    "delta": (delta, DELTA),
    "fact delta": (
        fact_delta,
        f'{DELTA_HEAD}"op":"invalidate","topic":"location","sub_topic":"","before":"用户住在杭州","after":null,"added":null,{DELTA_TAIL}'
        '"assertion":"said","kind":"fact","item_id":"i",'
        '"fact":{"confidence":0.9,"importance":0.95,"session_id":"s","replaced_by":"i2"},"preference":null}',
    ),
    "preference delta": (
        preference_delta,
        f'{DELTA_HEAD}"op":"add","topic":"communication_style","sub_topic":"","before":null,"after":"绿茶","added":"绿茶",'
        f'{DELTA_TAIL}"assertion":"inferred","kind":"preference","item_id":"i","fact":null,'
        '"preference":{"strength":0.65,"strength_before":0.5,"quotes":["简短点"]}}',
    ),
    "tag delta": (
        tag_delta,
        f'{DELTA_HEAD}"op":"confirm","topic":"tag","sub_topic":"Coffee","before":"1","after":"2","added":null,{DELTA_TAIL}'
        '"assertion":"inferred","kind":"tag","item_id":"","fact":null,"preference":null}',
    ),
    "event": (event, EVENT),
    "window state": (
        WindowState(lanes={"memo": emitted}),
        '{"lanes":{"memo":{"log_id":"log","partition":0,"first_offset":0,"last_offset":2,"trigger":"idle",'
        '"opened_at":"2026-03-01T11:59:58.500000Z","closed_at":"2026-03-01T12:00:00Z"}}}',
    ),
    "window state with turns": (WindowState(turns=turns), f'{{"turns":{TURNS}}}'),
    "profile state": (
        state,
        f'{{"profile":{{"tenant_id":"default","user_id":"ada","version":1,"slots":[{SLOT}]}},'
        '"applied":{"memo":{"log_id":"log","partition":0,"last_offset":2}},'
        f'"deltas":[{DELTA}],"event":{EVENT},"redriven":{{}},"retracted":[]}}',
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


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("delta", ',"kind":"slot","item_id":"","fact":null,"preference":null'),
        ("event", ',"domain":0.0,"facts":0.0'),
        ("event", ',"kind":"slot"'),
        ("event", ',"domain":null'),
    ],
)
def test_fields_that_an_earlier_version_had_not_have_defaults(name: str, absent: str) -> None:
    record, text = GOLDEN[name]
    assert absent in text
    assert decode(text.replace(absent, "").encode(), type(record)) == record


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
