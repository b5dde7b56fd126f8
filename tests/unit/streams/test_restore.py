"""`streams.restore` before a cluster that has only just come up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    KafkaError,
)

from streams import restore
from streams.kafka import KafkaUnavailable
from streams.settings import KafkaSettings


class Admin:
    """Answers a question about a group after these errors."""

    def __init__(self, *errors: type[KafkaError], members: int = 0) -> None:
        self.errors = list(errors)
        self.members = members

    async def describe_consumer_groups(self, _groups: list[str]) -> list[Any]:
        if self.errors:
            raise self.errors.pop(0)
        return [SimpleNamespace(groups=[(0, "profilestream", "Stable", "consumer", "", ["member"] * self.members)])]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(restore, "_COORDINATOR_RETRY_SECONDS", 0.001)

    async def ask(answers: Admin) -> None:
        @asynccontextmanager
        async def admin(_kafka: KafkaSettings) -> AsyncIterator[Admin]:
            yield answers

        monkeypatch.setattr(restore, "admin", admin)
        await restore._refuse_while_in_use(KafkaSettings())

    return ask


async def test_a_coordinator_that_comes_up_is_waited_for(ask: Any) -> None:
    answers = Admin(GroupCoordinatorNotAvailableError, GroupLoadInProgressError)
    await ask(answers)
    assert answers.errors == []


async def test_one_that_does_not_is_said_to_be_away(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore, "_COORDINATOR_SECONDS", 0.05)
    with pytest.raises(KafkaUnavailable, match="Kafka does not answer at"):
        await ask(Admin(*[GroupCoordinatorNotAvailableError] * 1_000))


async def test_any_other_error_is_told_at_once(ask: Any) -> None:
    with pytest.raises(KafkaUnavailable, match="answers with an error"):
        await ask(Admin(GroupAuthorizationFailedError))


async def test_workers_that_run_are_counted_after_the_wait(ask: Any) -> None:
    with pytest.raises(restore.RestoreRefused, match=r"2 worker\(s\) of the group"):
        await ask(Admin(GroupCoordinatorNotAvailableError, members=2))
