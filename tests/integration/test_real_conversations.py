"""Ten days of conversations of thirty people, through publisher, worker and stores: everything adds up."""

from __future__ import annotations

import json

import pytest

from benchmarks.accounts import account, report
from tests.integration.pipeline_support import FAST
from tests.support.conversations import conversation_files

pytestmark = [pytest.mark.data, pytest.mark.long, pytest.mark.timeout(300)]


async def test_every_message_is_accounted_for_and_every_user_has_a_profile() -> None:
    files = conversation_files()
    lines = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    found = await account(files, FAST)
    report(files, found, show=3)
    assert found.problems == []
    assert (found.refused, found.written.messages) == (0, len(lines))
    assert {user for _, user in found.profiles} == {line["user_id"] for line in lines}
    assert all(slot.evidence for profile in found.profiles.values() for slot in profile.slots)
