"""`DeltaWriter`: ids and versions of a flush's changes, and the count of its tags."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agents.changes import Change
from agents.delta_writer import DeltaWriter
from agents.merge import count_tags
from schemas.deltas import FactDetail, ProfileDelta
from schemas.ids import delta_id
from schemas.profiles import Profile, apply_deltas
from schemas.stages import TagHit
from tests.support.records import CLOSED, SAID, candidate, described, flush_ref

REF = flush_ref()
EMPTY = Profile(tenant_id="default", user_id="ada")


def writer(profile: Profile = EMPTY, ref=REF) -> DeltaWriter:
    return DeltaWriter(profile, ref, processor="p", pipeline_version="v", now=CLOSED)


def write(into: DeltaWriter, after: str | None, op: str = "add", item_id: str = "f1") -> None:
    into.write(
        "fact", op, "location", "", before=None, after=after, added=after, reason="r", evidence=("m0",), hits=1,
        said_at=SAID, item_id=item_id, fact=FactDetail(confidence=0.9, importance=0.9),
    )  # fmt: skip


def test_a_delta_has_the_ids_of_its_flush_and_the_next_version() -> None:
    made = writer(Profile(tenant_id="default", user_id="ada", version=7))
    write(made, "x")
    assert made.deltas == [
        ProfileDelta(
            delta_id=delta_id(REF.flush_id, 0),
            tenant_id="default",
            user_id="ada",
            version=8,
            flush_id=REF.flush_id,
            index=0,
            kind="fact",
            op="add",
            topic="location",
            sub_topic="",
            before=None,
            after="x",
            added="x",
            reason="r",
            evidence=("m0",),
            update_hits=1,
            said_at=SAID,
            recorded_at=CLOSED,
            processor="p",
            pipeline_version="v",
            item_id="f1",
            fact=FactDetail(confidence=0.9, importance=0.9),
        )
    ]


@pytest.mark.parametrize("looks", [set(), {0}, {1, 2}, {0, 1, 2, 3}])
def test_versions_have_no_gap_whenever_the_profile_is_looked_at(looks: set[int]) -> None:
    before = Profile(tenant_id="default", user_id="ada", version=3)
    made = writer(before)
    for number in range(4):
        if number in looks:
            assert made.profile.version == 3 + number
        write(made, f"x{number}", item_id=f"f{number}")
    assert [(delta.index, delta.version) for delta in made.deltas] == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert made.profile == apply_deltas(before, made.deltas)
    assert made.profile is made.profile


def test_what_was_just_written_is_in_the_profile() -> None:
    made = writer()
    assert made.profile is EMPTY
    write(made, "x")
    assert [fact.text for fact in made.profile.facts] == ["x"]
    write(made, None, "delete")
    assert made.profile.facts == ()


def test_slots_count_how_often_their_content_was_given_and_take_the_time_of_their_newest_evidence() -> None:
    made = writer()
    hour = timedelta(hours=1)
    tea = candidate("tea", evidence=("m0", "m2"))
    made.write_slots(
        [
            Change(tea, "add", None, "tea", "tea", "new"),
            Change(tea, "confirm", "tea", "tea", None, "again"),
            Change(tea, "organise", "tea", "tea", None, "moved", hits=9, said_at=SAID - hour),
        ],
        {"m0": SAID, "m2": SAID + hour},
    )
    assert [(delta.op, delta.update_hits, delta.said_at) for delta in made.deltas] == [
        ("add", 1, SAID + hour),
        ("confirm", 2, SAID + hour),
        ("organise", 9, SAID - hour),
    ]


def test_each_tag_of_a_flush_counts_one_more() -> None:
    first = writer()
    count_tags(described(TagHit(name="旅行", evidence=("m0",)), TagHit(name="Coffee", evidence=("m0", "m2"))), first)
    assert [(delta.kind, delta.topic, delta.sub_topic) for delta in first.deltas] == [
        ("tag", "tag", "旅行"),
        ("tag", "tag", "Coffee"),
    ]
    travel, coffee = first.deltas
    assert (travel.op, travel.before, travel.after, travel.update_hits, travel.added) == ("add", None, "1", 1, None)
    assert (travel.said_at, travel.assertion, travel.item_id) == (REF.last_occurred_at, "inferred", "")
    assert (coffee.evidence, coffee.reason) == (("m0", "m2"), "fits the conversation, place 2 of 2")

    ref = flush_ref(3, 5, last_occurred_at=SAID + timedelta(days=1))
    second = writer(first.profile, ref)
    count_tags(described(TagHit(name="Coffee", evidence=("m3",)), ref=ref), second)
    (again,) = second.deltas
    assert (again.op, again.before, again.after, again.update_hits, again.version) == ("confirm", "1", "2", 2, 3)
    assert [(tag.name, tag.count, tag.last_seen) for tag in second.profile.tags] == [
        ("Coffee", 2, SAID + timedelta(days=1)),
        ("旅行", 1, REF.last_occurred_at),
    ]


def test_without_hits_nothing_is_counted() -> None:
    made = writer()
    count_tags(described(), made)
    assert (made.deltas, made.profile) == ([], EMPTY)
