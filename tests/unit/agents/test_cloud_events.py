"""`delta_headers`: what a consumer of CloudEvents reads of a delta."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import msgspec
import pytest

from agents.cloud_events import delta_headers
from schemas.codec import decode, encode
from schemas.deltas import ProfileDelta
from tests.support.records import CLOSED, SAID
from tests.unit.agents.test_merge_agent import Worker, World

DELTA = ProfileDelta(
    delta_id="6f0e3b1c-3f52-5d0e-8a67-2d3f7c1f9a55",
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

# RFC 3339, section 5.6, in upper case.
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def headers_of(log_id: str = "log", **changes) -> dict[str, str]:
    delta = msgspec.structs.replace(DELTA, **changes)
    found = delta_headers(delta, log_id)
    assert len({name for name, _ in found}) == len(found)
    return {name: value.decode() for name, value in found}


def test_a_delta_is_a_cloud_event_in_binary_mode() -> None:
    assert headers_of() == {
        "ce_specversion": "1.0",
        "ce_id": "6f0e3b1c-3f52-5d0e-8a67-2d3f7c1f9a55",
        "ce_source": "/profilestream/log",
        "ce_type": "profilestream.profile.delta.v1",
        "ce_subject": "default:ada",
        "ce_time": "2026-03-01T12:00:00Z",
        "content-type": "application/json",
    }


def test_a_delta_that_is_sent_again_has_the_same_headers() -> None:
    assert delta_headers(decode(encode(DELTA), ProfileDelta), "log") == delta_headers(DELTA, "log")


@pytest.mark.parametrize(
    ("recorded_at", "written"),
    [
        (CLOSED + timedelta(microseconds=250), "2026-03-01T12:00:00.000250Z"),
        (datetime(2026, 3, 1, 20, tzinfo=timezone(timedelta(hours=8))), "2026-03-01T12:00:00Z"),
    ],
)
def test_the_time_is_in_utc(recorded_at: datetime, written: str) -> None:
    time = headers_of(recorded_at=recorded_at)["ce_time"]
    assert time == written
    assert RFC_3339.fullmatch(time)


def test_the_source_is_a_reference_whatever_the_log_is_called() -> None:
    assert headers_of(log_id="a b/日志")["ce_source"] == "/profilestream/a%20b%2F%E6%97%A5%E5%BF%97"


@pytest.mark.parametrize("user_id", ["安娜", "a:b", "🦊", "عمر", "50%"])
def test_a_subject_is_written_as_it_is(user_id: str) -> None:
    assert headers_of(user_id=user_id)["ce_subject"] == f"default:{user_id}"


@pytest.mark.parametrize("user_id", ["a\nb", "a\x7f", "\x9f", "\ufffe", "\U0001ffff", "\ufdd0"])
def test_a_subject_that_cannot_be_written_is_left_out(user_id: str) -> None:
    found = headers_of(user_id=user_id)
    assert "ce_subject" not in found
    assert found["ce_id"] == DELTA.delta_id


async def test_the_merge_sends_deltas_as_cloud_events_and_again_as_the_same_ones() -> None:
    world = World()
    world.publish(*world.flush(0, "tea"))
    first = Worker(world)
    await first.read()
    await first.die(lag=len(world.log))
    await Worker(world).read()

    sent, *again = world.sender.on("deltas")
    assert again
    assert all(record == sent for record in again)
    assert list(sent.headers) == delta_headers(decode(sent.value, ProfileDelta), "log")
    assert dict(sent.headers)["ce_id"].decode() == decode(sent.value, ProfileDelta).delta_id
    assert {tuple(event.headers) for event in world.sender.on("events")} == {()}
