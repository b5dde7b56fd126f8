"""Log lines of a worker: one format, on standard error, and of the libraries only what an operator can act on."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_LEAST: Final = {
    # What these log below is retried by themselves.
    "aiokafka": logging.ERROR,
    "faust": logging.WARNING,
    "mode": logging.WARNING,
    # Faust's services log their own start and stop under the name of the module that defines them.
    "streams.faust_app": logging.WARNING,
    "streams.tables": logging.WARNING,
    # Clients that log every request.
    "httpx": logging.WARNING,
    "httpx2": logging.WARNING,
    "httpcore": logging.WARNING,
    "httpcore2": logging.WARNING,
    "openai": logging.WARNING,
    "qdrant_client": logging.WARNING,
    "clickhouse_connect": logging.WARNING,
    "urllib3": logging.WARNING,
}
"""The least level that is printed of a logger, whatever the level of all."""

_MAX_KINDS: Final = 1_000
"""Kinds of lines that are remembered; one whose template is made up each time would be another kind each time."""


class _WithoutCancellation(logging.Filter):
    """Leaves out the traces of tasks that were cancelled because the program ends."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is to be printed."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, asyncio.CancelledError) and "reason=CancelledError" not in record.getMessage()


class _Kind:
    """Lines of one logger with one template: when one was printed last, and how many were held back since."""

    __slots__ = ("held_back", "printed")

    def __init__(self, printed: float) -> None:
        self.printed = printed
        self.held_back = 0


class OncePerWhile(logging.Filter):
    """Lets one line of a kind pass in a while, and has the next one say how many were held back.

    A client that finds no broker says so at each of its tries, for each of its connections; a stage that waits for a
    model, at each try of each of its records.

    Args:
        loggers: names of the loggers that it is about, those below them included; the lines of others pass.
        kind: what lines of one kind have in common, by default their template; None for a line that always passes.
        seconds: the while.
        monotonic: the clock.
    """

    def __init__(
        self,
        *loggers: str,
        kind: Callable[[logging.LogRecord], str | None] = lambda record: str(record.msg),
        seconds: float = 30.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._kind = kind
        self._about = [logging.Filter(name) for name in loggers]
        self._seconds = seconds
        self._monotonic = monotonic
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is to be printed."""
        if not any(about.filter(record) for about in self._about):
            return True
        common = self._kind(record)
        if common is None:
            return True
        now = self._monotonic()
        name = (record.name, common)
        kind = self._kinds.get(name)
        if kind is not None and now - kind.printed < self._seconds:
            kind.held_back += 1
            return False
        if kind is not None and kind.held_back:
            since = f"{kind.held_back} more lines like this in the last {now - kind.printed:.0f} s"
            record.msg = f"{record.getMessage()} ({since})"
            record.args = ()
        if len(self._kinds) >= _MAX_KINDS:
            self._kinds.clear()
        self._kinds[name] = _Kind(now)
        return True


def _trouble(record: logging.LogRecord) -> str | None:
    """Return why a record is tried again, without after how long; None for a line that says something else."""
    why, again, _ = record.getMessage().partition("; trying again")
    return why if again else None


def configure_logs(level: int = logging.INFO) -> None:
    """Set up logging for this process."""
    logging.basicConfig(level=level, format=_FORMAT, force=True)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_WithoutCancellation())
        handler.addFilter(OncePerWhile("aiokafka"))
        handler.addFilter(OncePerWhile("streams.lanes", kind=_trouble, seconds=10.0))
    for name, least in _LEAST.items():
        logging.getLogger(name).setLevel(max(level, least))
