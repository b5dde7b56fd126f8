"""How deltas change the facts, preferences and tags of a profile."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import decode, encode
from schemas.deltas import FactDetail, PreferenceDetail, ProfileDelta
from schemas.facts import FACT_CATEGORIES, PREFERENCE_CATEGORIES, Fact, Preference, Replacement, UserTag
from schemas.folding import MAX_REPLACED_FACTS
from schemas.profiles import Profile, apply_deltas
from tests.support.records import CLOSED, SAID

EMPTY = Profile(tenant_id="default", user_id="ada")
DAY = timedelta(days=1)


def delta(kind: str, version: int, after: str | None, **changes) -> ProfileDelta:
    values = {
        "delta_id": f"d{version}",
        "tenant_id": "default",
        "user_id": "ada",
        "version": version,
        "flush_id": "f",
        "index": 0,
        "kind": kind,
        "op": "add",
        "topic": {"fact": "location", "preference": "format", "tag": "tag"}[kind],
        "sub_topic": "coffee" if kind == "tag" else "",
        "before": None,
        "after": after,
        "added": after,
        "reason": "r",
        "evidence": (f"m{version}",),
        "update_hits": 1,
        "said_at": SAID,
        "recorded_at": CLOSED + timedelta(minutes=version),
        "processor": "rules",
        "pipeline_version": "v",
        "item_id": "" if kind == "tag" else "i1",
        "fact": FactDetail(confidence=0.9, importance=0.9, session_id="s1") if kind == "fact" else None,
        "preference": PreferenceDetail(strength=0.8, quotes=("short!",)) if kind == "preference" else None,
    }
    return ProfileDelta(**(values | changes))


def fact(version: int, after: str | None, **changes) -> ProfileDelta:
    return delta("fact", version, after, **changes)


def preference(version: int, after: str | None, **changes) -> ProfileDelta:
    return delta("preference", version, after, **changes)


def tag(version: int, count: int, **changes) -> ProfileDelta:
    return delta("tag", version, str(count), update_hits=count, **changes)


def test_a_fact_is_added_with_all_that_is_known_of_it() -> None:
    profile = apply_deltas(EMPTY, [fact(1, "用户住在杭州")])
    assert profile.version == 1
    assert profile.facts == (
        Fact(
            fact_id="i1",
            text="用户住在杭州",
            category="location",
            confidence=0.9,
            importance=0.9,
            source_session="s1",
            first_seen=SAID,
            last_confirmed=SAID,
            times_mentioned=1,
            evidence=("m1",),
            recorded_at=CLOSED + timedelta(minutes=1),
            version=1,
        ),
    )


def test_a_fact_that_is_said_again_keeps_its_source_and_its_first_time() -> None:
    again = FactDetail(confidence=0.9, importance=0.95, session_id="s2")
    changes = {"op": "confirm", "update_hits": 2, "fact": again}
    later = apply_deltas(EMPTY, [fact(1, "x"), fact(2, "x", said_at=SAID + DAY, **changes)]).facts[0]
    assert (later.source_session, later.importance, later.times_mentioned) == ("s1", 0.95, 2)
    assert (later.first_seen, later.last_confirmed) == (SAID, SAID + DAY)
    assert (later.evidence, later.version) == (("m2",), 2)
    late = apply_deltas(EMPTY, [fact(1, "x"), fact(2, "x", said_at=SAID - DAY, **changes)]).facts[0]
    assert (late.first_seen, late.last_confirmed) == (SAID - DAY, SAID)


def test_an_updated_fact_has_the_source_of_its_new_text_and_the_times_of_both() -> None:
    changed = FactDetail(confidence=0.6, importance=0.9, session_id="s2")
    profile = apply_deltas(
        EMPTY, [fact(1, "x"), fact(2, "y", op="update", topic="work", said_at=SAID + DAY, fact=changed)]
    )
    (kept,) = profile.facts
    assert (kept.fact_id, kept.text, kept.category, kept.confidence) == ("i1", "y", "work", 0.6)
    assert (kept.source_session, kept.first_seen, kept.last_confirmed) == ("s2", SAID, SAID + DAY)
    assert profile.replaced_facts == ()


def test_an_invalid_fact_is_kept_as_it_was_with_the_reason() -> None:
    gone = FactDetail(confidence=0.9, importance=0.9, session_id="s2", replaced_by="i2")
    changes = {"op": "invalidate", "before": "x", "reason": "contradicted by: y", "said_at": SAID + DAY, "fact": gone}
    before = apply_deltas(EMPTY, [fact(1, "x")])
    profile = apply_deltas(before, [fact(2, None, **changes), fact(3, "y", item_id="i2")])
    assert [each.fact_id for each in profile.facts] == ["i2"]
    assert profile.replaced_facts == (
        msgspec.structs.replace(
            before.facts[0],
            version=2,
            replaced=Replacement(
                by="i2",
                reason="contradicted by: y",
                said_at=SAID + DAY,
                recorded_at=CLOSED + timedelta(minutes=2),
            ),
        ),
    )


def test_a_deleted_fact_leaves_nothing() -> None:
    profile = apply_deltas(EMPTY, [fact(1, "x"), fact(2, None, op="delete")])
    assert (profile.facts, profile.replaced_facts, profile.version) == ((), (), 2)


@pytest.mark.parametrize("op", ["invalidate", "delete"])
def test_taking_away_a_fact_that_is_not_there_changes_nothing_but_the_version(op: str) -> None:
    assert apply_deltas(EMPTY, [fact(1, None, op=op)]) == msgspec.structs.replace(EMPTY, version=1)


def test_of_the_replaced_facts_the_newest_stay() -> None:
    deltas = []
    for number in range(MAX_REPLACED_FACTS + 3):
        deltas.append(fact(2 * number + 1, f"x{number}", item_id=f"i{number}"))
        deltas.append(fact(2 * number + 2, None, op="invalidate", item_id=f"i{number}"))
    replaced = apply_deltas(EMPTY, deltas).replaced_facts
    assert MAX_REPLACED_FACTS == 50
    assert [each.text for each in replaced] == [f"x{number}" for number in range(3, 53)]


def test_a_preference_is_added_observed_again_and_taken_away() -> None:
    stronger = PreferenceDetail(strength=0.86, strength_before=0.8, quotes=("short!", "brief!"))
    added = apply_deltas(EMPTY, [preference(1, "Prefers short answers")])
    assert added.preferences == (
        Preference(
            preference_id="i1",
            text="Prefers short answers",
            category="format",
            strength=0.8,
            quotes=("short!",),
            first_seen=SAID,
            last_confirmed=SAID,
            times_observed=1,
            evidence=("m1",),
            recorded_at=CLOSED + timedelta(minutes=1),
            version=1,
        ),
    )
    again = preference(2, "Prefers short answers", op="confirm", update_hits=2, said_at=SAID + DAY, preference=stronger)
    (kept,) = apply_deltas(added, [again]).preferences
    assert (kept.strength, kept.quotes, kept.times_observed) == (0.86, ("short!", "brief!"), 2)
    assert (kept.first_seen, kept.last_confirmed, kept.version) == (SAID, SAID + DAY, 2)
    assert apply_deltas(added, [preference(2, None, op="delete")]).preferences == ()


def test_a_tag_counts_and_remembers_when_it_was_first_and_last_seen() -> None:
    deltas = [tag(1, 1), tag(2, 2, op="confirm", said_at=SAID + DAY), tag(3, 3, op="confirm", said_at=SAID - DAY)]
    assert apply_deltas(EMPTY, deltas).tags == (
        UserTag(name="coffee", count=3, first_seen=SAID - DAY, last_seen=SAID + DAY, version=3),
    )


def test_facts_and_preferences_stay_in_the_order_in_which_they_came_and_tags_in_that_of_their_names() -> None:
    deltas = [
        fact(1, "b", item_id="i2"),
        fact(2, "a", item_id="i1"),
        preference(3, "d", item_id="i4"),
        preference(4, "c", item_id="i3"),
        tag(5, 1, sub_topic="旅行"),
        tag(6, 1, sub_topic="coffee"),
        fact(7, "b", item_id="i2", op="confirm"),
        preference(8, "e", item_id="i4", op="update"),
        tag(9, 2, sub_topic="旅行"),
    ]
    profile = apply_deltas(EMPTY, deltas)
    assert [each.text for each in profile.facts] == ["b", "a"]
    assert [each.text for each in profile.preferences] == ["e", "c"]
    assert [(each.name, each.count) for each in profile.tags] == [("coffee", 1), ("旅行", 2)]


def test_a_fact_and_a_preference_of_one_id_are_two_things() -> None:
    profile = apply_deltas(EMPTY, [fact(1, "x"), preference(2, "y"), fact(3, None, op="delete")])
    assert (profile.facts, [each.text for each in profile.preferences]) == ((), ["y"])


@pytest.mark.parametrize(
    ("broken", "complaint"),
    [
        (fact(1, "x", fact=None), "delta d1 of kind fact has no detail of a fact"),
        (preference(1, "x", preference=None), "delta d1 of kind preference has no detail of a preference"),
        (fact(1, "x", topic="format"), "category"),
        (preference(1, "x", topic="location"), "category"),
    ],
)
def test_a_delta_that_does_not_fit_its_kind_is_refused(broken: ProfileDelta, complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint):
        apply_deltas(EMPTY, [broken])


def test_the_profile_before_is_untouched() -> None:
    before = apply_deltas(EMPTY, [fact(1, "x"), preference(2, "y"), tag(3, 1)])
    copy = decode(encode(before), Profile)
    apply_deltas(before, [fact(4, None, op="invalidate"), preference(5, None, op="delete"), tag(6, 2)])
    assert before == copy


shares = st.floats(0, 1)
moments = st.integers(-400, 400).map(lambda hours: SAID + timedelta(hours=hours))
texts = st.sampled_from(["x", "y", "用户住在杭州"])


@st.composite
def histories(draw) -> list[ProfileDelta]:
    """Deltas of all kinds in the order of their versions, fitting or not what was there before."""
    deltas = []
    for version in range(1, draw(st.integers(0, 40)) + 1):
        kind = draw(st.sampled_from(["fact", "fact", "preference", "tag"]))
        op = draw(st.sampled_from(["add", "update", "confirm", "delete", "invalidate"]))
        common = {"op": op, "said_at": draw(moments), "update_hits": draw(st.integers(1, 9))}
        after = None if op in {"delete", "invalidate"} else draw(texts)
        item_id = draw(st.sampled_from(["i1", "i2", "i3"]))
        if kind == "tag":
            deltas.append(delta(kind, version, "1", **common, sub_topic=item_id))
        elif kind == "fact":
            detail = FactDetail(confidence=draw(shares), importance=draw(shares))
            topic = draw(st.sampled_from(FACT_CATEGORIES))
            deltas.append(delta(kind, version, after, **common, item_id=item_id, topic=topic, fact=detail))
        else:
            strength = PreferenceDetail(strength=draw(shares))
            topic = draw(st.sampled_from(PREFERENCE_CATEGORIES))
            deltas.append(delta(kind, version, after, **common, item_id=item_id, topic=topic, preference=strength))
    return deltas


@given(histories(), st.data())
def test_folding_is_the_same_in_whatever_pieces_and_through_the_wire(deltas: list[ProfileDelta], data) -> None:
    whole = apply_deltas(EMPTY, deltas)
    cut = data.draw(st.integers(0, len(deltas)))
    stored = decode(encode(apply_deltas(EMPTY, deltas[:cut])), Profile)
    sent = [decode(encode(each), ProfileDelta) for each in deltas[cut:]]
    assert apply_deltas(stored, sent) == whole
    assert whole.version == len(deltas)


@given(histories())
def test_what_is_there_is_what_the_last_delta_of_each_thing_left(deltas: list[ProfileDelta]) -> None:
    profile = apply_deltas(EMPTY, deltas)
    last = {(each.kind, each.item_id or each.sub_topic): each for each in deltas}
    facts = {item: each.after for (kind, item), each in last.items() if kind == "fact" and each.after}
    preferences = {item: each.after for (kind, item), each in last.items() if kind == "preference" and each.after}
    assert {each.fact_id: each.text for each in profile.facts} == facts
    assert {each.preference_id: each.text for each in profile.preferences} == preferences
    assert {each.name: each.version for each in profile.tags} == {
        item: each.version for (kind, item), each in last.items() if kind == "tag"
    }
    for item in (*profile.facts, *profile.preferences):
        assert item.first_seen <= item.last_confirmed
    assert len(profile.replaced_facts) <= sum(each.op == "invalidate" for each in deltas)
    versions = [each.version for each in profile.replaced_facts]
    assert versions == sorted(versions)
    assert all(each.replaced is not None for each in profile.replaced_facts)
    assert all(each.replaced is None for each in profile.facts)


@given(st.integers(0, 130))
def test_there_are_never_more_than_fifty_replaced_facts(count: int) -> None:
    deltas = []
    for number in range(count):
        deltas.append(fact(2 * number + 1, f"x{number}"))
        deltas.append(fact(2 * number + 2, None, op="invalidate"))
    assert len(apply_deltas(EMPTY, deltas).replaced_facts) == min(count, 50)
