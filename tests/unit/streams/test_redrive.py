"""`record_again`: from a letter to the record that is sent again."""

from __future__ import annotations

import msgspec
import pytest

from schemas.codec import decode, encode
from schemas.dead_letters import OMITTED_HEADER, REDRIVE_HEADER, TIMESTAMP_HEADER
from schemas.flushes import FlushBatch, FlushRef, Signals
from schemas.ids import event_id
from schemas.profiles import Profile, ProfileState
from schemas.stages import Candidates, Memo, StageName
from streams.letters import read_content
from streams.redrive import Again, CannotRedrive, record_again
from tests.support.fakes import TOPICS
from tests.support.letters import id_of, parked, read, why
from tests.support.records import (
    KEY,
    candidate,
    extracted,
    flush_batch,
    flush_ref,
    found,
    memo,
    signal_batch,
)


def again(stage: StageName, value: bytes | None, *headers: tuple[str, bytes], **changes) -> Again:
    record = parked(why(stage, 7, partition=3), *headers, **{"value": value, **changes})
    (letter,) = read(record).all()
    return record_again(letter, read_content(record), TOPICS)


def test_a_chat_message_is_sent_as_it_came() -> None:
    own = ("trace", b"\xff")
    moved = ("profilestream-moved-from", b"log:1:5")
    sent = again("window", b"\xffnot JSON", own, moved, key=b"k", timestamp=1234)
    assert sent == Again(
        topic=TOPICS.messages,
        partition=3,
        key=b"k",
        value=b"\xffnot JSON",
        headers=[own, (REDRIVE_HEADER, id_of(why("window", 7, partition=3)).encode()), (TIMESTAMP_HEADER, b"1234")],
        timestamp=1234,
        ends=None,
    )


def test_a_message_that_is_sent_for_the_second_time_names_its_new_letter() -> None:
    sent = again("window", b"x", (REDRIVE_HEADER, b"the first"), (TIMESTAMP_HEADER, b"5"), timestamp=9)
    assert sent.headers == [
        (REDRIVE_HEADER, id_of(why("window", 7, partition=3)).encode()),
        (TIMESTAMP_HEADER, b"5"),
    ]


LETTERS = [
    ("summary", TOPICS.flushes, flush_batch(), ("extract", "tag")),
    ("domain", TOPICS.flushes, flush_batch(), ("domain",)),
    ("facts", TOPICS.flushes, signal_batch("I live in Oslo."), ("facts",)),
    ("extract", TOPICS.memos, memo(), ("extract",)),
    ("tag", TOPICS.memos, memo(), ("tag",)),
    ("merge", TOPICS.candidates, extracted(candidate("tea")), ("extract",)),
    ("merge", TOPICS.candidates, found(), ("facts",)),
]


def heading(record: FlushBatch | Memo | Candidates) -> FlushRef:
    return record.ref if isinstance(record, FlushBatch) else record.flush


def with_heading(record: FlushBatch | Memo | Candidates, ref: FlushRef) -> FlushBatch | Memo | Candidates:
    return msgspec.structs.replace(record, **{"ref" if isinstance(record, FlushBatch) else "flush": ref})


@pytest.mark.parametrize(("stage", "topic", "record", "branches"), LETTERS)
@pytest.mark.parametrize("times", [0, 3])
def test_a_flush_goes_to_its_stage_with_the_next_number_and_the_branches_that_failed(
    stage: StageName, topic: str, record: FlushBatch, branches: tuple[str, ...], times: int
) -> None:
    earlier = {"redrive": times, "only": branches, "letters_of": (stage,)} if times else {}
    before = msgspec.structs.replace(heading(record), **earlier)
    sent = again(stage, encode(with_heading(record, before)), timestamp=5)
    after = msgspec.structs.replace(before, redrive=times + 1, only=branches, letters_of=(stage,))
    assert (sent.topic, sent.partition, sent.key, sent.timestamp) == (topic, 3, KEY, None)
    assert decode(sent.value, type(record)) == with_heading(record, after)
    assert sent.ends == event_id(before.flush_id, after.attempt)
    assert sent.ends != event_id(before.flush_id, before.attempt)


@pytest.mark.parametrize(("stage", "topic", "record", "branches"), LETTERS)
def test_sent_twice_it_is_one_repetition(
    stage: StageName, topic: str, record: FlushBatch, branches: tuple[str, ...]
) -> None:
    first, second = (again(stage, encode(record)) for _ in range(2))
    assert first == second
    state = ProfileState(profile=Profile(tenant_id="default", user_id="ada"))
    once = state.marked(heading(record)).marked(heading(decode(first.value, type(record))))
    assert once.has_applied(heading(decode(second.value, type(record))))


def test_two_letters_of_one_branch_are_two_repetitions() -> None:
    """The one half of a message failed, and then the merge of what the other half gave."""
    batch = signal_batch("I live in Oslo. I prefer short answers.")
    merge = heading(decode(again("merge", encode(found(ref=batch.ref))).value, Candidates))
    half = decode(again("facts_half", encode(batch)).value, FlushBatch).ref
    state = ProfileState(profile=Profile(tenant_id="default", user_id="ada")).marked(batch.ref)
    for first, second in ((merge, half), (half, merge)):
        assert not state.marked(first).has_applied(second)
        assert state.marked(first).marked(second).has_applied(first)
    assert event_id(merge.flush_id, merge.attempt) != event_id(half.flush_id, half.attempt)
    # The merge fails again, of what the half gave: that is neither of them.
    third = heading(decode(again("merge", encode(found(ref=half))).value, Candidates))
    assert third.letters_of == ("facts_half", "merge")
    both = state.marked(merge).marked(half)
    assert not both.has_applied(third)
    assert not state.marked(third).has_applied(merge)


@pytest.mark.parametrize(
    ("stage", "record", "reason"),
    [
        ("archive", flush_batch(), "it can only be discarded"),
        ("index", flush_batch(), "it can only be discarded"),
        ("summary", memo(), "stage summary of this release cannot read the record: .*`offset`"),
        ("merge", extracted(status="failed"), "branch extract failed: that has a letter of its own"),
        (
            "merge",
            Candidates(flush=flush_ref(lane="forget", trigger="forget"), branch="forget", status="ok"),
            "profilestream forget USER",
        ),
    ],
)
def test_what_is_of_no_use_to_send_is_refused_with_the_reason(stage: StageName, record: object, reason: str) -> None:
    with pytest.raises(CannotRedrive, match=reason):
        again(stage, encode(record))


@pytest.mark.parametrize(
    ("stage", "left"),
    [
        ("facts", Signals(facts=("location",), preferences=("explicit",))),
        ("facts_half", Signals(facts=("location",))),
        ("preferences_half", Signals(preferences=("explicit",))),
    ],
)
def test_only_the_half_that_failed_is_read_again(stage: StageName, left: Signals) -> None:
    sent = again(stage, encode(signal_batch("I live in Oslo.")))
    batch = decode(sent.value, FlushBatch)
    assert (batch.signals, batch.ref.branches, sent.topic) == (left, ("facts",), TOPICS.flushes)


def test_a_null_value_is_no_record_of_a_stage() -> None:
    with pytest.raises(CannotRedrive, match="the value is null"):
        again("extract", None)


def test_what_is_not_in_the_letter_is_not_sent() -> None:
    with pytest.raises(CannotRedrive, match=r"900 bytes were more than the broker takes: it was at messages\[3\]@7"):
        again("window", b"", (OMITTED_HEADER, b"900"))
