"""Topics with too many slots are regrouped and long slots shortened, and never at the price of a value."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from agents.changes import Change, Changes
from agents.organise import tidy
from agents.policy import MergePolicy
from agents.processor import (
    Group,
    MergeAnswer,
    Organisation,
    Processor,
    Shortening,
    StageFailed,
    StageUnavailable,
    StoredValue,
    Summary,
)
from schemas.profiles import Profile, Slot
from schemas.stages import Candidate, ModelCall
from streams.errors import DependencyDown

CALL = ModelCall(stage="organise", model="m", outcome="ok")


def moment(day: int) -> datetime:
    return datetime(2026, 1, day, tzinfo=UTC)


def slot(sub_topic: str, value: str, *, hits: int = 1, day: int = 1, inferred: bool = False) -> Slot:
    return Slot(
        topic="interest",
        sub_topic=sub_topic,
        value=value,
        update_hits=hits,
        evidence=("old",),
        assertion="inferred" if inferred else "said",
        first_said_at=moment(1),
        said_at=moment(day),
        recorded_at=moment(day),
        version=1,
    )


class Judge:
    """A processor that gives what it was told to, or raises it."""

    name = "judge"
    version = "1"

    def __init__(self, organise: object = None, shorten: object = None) -> None:
        self._organise = organise or Organisation()
        self._shorten = shorten or Shortening()
        self.asked: list[tuple[str, tuple[StoredValue, ...], int]] = []

    async def organise(self, topic: str, values: Sequence[StoredValue], limit: int) -> Organisation:
        self.asked.append((topic, tuple(values), limit))
        if isinstance(self._organise, Exception):
            raise self._organise
        return self._organise

    async def shorten(self, topic: str, value: StoredValue, budget: int) -> Shortening:
        self.asked.append((topic, (value,), budget))
        if isinstance(self._shorten, Exception):
            raise self._shorten
        return self._shorten

    async def summarise(self, batch, known) -> Summary:
        raise AssertionError

    async def merge(self, proposals, memo) -> MergeAnswer:
        raise AssertionError


def added(profile: Profile, sub_topic: str, value: str, op: str = "add", before: str | None = None) -> Changes:
    changes = Changes(profile)
    candidate = Candidate(topic="interest", sub_topic=sub_topic, memo=value, evidence=("m1", "m2"))
    changes.make(Change(candidate, op, before, value, value, "new"))
    return changes


PROFILE = Profile(
    tenant_id="t",
    user_id="u",
    version=3,
    slots=(slot("films", "Alien", hits=2, day=3), slot("movies", "Heat 1995", hits=4, day=5), slot("tea", "oolong")),
)
POLICY = MergePolicy(pipeline_version="v", max_sub_topics=3)
REGROUPED = Organisation(
    groups=(
        Group(sub_topic="Movies", value="Alien; Heat 1995", sources=(1, 3)),
        Group(sub_topic="drinks", value="oolong; espresso", sources=(2, 4)),
    ),
    calls=(CALL,),
)


async def run(judge: Judge, changes: Changes, policy: MergePolicy = POLICY, profile: Profile = PROFILE) -> list[Change]:
    before = len(changes.made)
    await tidy(profile, changes, judge, policy)  # type: ignore[arg-type]
    return changes.made[before:]


def reasons(changes: Changes) -> list[tuple[str, str]]:
    return [(dropped.stage, dropped.reason) for dropped in changes.dropped]


async def test_a_topic_that_gains_a_slot_too_many_is_regrouped_after_the_merge() -> None:
    judge, changes = Judge(REGROUPED), added(PROFILE, "espresso", "espresso")
    made = await run(judge, changes)
    ((topic, values, limit),) = judge.asked
    assert (topic, limit) == ("interest", 2)
    assert [(value.number, value.sub_topic, value.value) for value in values] == [
        (1, "espresso", "espresso"),
        (2, "films", "Alien"),
        (3, "movies", "Heat 1995"),
        (4, "tea", "oolong"),
    ]
    assert made == [], "values 1 and 3 are espresso and Heat: the groups above lose them"
    assert reasons(changes) == [("organise", "values_lost")]


async def test_a_regrouping_that_accounts_for_every_value_becomes_changes() -> None:
    groups = (
        Group(sub_topic="Movies ", value=" Alien; Heat 1995", sources=(2, 3)),
        Group(sub_topic="drinks", value="oolong; espresso", sources=(1, 4)),
    )
    judge, changes = Judge(Organisation(groups=groups, calls=(CALL,))), added(PROFILE, "espresso", "espresso")
    made = await run(judge, changes)
    assert [(change.op, change.slot[1], change.before, change.after) for change in made] == [
        ("organise", "movies", "Heat 1995", "Alien; Heat 1995"),
        ("organise", "drinks", None, "oolong; espresso"),
        ("organise", "espresso", "espresso", None),
        ("organise", "films", "Alien", None),
        ("organise", "tea", "oolong", None),
    ]
    assert [change.hits for change in made[:2]] == [6, 2]
    assert [change.said_at for change in made[:2]] == [moment(5), moment(1)]
    assert all(change.candidate.evidence == ("m1", "m2") and change.added is None for change in made)
    assert dict(changes.values) == {
        ("interest", "movies"): "Alien; Heat 1995",
        ("interest", "drinks"): "oolong; espresso",
    }
    assert changes.calls == [CALL]


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ([("a", "Alien; Heat 1995; oolong", (2, 3, 4))], "values_unaccounted"),
        ([("a", "espresso Alien Heat 1995 oolong", (1, 2, 3, 4, 4))], "values_unaccounted"),
        ([("a", "espresso Alien Heat 1995 oolong", (1, 2, 3, 4, 9))], "values_unaccounted"),
        ([("a", "films", (1, 2, 3, 4))], "values_lost"),
        ([("a", "", (1, 4)), ("b", "Alien Heat 1995", (2, 3))], "values_lost"),
        ([("a", "espresso", (1,)), ("b", "Alien", (2,)), ("c", "Heat 1995 oolong", (3, 4))], "too_many_groups"),
        ([(" ", "espresso Alien Heat 1995 oolong", (1, 2, 3, 4))], "unclear_group_names"),
        ([("a", "espresso oolong", (1, 4)), ("A", "Alien Heat 1995", (2, 3))], "unclear_group_names"),
    ],
)
async def test_a_regrouping_that_loses_something_is_dropped_and_counted(groups: list, reason: str) -> None:
    answer = Organisation(
        groups=tuple(Group(sub_topic=name, value=value, sources=nums) for name, value, nums in groups)
    )
    changes = added(PROFILE, "espresso", "espresso")
    assert await run(Judge(answer), changes) == []
    assert reasons(changes) == [("organise", reason)]
    assert len(changes.values) == 4


async def test_in_strict_mode_groups_stay_within_the_configured_slots() -> None:
    groups = (Group(sub_topic="all", value="espresso Alien Heat 1995 oolong", sources=(1, 2, 3, 4)),)
    strict = MergePolicy(pipeline_version="v", max_sub_topics=3, allowed=frozenset({("interest", "movies")}))
    changes = added(PROFILE, "espresso", "espresso")
    assert await run(Judge(Organisation(groups=groups)), changes, strict) == []
    assert reasons(changes) == [("organise", "slot_not_configured")]


@pytest.mark.parametrize("failure", [StageFailed("x", "y", [CALL]), StageUnavailable("x", "y", [CALL])])
async def test_a_failure_is_counted_and_fails_nothing(failure: Exception) -> None:
    changes = added(PROFILE, "espresso", "word " * 200)
    assert await run(Judge(failure, failure), changes) == []
    assert reasons(changes) == [("organise", "failed"), ("shorten", "failed")]
    assert changes.calls == [CALL, CALL]


async def test_wrong_settings_wait_for_mending_here_too() -> None:
    with pytest.raises(DependencyDown):
        await run(Judge(DependencyDown("key")), added(PROFILE, "espresso", "espresso"))


async def test_nobody_is_asked_about_a_topic_that_gained_no_slot_or_has_room() -> None:
    judge = Judge(REGROUPED)
    assert await run(judge, added(PROFILE, "tea", "oolong; sencha", "append", "oolong")) == []
    roomy = MergePolicy(pipeline_version="v", max_sub_topics=4)
    assert await run(judge, added(PROFILE, "espresso", "espresso"), roomy) == []
    assert judge.asked == []


LONG = "Met Anna in Lyon in 2019 and Ben in Oslo in 2021. " + "They walked a lot. " * 20


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        ("Met Anna (Lyon, 2019), Ben (Oslo, 2021); walked a lot", None),
        ("Met people", "values_lost"),
        ("Anna Lyon 2019 Ben Oslo 2021 " * 20, "still_too_long"),
    ],
)
async def test_a_long_value_is_shortened_or_kept(value: str, outcome: str | None) -> None:
    changes = added(PROFILE, "friends", LONG)
    policy = MergePolicy(pipeline_version="v", max_slot_tokens=50)
    made = await run(Judge(shorten=Shortening(value=value)), changes, policy)
    if outcome is None:
        (change,) = made
        assert (change.op, change.before, change.after, change.hits) == ("shorten", LONG, value, 1)
        assert change.candidate.evidence == ("m1", "m2")
    else:
        assert made == []
        assert reasons(changes) == [("shorten", outcome)]
        assert changes.values["interest", "friends"] == LONG


async def test_values_that_this_flush_did_not_touch_are_left_alone() -> None:
    profile = Profile(tenant_id="t", user_id="u", version=1, slots=(slot("friends", LONG),))
    judge = Judge(shorten=Shortening(value="short"))
    policy = MergePolicy(pipeline_version="v", max_slot_tokens=50)
    assert await run(judge, added(profile, "tea", "oolong"), policy, profile) == []
    assert judge.asked == []


def test_the_judge_is_a_processor_as_far_as_it_is_used_here() -> None:
    assert {"organise", "shorten"} <= set(dir(Processor))
