"""Log lines: what repeats itself is said once in a while, and everything else as it comes."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from streams.logs import OncePerWhile, configure_logs


class Lines:
    """A handler behind the filter, with a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._out = io.StringIO()
        self._handler = logging.StreamHandler(self._out)
        self._handler.addFilter(OncePerWhile("client", seconds=30, monotonic=lambda: self.now))

    def log(self, logger: str, template: str, *arguments: object) -> None:
        self._handler.handle(logging.LogRecord(logger, logging.ERROR, "", 0, template, arguments, None))

    @property
    def printed(self) -> list[str]:
        return self._out.getvalue().splitlines()


def test_a_line_that_repeats_itself_is_printed_once_in_a_while_with_the_number_of_the_others() -> None:
    lines = Lines()
    for node in range(5):
        lines.log("client.conn", "no node %s", node)
        lines.now += 7
    assert lines.printed == ["no node 0"]
    lines.log("client.conn", "no node %s", 5)
    assert lines.printed[1:] == ["no node 5 (4 more lines like this in the last 35 s)"]
    lines.now += 30
    lines.log("client.conn", "no node %s", "with 100%")
    assert lines.printed[2:] == ["no node with 100%"]


def test_lines_of_another_template_or_logger_are_others() -> None:
    lines = Lines()
    for logger, template in [("client", "a"), ("client", "b"), ("client.conn", "a"), ("client", "a")]:
        lines.log(logger, template)
    assert lines.printed == ["a", "b", "a"]


def test_lines_of_other_loggers_pass() -> None:
    lines = Lines()
    for logger in ("clients", "streams", "streams"):
        lines.log(logger, "a")
    assert lines.printed == ["a", "a", "a"]


def test_templates_that_are_made_up_each_time_take_no_room_for_ever() -> None:
    lines = Lines()
    for number in range(1_500):
        lines.log("client", f"number {number}")
    assert len(lines.printed) == 1_500
    lines.log("client", "number 1499")
    assert len(lines.printed) == 1_500


@pytest.fixture
def restored() -> Iterator[None]:
    """Leave the logging of the process as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logger.level for name, logger in _loggers(root).items()}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, logger in _loggers(root).items():
        logger.setLevel(levels.get(name, logging.NOTSET))


def _loggers(root: logging.Logger) -> dict[str, logging.Logger]:
    named = root.manager.loggerDict
    return {name: logger for name, logger in named.items() if isinstance(logger, logging.Logger)}


@pytest.mark.usefixtures("restored")
def test_a_worker_says_once_that_its_broker_is_away_and_everything_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs()
    for _ in range(3):
        logging.getLogger("aiokafka.conn").error("Unable connect to %s", "node 1")
        logging.getLogger("streams.lanes").info("waiting")
    said = capsys.readouterr().err
    assert said.count("Unable connect to node 1") == 1
    assert said.count("waiting") == 3


@pytest.mark.usefixtures("restored")
def test_many_records_that_wait_for_the_same_say_it_once(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs()
    lanes = logging.getLogger("streams.lanes")
    for seconds in (0.5, 1.0, 2.0):
        for stage, trouble in (("summary", "no model"), ("summary", "a bad key, 100%s"), ("facts", "no model")):
            lanes.warning("%s: %s; trying again in %.1f s", stage, trouble, seconds)
    said = [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    assert said == [
        "summary: no model; trying again in 0.5 s",
        "summary: a bad key, 100%s; trying again in 0.5 s",
        "facts: no model; trying again in 0.5 s",
    ]
