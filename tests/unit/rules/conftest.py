"""One message, or many, through the rule processor, without services."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import pytest

from agents.processor import Proposal, SlotName
from agents.rules.processor import RuleProcessor
from schemas.flushes import BatchMessage, FlushBatch, FlushRef
from schemas.messages import Role
from schemas.pipeline import PipelineConfig
from schemas.stages import Candidate, Memo

NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)


def message(content: str, *, role: Role = "user", message_id: str = "m1") -> BatchMessage:
    return BatchMessage(message_id=message_id, offset=0, role=role, content=content, occurred_at=NOW)


def batch(messages: Sequence[BatchMessage], context: Sequence[BatchMessage] = ()) -> FlushBatch:
    ref = FlushRef(
        flush_id="f", tenant_id="default", user_id="u", lane="memo", log_id="log", partition=0, first_offset=0,
        last_offset=0, trigger="flush", opened_at=NOW, closed_at=NOW, first_occurred_at=NOW, last_occurred_at=NOW,
        message_count=len(messages), token_count=0,
    )  # fmt: skip
    return FlushBatch(ref=ref, messages=tuple(messages), context=tuple(context))


class Reader:
    """Runs the stages of one processor and keeps a profile by the decisions it makes."""

    def __init__(self, config: PipelineConfig | None = None) -> None:
        self.processor = RuleProcessor(config or PipelineConfig())
        self.profile: dict[SlotName, str] = {}
        self.changes: list[tuple[SlotName, str | None, str | None]] = []

    def memo(self, messages: Sequence[BatchMessage], context: Sequence[BatchMessage] = ()) -> Memo:
        flush = batch(messages, context)
        summary = asyncio.run(self.processor.summarise(flush, tuple(self.profile)))
        return Memo(flush=flush.ref, status="ok", messages=(), bullets=summary.bullets)

    def candidates(self, *contents: str, known: Iterable[SlotName] = ()) -> tuple[Candidate, ...]:
        """Return what these messages give, without what is taken back only because its opposite was said."""
        messages = [message(content, message_id=f"m{number}") for number, content in enumerate(contents, 1)]
        candidates = asyncio.run(self.processor.extract(self.memo(messages), tuple(known))).candidates
        return tuple(candidate for candidate in candidates if candidate.assertion == "said")

    def hear(self, *contents: str) -> None:
        """Take in one batch and change the profile as decided."""
        self.take([message(content, message_id=f"m{number}") for number, content in enumerate(contents, 1)])

    def take(self, messages: Sequence[BatchMessage]) -> tuple[Candidate, ...]:
        memo = self.memo(messages)
        candidates = asyncio.run(self.processor.extract(memo, tuple(self.profile))).candidates
        proposals = [
            Proposal(
                number=number, candidate=candidate, present=self.profile.get((candidate.topic, candidate.sub_topic))
            )
            for number, candidate in enumerate(candidates, 1)
        ]
        answer = asyncio.run(self.processor.merge(proposals, memo))
        assert [decision.number for decision in answer.decisions] == [proposal.number for proposal in proposals]
        for proposal, decision in zip(proposals, answer.decisions, strict=True):
            slot = (proposal.candidate.topic, proposal.candidate.sub_topic)
            before = self.profile.get(slot)
            after = {
                "UPDATE": decision.value,
                "APPEND": f"{before}; {decision.value}",
                "ABORT": before,
            }[decision.action]
            assert decision.reason
            if after:
                self.profile[slot] = after
            else:
                self.profile.pop(slot, None)
            if decision.action != "ABORT":
                self.changes.append((slot, before, after or None))
        return candidates


@pytest.fixture
def reader() -> Reader:
    return Reader()
