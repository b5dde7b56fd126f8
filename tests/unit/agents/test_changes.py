"""What a flush may do to a profile stays within what a record can hold."""

from datetime import UTC, datetime

from agents.changes import MAX_CHANGED_BYTES, MAX_PROFILE_BYTES, MAX_SLOT_CHARACTERS, Change, Changes
from schemas.profiles import Profile, Slot
from schemas.stages import Candidate


def candidate(memo: str, sub_topic: str = "likes") -> Candidate:
    return Candidate(topic="interest", sub_topic=sub_topic, memo=memo, evidence=("m1",))


def add(memo: str, sub_topic: str = "likes") -> Change:
    return Change(candidate(memo, sub_topic), "add", None, memo, memo, "new")


def profile(slots: int, value: str) -> Profile:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return Profile(
        tenant_id="t",
        user_id="u",
        version=slots,
        slots=tuple(
            Slot(
                topic="interest",
                sub_topic=f"s{number}",
                value=value,
                update_hits=1,
                evidence=("m",),
                assertion="said",
                first_said_at=moment,
                said_at=moment,
                recorded_at=moment,
                version=number + 1,
            )
            for number in range(slots)
        ),
    )


def reasons(changes: Changes) -> list[str]:
    return [dropped.reason for dropped in changes.dropped]


def test_changes_are_seen_by_those_after_them() -> None:
    changes = Changes(profile(1, "tea"))
    changes.make(add("jazz"))
    changes.make(Change(candidate("tea", "s0"), "delete", "tea", None, None, "taken back"))
    assert dict(changes.values) == {("interest", "likes"): "jazz"}
    assert [change.op for change in changes.made] == ["add", "delete"]


def test_a_slot_does_not_grow_beyond_its_limit_but_may_shrink() -> None:
    changes = Changes(profile(0, ""))
    changes.make(add("x" * MAX_SLOT_CHARACTERS))
    longer = "x" * (MAX_SLOT_CHARACTERS + 1)
    changes.make(Change(candidate("x"), "append", "x" * MAX_SLOT_CHARACTERS, longer, "x", "more"))
    assert reasons(changes) == ["slot_full"]
    over = "x" * (MAX_SLOT_CHARACTERS + 9)
    changes.make(Change(candidate("y"), "update", over, longer, "y", "shorter than before, though still long"))
    assert len(changes.made) == 2


def test_nothing_is_added_to_a_profile_that_is_full_but_things_can_be_taken_away() -> None:
    value = "汉" * 5_000
    changes = Changes(profile(MAX_PROFILE_BYTES // (15_000 + 500), value))
    changes.make(add("x" * 15_000))
    assert reasons(changes) == ["profile_full"]
    changes.make(Change(candidate(value, "s0"), "delete", value, None, None, "taken back"))
    changes.make(add("x" * 15_000))
    assert [change.op for change in changes.made] == ["delete", "add"]


def test_the_changes_of_one_flush_are_bounded_together() -> None:
    changes = Changes(profile(0, ""))
    for number in range(MAX_CHANGED_BYTES // 20_000 + 3):
        changes.make(add("x" * 10_000, f"n{number}"))
    assert len(changes.made) == MAX_CHANGED_BYTES // 20_000
    assert set(reasons(changes)) == {"flush_full"}
