"""`Versions`: what is sent again is recognised, what is missing is named, and nothing else."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from profilestream_client import Gap, ProfileDelta
from profilestream_client.versions import Versions

from tests.client.support import read, written


def seen(versions: Versions, *deltas: ProfileDelta) -> list[Gap | None]:
    """Note deltas, repeats left out, and return what was said of each that was not one."""
    said = []
    for delta in deltas:
        if not versions.repeats(delta):
            said.append(versions.gap(delta))
            versions.note(delta)
    return said


def delta(version: int, user: str = "ada", **changes) -> ProfileDelta:
    return read(written(version, user, **changes))


def test_versions_that_follow_on_each_other_are_as_they_should_be() -> None:
    assert seen(Versions(complete=True), delta(1), delta(2), delta(1, "bo"), delta(3)) == [None] * 4


def test_a_version_that_is_missing_is_named() -> None:
    said = seen(Versions(complete=True), delta(1), delta(4), delta(5))
    assert said == [None, Gap("default", "ada", expected=2, found=4), None]


def test_from_the_very_first_delta_the_first_version_is_expected() -> None:
    assert seen(Versions(complete=True), delta(7)) == [Gap("default", "ada", expected=1, found=7)]
    assert seen(Versions(complete=False), delta(7), delta(8)) == [None, None]


def test_users_of_two_tenants_are_two_users() -> None:
    assert seen(Versions(complete=True), delta(1), delta(1, tenant="acme"), delta(2)) == [None] * 3


def test_a_delta_that_is_sent_again_is_a_repeat() -> None:
    versions = Versions(complete=True)
    assert seen(versions, delta(1), delta(2)) == [None, None]
    assert versions.repeats(delta(1))
    assert versions.repeats(delta(2))
    assert not versions.repeats(delta(3))
    assert seen(versions, delta(1), delta(2), delta(3)) == [None]


def test_forgetting_may_leave_versions_out_and_the_next_one_follows_on_it() -> None:
    said = seen(Versions(complete=True), delta(1), delta(9, op="forget", kind="profile"), delta(10), delta(12))
    assert said == [None, None, None, Gap("default", "ada", expected=11, found=12)]


def test_forgetting_may_be_the_first_that_is_left() -> None:
    assert seen(Versions(complete=True), delta(9, op="forget", kind="profile"), delta(10)) == [None, None]


def test_a_numbering_that_begins_anew_is_said_once() -> None:
    again = [delta(version, pipeline_version="w", delta_id=f"again {version}") for version in (1, 2)]
    said = seen(Versions(complete=True), delta(1), delta(2), delta(3), *again)
    assert said == [None, None, None, Gap("default", "ada", expected=4, found=1), None]


def test_what_is_sent_again_from_before_the_beginning_is_no_gap() -> None:
    """Of a flush of the versions 5 to 8, the last is read first; then the flush comes again, and the next one."""
    said = seen(Versions(complete=False), *map(delta, (8, 5, 6, 7, 8, 9)))
    assert said == [None] * 5


def test_users_that_are_remembered_no_more_begin_where_they_are() -> None:
    versions = Versions(complete=True, users=1)
    assert seen(versions, delta(1), delta(1, "bo"), delta(5), delta(6), delta(8)) == [
        None,
        None,
        None,
        None,
        Gap("default", "ada", expected=7, found=8),
    ]


def test_the_user_seen_last_is_remembered() -> None:
    versions = Versions(complete=True, users=2)
    said = seen(versions, delta(1), delta(1, "bo"), delta(2), delta(1, "cy"), delta(4))
    assert said[-1] == Gap("default", "ada", expected=3, found=4)


def test_only_the_newest_deltas_are_remembered() -> None:
    versions = Versions(complete=True, deltas=2)
    seen(versions, *map(delta, (1, 2, 3)))
    assert [versions.repeats(delta(version)) for version in (1, 2, 3)] == [False, True, True]


@st.composite
def logs(draw: st.DrawFn, *, leftovers: bool = False) -> list[ProfileDelta]:
    """A user's deltas as a worker that dies at any moment writes them.

    What it sent last may be sent again, each time up to any delta, and at last as a whole. With leftovers, more of that
    may follow, from a worker that does not know yet that another has taken over.
    """
    log: list[ProfileDelta] = []
    version = 0
    for size in draw(st.lists(st.integers(1, 4), min_size=1, max_size=6)):
        flush = [delta(version + number) for number in range(1, size + 1)]
        version += size
        for sent in draw(st.lists(st.integers(0, size), max_size=3)):
            log += flush[:sent]
        log += flush
        if leftovers:
            log += flush[: draw(st.integers(0, size))]
    return log


@given(logs(leftovers=True))
def test_whatever_is_sent_again_each_delta_comes_once_and_in_order(log: list[ProfileDelta]) -> None:
    versions = Versions(complete=True)
    given_out = []
    for each in log:
        if not versions.repeats(each):
            assert versions.gap(each) is None
            versions.note(each)
            given_out.append(each.version)
    assert given_out == list(range(1, max(each.version for each in log) + 1))


@given(logs(), st.data())
def test_wherever_reading_begins_nothing_is_taken_for_missing(log: list[ProfileDelta], data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(log) - 1))
    assert set(seen(Versions(complete=False), *log[begin:])) == {None}
