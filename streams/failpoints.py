"""Fail points: places in the protocols at which a test has the process killed, to see what comes of it.

They exist only where the environment variable `VARIABLE` is set to ``name:count`` when the process starts. It then ends
itself with SIGKILL when it comes to that place for the count-th time. Without the variable, passing one is a call that
compares with None.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from typing import Final, Literal, get_args

from streams.settings.names import TEST_PREFIX

VARIABLE: Final = TEST_PREFIX + "FAILPOINT"

FailPoint = Literal[
    "window.after_table",
    "window.after_send",
    "merge.after_table",
    "merge.after_send",
    "move.after_send",
    "park.after_send",
    "archive.mid_insert",
    "index.mid_upsert",
]
"""Where a process can be killed.

``window.after_table``: it is durable which batch a window makes, and the batch is not sent. ``window.after_send``: the
batch is sent, its messages are not acknowledged. ``merge.after_table``: a flush is applied to the profile, its deltas
and its event are not sent. ``merge.after_send``: they are sent, the answers of the branches are not acknowledged.
``move.after_send``, ``park.after_send``: a message was sent on to the partition of its user, a record to the dead
letters, and is not acknowledged. ``archive.mid_insert``, ``index.mid_upsert``: the store has a batch, whose records are
not acknowledged.
"""

FAIL_POINTS: Final[tuple[FailPoint, ...]] = get_args(FailPoint)


def _kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Trap:
    """Kills the process at one fail point, the count-th time.

    Args:
        name: of the fail point.
        count: from 1.
        kill: ends the process.
    """

    def __init__(self, name: FailPoint, count: int, kill: Callable[[], None] = _kill_this_process) -> None:
        self.name = name
        self.count = count
        self._kill = kill

    def pass_by(self, name: FailPoint) -> None:
        """Take notice that the process has come to a fail point."""
        if name == self.name:
            self.count -= 1
            if self.count == 0:
                self._kill()


def trap_of(environment: Mapping[str, str]) -> Trap | None:
    """Return the trap that an environment asks for, or None.

    Raises:
        ValueError: when the variable does not name a fail point and a count.
    """
    wanted = environment.get(VARIABLE)
    if not wanted:
        return None
    name, _, count = wanted.partition(":")
    for known in FAIL_POINTS:
        if name == known and count.isdecimal() and int(count) > 0:
            return Trap(known, int(count))
    raise ValueError(f"{VARIABLE} must be NAME:COUNT with one of {', '.join(FAIL_POINTS)}, not {wanted!r}")


_trap: Final = trap_of(os.environ)


def fail_point(name: FailPoint) -> None:
    """Mark a place at which a test may have the process killed."""
    if _trap is not None:
        _trap.pass_by(name)
