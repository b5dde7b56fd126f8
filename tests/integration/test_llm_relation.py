"""`LLMProcessor` against a scripted server: how two statements relate, however the model says it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from agents.llm import LLMProcessor
from benchmarks.model_server import ModelServer, Reply
from schemas.pipeline import PipelineConfig
from streams.settings import ModelSettings


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def processors(server: ModelServer) -> AsyncIterator[Callable[..., LLMProcessor]]:
    """Makes processors for the server, from settings."""
    made: list[LLMProcessor] = []

    def make(**settings: object) -> LLMProcessor:
        values = {"base_url": server.url, "name": "big", "attempts": 1, **settings}
        made.append(LLMProcessor(ModelSettings(**values), PipelineConfig()))
        return made[-1]

    yield make
    for each in made:
        await each.close()


@pytest.mark.parametrize(
    ("answer", "relation"),
    [
        ({"relation": "duplicate"}, "duplicate"),
        ({"relation": " UPDATE."}, "update"),
        ("Conflict", "conflict"),
        ("They are different: one is about work.", "different"),
        ("```json\n{'relation': 'update'}\n```", "update"),
    ],
)
async def test_the_relation_of_two_statements(server, processors, answer, relation) -> None:
    server.say(answer)
    related = await processors().relate("fact", "User lives in Rome", "User lives in <Oslo>")
    assert (related.relation, related.dropped) == (relation, ())
    assert [(call.stage, call.outcome) for call in related.calls] == [("relation", "ok")]
    (request,) = server.requests
    assert request.body["max_completion_tokens"] == 256
    assert request.user == (
        '<known kind="fact">User lives in Rome</known>\n<new kind="fact">User lives in &lt;Oslo&gt;</new>'
    )


@pytest.mark.parametrize(
    ("answer", "outcomes"),
    [
        pytest.param("update or conflict", ["unreadable_answer"] * 2, id="two words"),
        pytest.param("I cannot tell.", ["unreadable_answer"] * 2, id="no word"),
        pytest.param("It is not a duplicate", ["unreadable_answer"] * 2, id="denied"),
        pytest.param({"relation": None}, ["unreadable_answer"] * 2, id="null"),
        pytest.param({"relation": "update, or a conflict"}, ["ok"], id="two in the object"),
        pytest.param({"relation": "same"}, ["ok"], id="another word"),
        pytest.param("", ["empty_answer"] * 2, id="empty"),
        pytest.param(Reply(content="upd", finish_reason="length"), ["answer_cut_off"] * 2, id="cut off"),
        pytest.param(Reply(refusal="no"), ["model_refused"] * 2, id="refused"),
        pytest.param(Reply(status=400), ["model_rejected"], id="rejected"),
    ],
)
async def test_without_a_usable_answer_there_is_no_relation(server, processors, answer, outcomes) -> None:
    server.script = lambda _: answer
    related = await processors().relate("preference", "Prefers tea", "Prefers coffee")
    assert related.relation is None
    assert [(drop.stage, drop.reason) for drop in related.dropped] == [("relation", "unreadable_relation")]
    assert related.dropped[0].detail
    assert [call.outcome for call in related.calls] == outcomes


async def test_a_relation_gets_no_more_room_than_the_settings_allow(server, processors) -> None:
    server.say({"relation": "update"})
    await processors(max_completion_tokens=64).relate("fact", "a", "b")
    assert server.requests[0].body["max_completion_tokens"] == 64
