"""`LLMProcessor` against a scripted server: regrouping a topic, shortening a value, and which model is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from agents.llm import LLMProcessor
from agents.processor import Group, StageFailed, StageUnavailable, StoredValue
from benchmarks.model_server import ModelServer, Reply
from schemas.pipeline import PipelineConfig, SubTopic, Topic
from streams.settings import ModelSettings
from tests.support.records import flush_batch, memo

VALUES = [
    StoredValue(number=1, sub_topic="tea", value="green tea since 2019"),
    StoredValue(number=2, sub_topic="coffee", value="espresso"),
    StoredValue(number=3, sub_topic="figs", value="figs"),
]
LONG = StoredValue(number=1, sub_topic="home", value="moved to Lyon in May 2021, " * 20)


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def processors(server: ModelServer) -> AsyncIterator[Callable[..., LLMProcessor]]:
    """Makes processors for the server, from settings and the configuration."""
    made: list[LLMProcessor] = []

    def make(settings: dict[str, object] | None = None, **config: object) -> LLMProcessor:
        values = {"base_url": server.url, "name": "big", "attempts": 1, **(settings or {})}
        made.append(LLMProcessor(ModelSettings(**values), PipelineConfig(**config)))
        return made[-1]

    yield make
    for each in made:
        await each.close()


def group(sub_topic: str, memo: str, *values: object) -> dict[str, object]:
    return {"sub_topic": sub_topic, "memo": memo, "values": list(values)}


def reasons(result) -> list[str]:
    return [drop.reason for drop in result.dropped]


# Organise


async def test_a_topic_is_regrouped(server, processors) -> None:
    server.say({"groups": [group(" Hot Drinks", "green tea since 2019; espresso", 1, 2), group("food", "figs", 3)]})
    organisation = await processors().organise("interest", VALUES, 2)
    assert organisation.groups == (
        Group(sub_topic="hot_drinks", value="green tea since 2019; espresso", sources=(1, 2)),
        Group(sub_topic="food", value="figs", sources=(3,)),
    )
    assert organisation.dropped == ()
    assert [(call.stage, call.model, call.outcome) for call in organisation.calls] == [("organise", "big", "ok")]
    (request,) = server.requests
    assert (request.stage, request.body["temperature"]) == ("organise", 0)
    assert '<value n="1" sub_topic="tea">green tea since 2019</value>' in request.user


async def test_groups_that_cannot_be_used_are_counted(server, processors) -> None:
    server.say(
        {
            "groups": [
                group("drinks", "green tea since 2019", 1, 7, "x"),
                group("more drinks", "espresso", 1, 2),
                group("again", "tea", 1),
                group("...", "figs", 3),
                group("food", "not mentioned", 3),
                group("t" * 65, "figs", 3),
                group("food", "f" * 16_001, 3),
            ]
        }
    )
    organisation = await processors().organise("interest", VALUES, 2)
    assert organisation.groups == (
        Group(sub_topic="drinks", value="green tea since 2019", sources=(1,)),
        Group(sub_topic="more_drinks", value="espresso", sources=(2,)),
    )
    assert reasons(organisation) == [
        "unknown_number", "unknown_number", "number_used_twice", "number_used_twice", "no_values", "no_slot",
        "says_nothing", "name_too_long", "value_too_long",
    ]  # fmt: skip
    assert {drop.stage for drop in organisation.dropped} == {"organise"}


async def test_groups_of_one_name_become_one(server, processors) -> None:
    server.say({"groups": [group("drinks", "green tea since 2019", 1), group("Drinks ", "espresso", 2, 3)]})
    organisation = await processors().organise("interest", VALUES, 2)
    assert organisation.groups == (
        Group(sub_topic="drinks", value="green tea since 2019; espresso", sources=(1, 2, 3)),
    )


@pytest.mark.parametrize("strict", [False, True])
async def test_strict_mode_keeps_to_the_slots_of_that_topic(server, processors, strict) -> None:
    own = (
        Topic(topic="Interest", sub_topics=(SubTopic(name="Hot Drinks"),)),
        Topic(topic="work", sub_topics=(SubTopic(name="food"),)),
    )
    server.say({"groups": [group("hot drinks", "tea", 1, 2), group("food", "figs", 3)]})
    processor = processors(profile_strict_mode=strict, overwrite_user_profiles=own)
    organisation = await processor.organise("interest", VALUES, 2)
    assert [each.sub_topic for each in organisation.groups] == (["hot_drinks"] if strict else ["hot_drinks", "food"])
    assert reasons(organisation) == (["slot_not_configured"] if strict else [])
    assert "<slots>hot_drinks</slots>" in server.requests[0].user


# Shorten


async def test_a_value_is_shortened(server, processors) -> None:
    server.say({"memo": " moved to Lyon in May 2021\n"})
    shortening = await processors().shorten("life_event", LONG, 64)
    assert shortening.value == "moved to Lyon in May 2021"
    assert [(call.stage, call.outcome) for call in shortening.calls] == [("shorten", "ok")]
    (request,) = server.requests
    assert (request.stage, request.body["temperature"]) == ("shorten", 0)
    assert request.user.startswith('<budget>64</budget>\n<value slot="life_event/home">moved to Lyon')


@pytest.mark.parametrize("value", ["not mentioned", "", "无"])
async def test_words_for_nothing_are_no_shorter_value(server, processors, value) -> None:
    server.say({"memo": value})
    shortening = await processors().shorten("life_event", LONG, 64)
    assert (shortening.value, reasons(shortening)) == ("", ["says_nothing"])
    assert len(shortening.calls) == 1


TIDYING = {
    "organise": lambda processor: processor.organise("interest", VALUES, 2),
    "shorten": lambda processor: processor.shorten("life_event", LONG, 64),
}


@pytest.mark.parametrize("stage", TIDYING)
@pytest.mark.parametrize(
    ("fault", "error", "outcomes"),
    [
        pytest.param(Reply(status=500), StageUnavailable, ["model_unavailable"], id="500"),
        pytest.param(Reply(status=400), StageFailed, ["model_rejected"], id="400"),
        pytest.param(Reply(content="{", finish_reason="length"), StageFailed, ["answer_cut_off"] * 2, id="length"),
        pytest.param(Reply(content="None."), StageFailed, ["unreadable_answer"] * 2, id="prose"),
    ],
)
async def test_failures_carry_their_calls(server, processors, stage, fault, error, outcomes) -> None:
    server.script = lambda _: fault
    with pytest.raises(error) as caught:
        await TIDYING[stage](processors())
    assert [(call.stage, call.outcome) for call in caught.value.calls] == [(stage, each) for each in outcomes]


# Which model


@pytest.mark.parametrize(
    ("settings", "config", "models"),
    [
        ({}, {}, ("big", "big")),
        ({"summary_name": "small"}, {}, ("small", "big")),
        ({}, {"best_llm_model": "best"}, ("best", "best")),
        ({"summary_name": "small"}, {"best_llm_model": "best"}, ("small", "best")),
        ({"summary_name": "small"}, {"summary_llm_model": "tiny"}, ("tiny", "big")),
        ({"name": ""}, {"best_llm_model": "best", "summary_llm_model": "tiny"}, ("tiny", "best")),
    ],
)
async def test_the_configuration_names_models_before_the_settings(server, processors, settings, config, models) -> None:
    server.say({"bullets": []}, {"facts": []})
    processor = processors(settings, **config)
    await processor.summarise(flush_batch(), [])
    await processor.extract(memo(), [])
    assert tuple(request.model for request in server.requests) == models
    assert processor.name == models[1]
