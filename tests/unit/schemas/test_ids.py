"""Derived identifiers: the same for the same input for ever, and different for any other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schemas.ids import delta_id, derive, event_id, flush_id, message_id, slot_id


def test_ids_never_change() -> None:
    assert flush_id("log", "default", "ada", "memo", 0, 0, 2) == "6ca3c4b9-9be5-598e-8d0d-fa4a7fe85bb7"
    assert event_id("f") == "b7587bf2-b31d-5792-aa3b-6b2ed5aa0543"
    assert delta_id("f", 0) == "4a014ffe-c4ef-5ff9-944a-f5badbbb94e2"
    assert slot_id("default", "ada", "slot", "a", "b") == "0f14e275-4d98-519b-9ecf-72b789512e98"
    assert message_id("log", 3, 17) == "log:3:17"


def test_every_part_counts() -> None:
    parts = ("log", "default", "ada", "memo", 0, 1, 2)
    ids = {flush_id(*parts)}
    for index, part in enumerate(parts):
        changed = part + 10 if isinstance(part, int) else f"{part}x"
        ids.add(flush_id(*parts[:index], changed, *parts[index + 1 :]))
    assert len(ids) == len(parts) + 1


def test_kinds_do_not_collide() -> None:
    assert len({event_id("f"), derive("flush", "f"), derive("delta", "f"), derive("slot", "f"), derive("event")}) == 5


def test_parts_that_look_alike_when_joined_differ() -> None:
    alike = [
        ("a", "b"),
        ("a\x1fb",),
        ("a\\", "b"),
        ("a", "\\b"),
        ("a\\sb",),
        ("a\\\x1fb",),
        ("a\\\\sb",),
        ("", "a", "b"),
        ("a", "b", ""),
        ("ab",),
    ]
    assert len({derive("kind", *parts) for parts in alike}) == len(alike)


PARTS = st.lists(st.text(st.sampled_from("a\\s\x1f"), max_size=4), max_size=4)


@given(PARTS, PARTS)
def test_only_equal_parts_have_equal_ids(one: list[str], two: list[str]) -> None:
    assert (derive("kind", *one) == derive("kind", *two)) == (one == two)
