"""The whole program with a language model whose server is busy, broken and talkative by turns."""

from __future__ import annotations

import random
from typing import Any

import pytest

from benchmarks.accounts import account
from benchmarks.harness import Overrides
from benchmarks.model_server import ModelServer, Reply, Request
from benchmarks.scripted_answers import ScriptedModel
from schemas.pipeline import PipelineConfig
from streams.samples import sample_names, sample_path
from tests.integration.pipeline_support import FAST

pytestmark = pytest.mark.timeout(180)

FAULTS = (
    (0.05, Reply(status=429, headers={"Retry-After": "0.2"})),
    (0.10, Reply(status=500)),
    (0.12, Reply(drop=True)),
)
PROSE = Reply(content="I found nothing useful, sorry.")
PROSE_AT = {5, 60}
"""Far apart: an answer that is prose twice over fails its flush, as it should."""


@pytest.mark.long
async def test_a_troubled_model_costs_time_and_nothing_else() -> None:
    chance = random.Random(3)
    model = ScriptedModel(PipelineConfig())
    faults = requests = 0

    async def script(request: Request) -> Reply | dict[str, Any]:
        nonlocal faults, requests
        requests += 1
        if requests in PROSE_AT:
            return PROSE
        drawn = chance.random()
        for below, fault in FAULTS:
            if drawn < below:
                faults += 1
                return fault
        return await model(request)

    async with ModelServer(script) as server:
        settings: Overrides = {
            **FAST,
            "model": {"processor": "llm", "base_url": server.url, "api_key": "key", "name": "scripted"},
            "window": {"by_session": True},
        }
        found = await account([sample_path(name) for name in sample_names()], settings)
    assert found.problems == []
    assert faults > 3
    events = {event.event_id: event for event in found.written.events}.values()
    assert {event.outcome for event in events} <= {"applied", "empty"}
    assert {event.processor for event in events} == {"scripted"}
    assert any(call.attempts > 1 for event in events for call in event.calls)
    assert len(found.profiles) == 6
    assert all(slot.evidence for profile in found.profiles.values() for slot in profile.slots)
