"""How dead letters are chosen and printed on the command line."""

from __future__ import annotations

import io
import json
import re
from datetime import timedelta

import msgspec
import pytest
from rich.console import Console

from schemas.codec import encode
from schemas.dead_letters import Decision
from schemas.messages import user_key
from schemas.stages import StageName
from streams.cli.common import CommandFailed
from streams.cli.letter_choice import Wanted, named, present
from streams.cli.letter_printing import letter_line, letter_object, print_letter, value_lines, whole_letter_object
from streams.cli.printing import local_time
from streams.letters import Letter, read_content
from tests.support.letters import FAILED, StoredRecord, decided, id_of, parked, read, why

NOBODY = Wanted(stage=None, reason=None, user=None, tenant=None, since=None, limit=None)
ODD = "a:b\x1b[2J"


def letter(stage: StageName, offset: int, user: tuple[str, str] | None = None, **changes) -> StoredRecord:
    return parked(why(stage, offset, **changes), key=user_key(*user) if user else None, value=b"")


HOUR = timedelta(hours=1)
LETTERS = read(
    letter("extract", 0, ("default", "ada"), reason="model_unavailable"),
    letter("extract", 1, ("t", "ada"), failed_at=FAILED + HOUR),
    letter("tag", 2, ("t", ODD), failed_at=FAILED + 2 * HOUR),
    letter("window", 3, failed_at=FAILED + 3 * HOUR),
).all()


@pytest.mark.parametrize(
    ("wanted", "offsets"),
    [
        ({}, [0, 1, 2, 3]),
        ({"stage": "extract"}, [0, 1]),
        ({"reason": "model_unavailable"}, [0]),
        ({"user": "ada"}, [0, 1]),
        ({"user": "ada", "tenant": "t"}, [1]),
        ({"tenant": "t"}, [1, 2]),
        ({"user": ODD}, [2]),
        ({"user": ""}, []),
        ({"since": FAILED + HOUR}, [1, 2, 3]),
        ({"limit": 2}, [0, 1]),
        ({"stage": "extract", "limit": 1, "since": FAILED + HOUR}, [1]),
    ],
)
def test_letters_are_chosen_by_what_they_are(wanted: dict[str, object], offsets: list[int]) -> None:
    choice = NOBODY._replace(**wanted)
    assert [found.why.offset for found in choice.of(LETTERS)] == offsets
    assert choice.anything is (wanted in ({}, {"user": ""}))


def states(*decisions: Decision) -> list[Letter]:
    reasons = [why("tag", offset) for offset in range(len(decisions) + 1)]
    records = [decided(reason, decision) for reason, decision in zip(reasons, decisions, strict=False)]
    return read(*map(parked, reasons), *records).all()


def test_letters_of_users_who_are_forgotten_are_shown_no_more() -> None:
    letters = states("redriven", "discarded", "forgotten", "redriving")
    assert [one.why.offset for one in present(letters, every=False)] == [3, 4]
    assert [one.why.offset for one in present(letters, every=True)] == [0, 1, 3, 4]
    with pytest.raises(CommandFailed, match=f"was forgotten on {re.escape(local_time(FAILED))}: it is shown"):
        named(letters, [id_of(why("tag", 2))])


def test_letters_are_named_by_the_beginnings_of_their_ids() -> None:
    first, second = LETTERS[0].letter_id, LETTERS[1].letter_id
    assert named(LETTERS, [second[:12], first.upper(), second]) == [LETTERS[1], LETTERS[0]]


def test_a_beginning_must_be_that_of_one_letter() -> None:
    letters = read(*(parked(why("tag", offset)) for offset in range(17))).all()
    initials = [one.letter_id[0] for one in letters]
    twice = next(initial for initial in initials if initials.count(initial) > 1)
    with pytest.raises(CommandFailed, match=f"ids that begin with '{twice}': give more of it"):
        named(letters, [twice])
    for nothing in ("", "nonsense"):
        with pytest.raises(CommandFailed, match="list --all"):
            named(letters, [nothing])


def test_of_several_ids_the_unknown_one_is_told_and_that_nothing_was_done() -> None:
    with pytest.raises(CommandFailed, match=r"begins with 'nonsense'.*\. Nothing was done$"):
        named(LETTERS, [LETTERS[0].letter_id, "nonsense"])


def test_a_line_says_what_happened_to_whose_record() -> None:
    (one,) = read(letter("tag", 2, ("t", ODD), partition=3, detail="no\nanswer", reason="model_answer")).all()
    assert letter_line(one, 12).plain == (
        f"{one.letter_id[:12]}  {local_time(FAILED)}  tag       model_answer  t:a:b\\x1b[2J  memos[3]@2  no\\nanswer"
    )
    (closed,) = read(letter("window", 2), decided(why("window", 2), "discarded")).all()
    assert letter_line(closed, 36).plain.endswith("(nobody's)  messages[0]@2  it is wrong  discarded")


def test_an_object_has_all_that_is_known() -> None:
    records = (letter("tag", 2, ("t", ODD)), decided(why("tag", 2), "redriven"))
    (one,) = read(*records).all()
    assert json.loads(encode(letter_object(one))) == {
        "id": one.letter_id,
        "state": "redriven",
        "stage": "tag",
        "reason": "invalid_record",
        "detail": "it is wrong",
        "tenant_id": "t",
        "user_id": ODD,
        "topic": "memos",
        "partition": 0,
        "offset": 2,
        "attempts": 1,
        "failed_at": "2026-03-01T12:00:00Z",
        "resolved_at": "2026-03-01T12:00:00Z",
        "resolved_because": "tried",
    }


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (b'{"a": "\xe6\x9d\x8e"}', {"value": '{"a": "李"}'}),
        (b"\xff\x00", {"value": None, "value_base64": "/wA="}),
        (None, {"value": None}),
        (b"", {"value": ""}),
    ],
)
def test_an_object_has_the_record_as_it_came(value: bytes | None, fields: dict[str, object]) -> None:
    record = parked(why("window", 1), ("h", b"\xff"), key=b"k", value=value, timestamp=1_500)
    (one,) = read(record).all()
    whole = json.loads(encode(whole_letter_object(one, read_content(record), "too late")))
    assert {name: text for name, text in whole.items() if name.startswith("value")} == fields
    assert (whole["key"], whole["headers"]) == ("k", [["h", "\\xff"]])
    assert (whole["timestamp"], whole["redrivable"], whole["objection"]) == (
        "1970-01-01T00:00:01.500000Z",
        False,
        "too late",
    )


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        (b'{"b":1e999,"b":[1]}', ["{", '  "b": 1e999,', '  "b": [', "    1", "  ]", "}"]),
        ('{"a":"李雷"}'.encode(), ["{", '  "a": "李雷"', "}"]),
        (b"not JSON\nat all\x1b", ["not JSON", "at all\\x1b"]),
        (b'{"a":"\xff"}', ["{", '  "a": "\\xff"', "}"]),
        (b"[" * 10_000, ["[" * 10_000]),
        (b"[" * 10_000 + b"]" * 10_000, ["[" * 10_000 + "]" * 10_000]),
        (b"", [""]),
    ],
    ids=["duplicates and huge numbers", "other scripts", "no JSON", "no UTF-8", "cut off", "deep", "nothing"],
)
def test_a_value_is_printed_as_far_as_it_can_be_read(value: bytes, lines: list[str]) -> None:
    assert value_lines(value) == lines


def printed(record: StoredRecord, *decisions: StoredRecord, objection: str | None = None) -> str:
    (one,) = read(record, *decisions).all()
    console = Console(width=40, markup=False, highlight=False, file=io.StringIO())
    print_letter(console, one, read_content(record), objection)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_letter_is_printed_with_its_record() -> None:
    reason = msgspec.structs.replace(why("window", 2), detail="`role` is missing\x1b", attempts=3)
    record = parked(reason, ("own\n", b"\xff"), key=user_key("t", ODD), value=b'{"a":1}', timestamp=0)
    said = printed(record)
    assert "\x1b" not in said
    for line in (
        f"letter    {id_of(reason)}",
        "state     open",
        "reason    invalid_record: `role` is missing\\x1b",
        f"failed    {local_time(FAILED)}, 3 tries",
        "user      t:a:b\\x1b[2J",
        "redrive   possible",
        "key       t:a:b\\x1b[2J",
        "header    own\\n: \\xff",
        "value     7 bytes",
        '  "a": 1',
    ):
        assert line in said.splitlines()


def test_a_letter_that_cannot_be_redriven_says_why() -> None:
    record = parked(why("window", 2), key=None, value=None)
    said = printed(record, objection="there is no use").splitlines()
    assert "redrive   not possible: there is no use" in said
    assert {"key       null", "value     null"} <= set(said)


@pytest.mark.parametrize("state", ["redriven", "discarded"])
def test_a_letter_that_is_closed_says_when_and_why_and_nothing_of_redriving(state: Decision) -> None:
    said = printed(parked(why("window", 2)), decided(why("window", 2), state)).splitlines()
    assert f"state     {state} on {local_time(FAILED)}: tried" in said
    assert not [line for line in said if line.startswith("redrive")]
