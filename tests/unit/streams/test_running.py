"""`until_stopped`: what is said to be lost is what is lost."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError

from streams import running
from streams.cli.up import _missing
from streams.draining import Drained
from streams.kafka import KafkaUnavailable
from streams.outstanding import Outstanding
from streams.running import WorkerCrashed, until_stopped
from streams.settings import Settings


def crashed(outstanding: Outstanding | None) -> Any:
    async def crash() -> BaseException:
        return RuntimeError("broken")

    return SimpleNamespace(crashed=crash, outstanding=outstanding)


async def test_a_crash_on_a_log_that_is_kept_loses_nothing() -> None:
    with pytest.raises(WorkerCrashed, match=r"\(RuntimeError: broken\); nothing is lost: start it again"):
        await until_stopped(crashed(None), asyncio.Event())


async def test_a_crash_on_a_log_that_is_not_kept_says_what_is_lost() -> None:
    with pytest.raises(WorkerCrashed, match="messages in open windows and what was being processed are lost"):
        await until_stopped(crashed(Outstanding()), asyncio.Event())


@pytest.mark.parametrize(
    ("archive", "index", "said"),
    [
        (2, 3, "2 records did not reach the archive and are lost"),
        (0, 3, "3 records are archived and not in the vector index.*`profilestream reindex`"),
        (0, 0, "not every message could be read"),
    ],
)
def test_what_an_incomplete_stop_has_lost_is_said(archive: int, index: int, said: str) -> None:
    outstanding = Outstanding()
    outstanding.add([f"archive {number}" for number in range(archive)] + [f"index {number}" for number in range(index)])
    drained = Drained(
        parked=0,
        complete=False,
        archive_left=outstanding.count("archive"),
        index_left=outstanding.count("index"),
    )
    assert re.match(said, _missing(drained))


async def test_a_broker_that_goes_while_a_worker_starts_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    @asynccontextmanager
    async def opened(*_: object) -> AsyncIterator[Any]:
        async def migrate() -> None:
            pass

        yield SimpleNamespace(migrate=migrate)

    class Worker:
        @classmethod
        async def create(cls, *_: object, **_options: object) -> Worker:
            return cls()

        async def start(self) -> None:
            raise KafkaConnectionError("Unable to bootstrap")

        async def stop(self) -> None:
            ended.append("stopped")

    for name in ("open_processor", "open_archive", "open_vectors"):
        monkeypatch.setattr(running, name, opened)
    monkeypatch.setattr(running, "Worker", Worker)
    with pytest.raises(KafkaUnavailable, match=r"Kafka does not answer at 127.0.0.1:9092: start it"):
        async with running.open_worker(Settings(), embedded=False):
            pass
    assert ended == ["stopped"]
