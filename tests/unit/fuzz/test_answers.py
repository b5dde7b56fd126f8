"""Whatever a model answers, in every format: items that can be used, or `UnreadableAnswer`; never anything else.

Answers go the whole way, through the processor and the checks of the stages, and what comes out can be sent.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agents.domain import describe
from agents.extract import extract
from agents.facts import read_facts
from agents.llm.answers import UnreadableAnswer, read_answer
from agents.llm.client import Completed
from agents.llm.formats import (
    BULLETS,
    COMPARED_FACTS,
    DECISIONS,
    DOMAIN,
    FACTS,
    GROUPS,
    PREFERENCES,
    RELATION,
    SHORT,
    SLOTS,
    TAGS,
    AnswerFormat,
)
from agents.llm.processor import LLMProcessor
from agents.llm.relations import relation_in
from agents.processor import Proposal, StageFailed, StoredValue
from agents.stage_agent import PartlyFailed
from agents.summary import summarise
from agents.tag import tag
from schemas.codec import decode, encode
from schemas.flushes import Signals
from schemas.pipeline import DomainConfig, EventTagDefinition, PipelineConfig
from schemas.profiles import Profile
from schemas.stages import Candidates, Memo
from streams.settings import ModelSettings
from tests.support.fact_lane import FactLane, fact, preference
from tests.support.records import candidate, memo, signal_batch
from tests.unit.fuzz.mutations import Mutator, long_texts, within

VARIATIONS = 150
SECONDS = 2.0
SAID = "I live in Oslo now, and I prefer tea."
ANSWERS: dict[str, tuple[AnswerFormat[Any], dict[str, Any]]] = {
    "summary": (
        BULLETS,
        {"bullets": [{"text": "lives in Oslo", "messages": [1, 2]}, {"text": "住在北京", "messages": "1"}]},
    ),
    "extract": (
        SLOTS,
        {
            "facts": [
                {"topic": "basic_info", "sub_topic": "location", "memo": "Oslo", "bullets": [1], "assertion": "said"},
                {"topic": "interest", "sub_topic": "tea", "memo": "tea", "bullets": "[1]", "retracts": True},
            ]
        },
    ),
    "tag": (TAGS, {"tags": [{"tag": "mood", "value": "glad"}]}),
    "merge": (
        DECISIONS,
        {
            "decisions": [
                {"number": 1, "action": "UPDATE", "value": "Oslo", "reason": "moved"},
                {"number": 2, "action": "ABORT"},
            ]
        },
    ),
    "organise": (GROUPS, {"groups": [{"sub_topic": "drinks", "memo": "tea; mate", "values": [1, 2]}]}),
    "shorten": (SHORT, {"memo": "tea"}),
    "facts": (FACTS, {"facts": [{"fact": "User lives in Oslo", "category": "location", "confidence": 0.9}]}),
    "facts_compared": (
        COMPARED_FACTS,
        {"facts": [{"fact": "User lives in Oslo", "category": "location", "conflicts_with": 1, "repeats": None}]},
    ),
    "preferences": (
        PREFERENCES,
        {"preferences": [{"preference": "Prefers tea", "strength": "80%", "evidence": 'says "I prefer tea"'}]},
    ),
    "relation": (RELATION, {"relation": "update"}),
    "domain": (DOMAIN, {"facts": ["User lives in Oslo"], "domain": ["Oslo", "tea"]}),
}
FORMATS = pytest.mark.parametrize("name", ANSWERS)


def wrapped(answer: dict[str, Any]) -> list[bytes]:
    """Return an answer in the dresses that models give it."""
    strict = json.dumps(answer, ensure_ascii=False)
    texts = [
        strict,
        f"```json\n{strict}\n```",
        f"<think>draft {{}} [1]</think>\n{strict}",
        f"Sure: {strict} OK?",
        str(answer),
    ]
    return [text.encode() for text in texts]


class Model:
    """Stands in for the client: gives one answer, whatever it is asked."""

    def __init__(self) -> None:
        self.text = ""

    async def complete(self, _prompt: object, answer_format: AnswerFormat[Any], **_: object) -> Completed[Any]:
        try:
            return Completed(answer=await read_answer(self.text, answer_format), calls=())
        except UnreadableAnswer as error:
            raise StageFailed("unreadable_answer", str(error)) from error


CONFIG = PipelineConfig(event_tags=(EventTagDefinition(name="mood"),), domain=DomainConfig(enabled=True))
BATCH = signal_batch(SAID)
VALUES = [StoredValue(number=1, sub_topic="tea", value="green"), StoredValue(number=2, sub_topic="mate", value="cold")]
PROPOSALS = [
    Proposal(number=1, candidate=candidate("Oslo"), present="Bergen"),
    Proposal(number=2, candidate=candidate("tea", retracts=True), present="tea; mate"),
]


async def known() -> Profile:
    lane = FactLane()
    await lane.say(fact("User lives in Bergen"), preference("Prefers mate"))
    return lane.state.profile


def stages(processor: LLMProcessor, profile: Profile) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return what each answer is asked for, by the name of the answer."""
    facts = BATCH if BATCH.signals is None else signal_batch(SAID, preferences=())
    likes = signal_batch(SAID, facts=())
    assert likes.signals == Signals(preferences=("explicit",))
    return {
        "summary": lambda: summarise(BATCH, processor, []),
        "extract": lambda: extract(memo(), processor, []),
        "tag": lambda: tag(memo(), processor, {"mood"}),
        "merge": lambda: processor.merge(PROPOSALS, memo()),
        "organise": lambda: processor.organise("interest", VALUES, 1),
        "shorten": lambda: processor.shorten("interest", VALUES[0], 10),
        "facts": lambda: read_facts(facts, processor, None),
        "facts_compared": lambda: read_facts(facts, processor, profile),
        "preferences": lambda: read_facts(likes, processor, profile),
        "relation": lambda: processor.relate("fact", "User lives in Bergen", "User lives in Oslo"),
        "domain": lambda: describe(BATCH, processor, None),
    }


@FORMATS
async def test_an_answer_with_something_wrong_is_used_as_far_as_it_goes(name: str) -> None:
    model = Model()
    processor = LLMProcessor(ModelSettings(name="m", api_key="k"), CONFIG, client=model)  # type: ignore[arg-type]
    stage = stages(processor, await known())[name]
    used = 0
    others = [text for _, answer in ANSWERS.values() for text in wrapped(answer)]
    for data in Mutator(wrapped(ANSWERS[name][1]) * len(ANSWERS) + others, seed=6).draw(VARIATIONS):
        model.text = data.decode("utf-8", "replace")
        with within(SECONDS, model.text):
            try:
                result = await stage()
            except (StageFailed, PartlyFailed):
                continue
        used += 1
        sent = encode(result)
        if isinstance(result, Memo | Candidates):
            assert decode(sent, type(result)) == result
    assert used > 5


@FORMATS
async def test_a_valid_answer_is_used_in_each_of_its_dresses(name: str) -> None:
    for data in wrapped(ANSWERS[name][1]):
        assert (await read_answer(data.decode(), ANSWERS[name][0])).items


@pytest.mark.parametrize("length", [15_000, 250_000])
async def test_no_answer_takes_the_square_of_its_length(length: int) -> None:
    """The shorter ones are repaired as well."""
    formats = [answer_format for answer_format, _ in ANSWERS.values()]
    for number, text in enumerate(long_texts(length)):
        with within(SECONDS, text):
            for answer_format in (BULLETS, formats[number % len(formats)]):
                try:
                    await read_answer(text, answer_format)
                except UnreadableAnswer:
                    continue


@pytest.mark.parametrize(
    "bullets", ["[{}]", '[{{"text": "ok"}}, {{"text": {}}}]', '[{{"text": "ok", "messages": {}}}]']
)
async def test_an_answer_of_any_depth_is_read_or_refused(bullets: str) -> None:
    for levels in [*range(1, 40), *range(40, 1_200, 7), 100_000]:
        for opening, closing in (("[", "]"), ('{"a":', "}")):
            inner = opening * levels + "1" + closing * levels
            for text in (f'{{"bullets": {bullets.format(inner)}}}', f"Sure: {{'bullets': {bullets.format(inner)}}}"):
                with within(SECONDS, text):
                    try:
                        answer = await read_answer(text, BULLETS)
                    except UnreadableAnswer:
                        continue
                encode(answer.dropped)


@pytest.mark.parametrize("half", [r"\ud83e", r"\udd9c\ud83e", r"\ud83e\ud83e"])
@pytest.mark.parametrize(
    "answer",
    [
        '{{"bullets": [{{"text": "{0}", "messages": [1]}}]}}',
        '{{"bullets": [{{"text": "tea", "messages": ["{0}", 1]}}]}}',
        '{{"bullets": [{{"text": "tea", "{0}": 1}}]}}',
        '{{"{0}": 1, "bullets": [{{"text": "tea"}}]}}',
        '{{"bullets": [{{"text": "tea"}}, {{"no_text": "{0}"}}]}}',
    ],
)
async def test_halves_of_surrogate_pairs_get_no_further(half: str, answer: str) -> None:
    text = answer.format(half)
    for each in (text, f"Sure: {text}", text.replace('"', "'")):
        try:
            read = await read_answer(each, BULLETS)
        except UnreadableAnswer:
            continue
        for item in read.items:
            item.text.encode()
        encode(read.dropped)


def test_any_text_names_one_relation_or_none() -> None:
    names = ["It is an update.", "duplicate", "这两个是冲突的", "They are not different, no conflict"]
    for data in Mutator([name.encode() for name in names], seed=7).draw(1_000):
        relation_in(data.decode("utf-8", "replace"))
    for length in (4_000, 1_000_000):
        for text in long_texts(length):
            with within(0.5, text):
                relation_in(text)
