"""`MemoLane`: one user's messages through all stages of the memo lane, without Kafka; `Script`: a model's answers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

from agents.extract import extract, failed_extraction
from agents.merge import merge_flush
from agents.policy import MergePolicy
from agents.processor import Processor, StageFailed
from agents.slots import slot_definitions
from agents.summary import failed_memo, summarise
from agents.tag import failed_tagging, tag
from benchmarks.model_server import Answer, Reply, Request
from schemas.flushes import BatchMessage, FlushBatch
from schemas.pipeline import PipelineConfig
from schemas.profiles import Profile, ProfileState, unify
from schemas.stages import Candidates, Memo
from streams.errors import RecordFailed
from tests.support.records import flush_ref

SAID = datetime(2031, 5, 2, 21, 0, tzinfo=UTC)
"""A Friday."""


def user(content: str, at: datetime = SAID) -> BatchMessage:
    """Return something that the user says; ids and offsets are given by the lane."""
    return BatchMessage(message_id="", offset=0, role="user", content=content, occurred_at=at)


def other(role: str, content: str, at: datetime = SAID) -> BatchMessage:
    """Return a message that is not the user's."""
    return BatchMessage(message_id="", offset=0, role=role, content=content, occurred_at=at)  # type: ignore[arg-type]


class Script:
    """Answers of a scripted model for each stage: one after the other, the last one again and again.

    Attributes:
        requests: what was asked, by stage.
    """

    def __init__(self, **answers: list[Answer]) -> None:
        self._answers = {stage: list(each) for stage, each in answers.items()}
        self.requests: dict[str, list[Request]] = defaultdict(list)

    def __call__(self, request: Request) -> Answer:
        stage = request.stage or ""
        self.requests[stage].append(request)
        left = self._answers.get(stage)
        if not left:
            return Reply(status=400, error=f"nothing scripted for {stage}")
        return left.pop(0) if len(left) > 1 else left[0]

    @property
    def stages(self) -> list[str]:
        """The stages that asked, each as often as it did."""
        return [stage for stage, requests in self.requests.items() for _ in requests]


def bullets(*texts: str, messages: tuple[int, ...] = (1,)) -> dict[str, Any]:
    """Return a summary's answer, every bullet citing the same messages."""
    return {"bullets": [{"text": text, "messages": list(messages)} for text in texts]}


def fact(memo: str, slot: str, *numbers: int, **more: object) -> dict[str, Any]:
    """Return one fact of an extraction's answer; `slot` is ``topic/sub_topic``."""
    topic, sub_topic = slot.split("/")
    return {"topic": topic, "sub_topic": sub_topic, "memo": memo, "bullets": list(numbers or (1,)), **more}


def facts(*items: dict[str, Any]) -> dict[str, Any]:
    """Return an extraction's answer."""
    return {"facts": list(items)}


def decisions(*items: tuple[int, str, str]) -> dict[str, Any]:
    """Return a merge's answer from numbers, actions and values."""
    return {
        "decisions": [
            {"number": number, "action": action, "value": value, "reason": "because"} for number, action, value in items
        ]
    }


class MemoLane:
    """Runs flushes of one user through summary, extract and tag, and merge, and keeps the profile.

    A branch that fails answers as its agent lets it; whatever else is raised comes out.

    Attributes:
        state: the record after the last flush.
        memo: the last summary.
    """

    def __init__(self, processor: Processor, config: PipelineConfig | None = None) -> None:
        self._processor = processor
        self._config = config or PipelineConfig()
        definitions = slot_definitions(self._config)
        self._allowed = frozenset(definitions) if self._config.profile_strict_mode else None
        self._policy = MergePolicy(
            pipeline_version="v",
            validate_all=self._config.profile_validate_mode,
            validate_slots=frozenset(name for name, slot in definitions.items() if slot.validate_value),
            update_descriptions={name: slot.update_description for name, slot in definitions.items()},
            allowed=self._allowed,
            max_sub_topics=self._config.max_profile_subtopics,
            max_slot_tokens=self._config.max_pre_profile_token_size,
        )
        self._offset = 0
        self.state = ProfileState(profile=Profile(tenant_id="default", user_id="ada"))
        self.memo: Memo | None = None

    async def flush(self, *messages: BatchMessage | str) -> ProfileState:
        """Run one flush; texts are the user's."""
        batch = self._batch([user(each) if isinstance(each, str) else each for each in messages])
        known = [slot.key for slot in self.state.profile.slots]
        try:
            self.memo = await summarise(batch, self._processor, known)
        except StageFailed as failure:
            self.memo = failed_memo(batch, failure)
        extracted, tagged = await asyncio.gather(self._extract(self.memo, known), self._tag(self.memo))
        self.state = await merge_flush(
            self.state,
            extracted,
            tagged,
            processor=self._processor,
            policy=self._policy,
            now=batch.ref.last_occurred_at + timedelta(minutes=1),
        )
        return self.state

    def value(self, slot: str) -> str | None:
        """Return what stands in a slot, named ``topic/sub_topic``."""
        topic, sub_topic = slot.split("/")
        found = self.state.profile.slot(topic, sub_topic)
        return found.value if found else None

    @property
    def values(self) -> dict[str, str]:
        """All slots."""
        return {f"{slot.topic}/{slot.sub_topic}": slot.value for slot in self.state.profile.slots}

    @property
    def dropped(self) -> list[tuple[str, str]]:
        """Stage and reason of everything that the last flush dropped."""
        assert self.state.event is not None
        return [(drop.stage, drop.reason) for drop in self.state.event.dropped]

    async def _extract(self, memo: Memo, known: list[tuple[str, str]]) -> Candidates:
        try:
            return await extract(memo, self._processor, known, self._allowed)
        except RecordFailed as failure:
            return failed_extraction(memo, failure)

    async def _tag(self, memo: Memo) -> Candidates:
        try:
            return await tag(memo, self._processor, {unify(each.name) for each in self._config.event_tags})
        except RecordFailed as failure:
            return failed_tagging(memo, failure)

    def _batch(self, given: list[BatchMessage]) -> FlushBatch:
        first = self._offset
        messages = tuple(
            BatchMessage(
                message_id=f"m{offset}",
                offset=offset,
                role=each.role,
                content=each.content,
                occurred_at=each.occurred_at,
            )
            for offset, each in enumerate(given, first)
        )
        self._offset += len(given)
        times = [each.occurred_at for each in messages]
        ref = flush_ref(
            first,
            self._offset - 1,
            opened_at=min(times),
            closed_at=max(times),
            first_occurred_at=min(times),
            last_occurred_at=max(times),
        )
        return FlushBatch(ref=ref, messages=messages)
