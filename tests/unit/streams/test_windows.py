"""`Windows`: which messages make a window, why it closes, and that its deadlines cost little."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.windows import Closed, WindowPolicy, Windows

KEY = b"default:u"


def windows(**policy) -> Windows[str]:
    return Windows(WindowPolicy(**({"tokens": 10, "messages": 5, "idle": 60.0, "age": 100.0} | policy)))


def add(
    found: Windows[str], item: str, *, key: bytes = KEY, tokens: int = 1, session: str | None = None, now: float = 0.0
) -> list[tuple[list[str], str]]:
    return brief(found.add(key, item, tokens=tokens, session=session, now=now))


def brief(closed: Iterable[Closed[str]]) -> list[tuple[list[str], str]]:
    return [(window.items, window.trigger) for window in closed]


def test_a_message_that_would_exceed_the_budget_closes_the_window_before_it() -> None:
    found = windows(tokens=10)
    assert add(found, "a", tokens=6) == []
    assert add(found, "b", tokens=5) == [(["a"], "tokens")]
    assert brief(found.close(KEY, "flush")) == [(["b"], "flush")]


def test_a_window_that_reaches_the_budget_exactly_closes_with_the_message() -> None:
    found = windows(tokens=10)
    assert add(found, "a", tokens=6) == []
    assert add(found, "b", tokens=4) == [(["a", "b"], "tokens")]
    assert KEY not in found


def test_a_message_larger_than_the_budget_is_a_window_of_its_own() -> None:
    found = windows(tokens=10)
    assert add(found, "large", tokens=25) == [(["large"], "tokens")]
    assert add(found, "a", tokens=2) == []
    assert add(found, "large", tokens=10) == [(["a"], "tokens"), (["large"], "tokens")]
    assert len(found) == 0
    assert found.items == 0


def test_a_window_closes_with_its_last_message() -> None:
    found = windows(messages=3)
    assert [add(found, item) for item in "abc"] == [[], [], [(["a", "b", "c"], "messages")]]


def test_a_message_without_tokens_counts_as_a_message() -> None:
    found = windows(messages=2)
    assert add(found, "a", tokens=0) == []
    assert add(found, "b", tokens=0) == [(["a", "b"], "messages")]


def test_a_quiet_window_closes_when_its_idle_time_has_passed() -> None:
    found = windows(idle=60.0)
    add(found, "a", now=0.0)
    add(found, "b", now=30.0)
    assert brief(found.due(89.9)) == []
    assert brief(found.due(90.0)) == [(["a", "b"], "idle")]
    assert brief(found.due(1000.0)) == []


def test_a_busy_window_closes_when_it_is_too_old() -> None:
    found = windows(idle=60.0, age=100.0)
    for now in (0.0, 50.0, 99.0):
        add(found, "x", now=now)
    assert brief(found.due(99.9)) == []
    assert brief(found.due(100.0)) == [(["x", "x", "x"], "age")]


def test_a_closed_window_says_when_it_was_opened_and_how_large_it_is() -> None:
    found = windows()
    add(found, "a", tokens=3, now=7.0)
    add(found, "b", tokens=4, now=8.0)
    assert found.close(KEY, "flush") == [Closed(KEY, ["a", "b"], 7, 7.0, "flush")]


@pytest.mark.parametrize(("first", "second"), [("s1", "s2"), (None, "s1"), ("s1", None)])
def test_a_change_of_session_closes_the_window_when_that_is_set(first: str | None, second: str | None) -> None:
    split, joint = windows(by_session=True), windows(by_session=False)
    for found in (split, joint):
        assert add(found, "a", session=first) == []
        assert add(found, "b", session=first) == []
    assert add(split, "c", session=second) == [(["a", "b"], "session")]
    assert add(joint, "c", session=second) == []


def test_closing_a_user_without_window_closes_nothing() -> None:
    assert windows().close(KEY, "flush") == []


def test_all_windows_close_with_the_oldest_first() -> None:
    found = windows()
    for now, key in enumerate((b"c", b"a", b"b")):
        add(found, key.decode(), key=key, now=float(now))
    add(found, "c2", key=b"c", now=9.0)
    assert brief(found.close_all("shutdown")) == [
        (["c", "c2"], "shutdown"),
        (["a"], "shutdown"),
        (["b"], "shutdown"),
    ]
    assert len(found) == found.items == 0


def test_a_deadline_does_not_close_the_next_window_of_its_user() -> None:
    found = windows(idle=60.0)
    add(found, "a", now=0.0)
    found.close(KEY, "flush")
    add(found, "b", now=30.0)
    assert brief(found.due(60.0)) == []
    assert brief(found.due(90.0)) == [(["b"], "idle")]


def test_clearing_forgets_windows_and_deadlines() -> None:
    found = windows()
    add(found, "a")
    found.clear()
    assert len(found) == found.items == 0
    assert brief(found.due(1e9)) == []


def test_a_busy_window_has_one_deadline_however_many_messages_it_gets() -> None:
    found = windows(tokens=10**9, messages=10**9, idle=60.0, age=1e9)
    for second in range(10_000):
        add(found, "x", now=float(second))
        assert brief(found.due(float(second))) == []
        assert len(found._deadlines) == 1


def test_deadlines_of_closed_windows_last_no_longer_than_the_idle_time() -> None:
    found = windows(messages=1, idle=60.0)
    for second in range(5_000):
        add(found, "x", now=float(second))
        list(found.due(float(second)))
        assert len(found._deadlines) <= 60
    assert brief(found.due(6_000.0)) == []
    assert found._deadlines == []


def test_deadlines_of_closed_windows_go_even_while_their_user_has_an_open_one() -> None:
    found = windows(messages=2, idle=60.0)
    for second in range(5_000):
        add(found, "x", now=float(second))
        list(found.due(float(second)))
        assert len(found._deadlines) <= 32


def test_a_thousand_users_close_when_each_is_due() -> None:
    found = windows(idle=60.0, age=1e9)
    for user in range(1_000):
        add(found, f"{user}", key=f"{user}".encode(), now=float(user))
    assert len(found) == found.items == 1_000
    assert brief(found.due(500.0)) == [([f"{user}"], "idle") for user in range(441)]
    assert len(found) == 559


class Naive:
    """What the windows should do, by looking at every user each time."""

    def __init__(self, policy: WindowPolicy) -> None:
        self.policy = policy
        self.open: dict[bytes, list[tuple[str, int, str | None, float]]] = {}

    def add(self, key: bytes, item: str, tokens: int, session: str | None, now: float) -> list[tuple[list[str], str]]:
        closed = []
        window = self.open.get(key, [])
        if window and self.policy.by_session and window[-1][2] != session:
            closed += self.close(key, "session")
        elif window and sum(each[1] for each in window) + tokens > self.policy.tokens:
            closed += self.close(key, "tokens")
        window = self.open.setdefault(key, [])
        window.append((item, tokens, session, now))
        if sum(each[1] for each in window) >= self.policy.tokens:
            closed += self.close(key, "tokens")
        elif len(window) == self.policy.messages:
            closed += self.close(key, "messages")
        return closed

    def close(self, key: bytes, trigger: str) -> list[tuple[list[str], str]]:
        window = self.open.pop(key, [])
        return [([each[0] for each in window], trigger)] if window else []

    def due(self, now: float) -> list[tuple[list[str], str]]:
        closed = []
        for key, window in list(self.open.items()):
            if now >= window[0][3] + self.policy.age:
                closed += self.close(key, "age")
            elif now >= window[-1][3] + self.policy.idle:
                closed += self.close(key, "idle")
        return closed


KEYS = st.sampled_from([b"a", b"b", b"c"])
STEPS = st.one_of(
    st.tuples(st.just("add"), KEYS, st.integers(0, 14), st.sampled_from([None, "s", "t"])),
    st.tuples(st.just("close"), KEYS),
    st.tuples(st.just("tick"), st.integers(1, 40)),
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(STEPS, max_size=60),
    st.builds(
        WindowPolicy,
        tokens=st.integers(1, 12),
        messages=st.integers(1, 5),
        idle=st.integers(1, 50).map(float),
        age=st.integers(1, 80).map(float),
        by_session=st.booleans(),
    ),
)
def test_windows_are_those_of_a_plain_implementation(steps: list[tuple], policy: WindowPolicy) -> None:
    found: Windows[str] = Windows(policy)
    naive = Naive(policy)
    now = 0.0
    for number, step in enumerate(steps):
        match step:
            case ("add", key, tokens, session):
                item = f"{number}"
                assert add(found, item, key=key, tokens=tokens, session=session, now=now) == naive.add(
                    key, item, tokens, session, now
                )
            case ("close", key):
                assert brief(found.close(key, "flush")) == naive.close(key, "flush")
            case ("tick", seconds):
                now += seconds
                assert sorted(brief(found.due(now))) == sorted(naive.due(now))
        assert len(found) == len(naive.open)
        assert found.items == sum(map(len, naive.open.values()))
