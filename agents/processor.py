"""`Processor`: the part of a stage that needs judgement, by rules or by a model.

Stage functions call a processor, then check what it gave: nothing that a processor returns is trusted
(`agents.summary`, `agents.extract`, `agents.tag`, `agents.merge`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from agents.fact_processor import DomainProcessor, FactProcessor
from schemas.flushes import FlushBatch
from schemas.stages import Candidate, Dropped, EventTag, Memo, MemoBullet, ModelCall
from streams.errors import RecordDelayed, RecordFailed

SlotName = tuple[str, str]
"""Unified topic and sub-topic."""

Action = Literal["UPDATE", "APPEND", "ABORT"]


class StageFailed(RecordFailed):
    """A stage cannot process this record, now or later.

    Attributes:
        calls: the model calls that were made for it.
    """

    def __init__(self, reason: str, detail: str, calls: Sequence[ModelCall] = ()) -> None:
        super().__init__(reason, detail)
        self.calls = tuple(calls)


class StageUnavailable(RecordDelayed):
    """A stage cannot process this record now: something it needs does not answer.

    Attributes:
        calls: the model calls that were made for it.
    """

    def __init__(
        self, reason: str, detail: str, calls: Sequence[ModelCall] = (), retry_after: float | None = None
    ) -> None:
        super().__init__(reason, detail, retry_after)
        self.calls = tuple(calls)


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch says about its user; no bullets when it says nothing."""

    bullets: tuple[MemoBullet, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    dropped: tuple[Dropped, ...] = ()


class Extraction(msgspec.Struct, frozen=True, kw_only=True):
    """Values that a memo offers for profile slots."""

    candidates: tuple[Candidate, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    dropped: tuple[Dropped, ...] = ()


class Tagging(msgspec.Struct, frozen=True, kw_only=True):
    """Event tags of a memo."""

    tags: tuple[EventTag, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    dropped: tuple[Dropped, ...] = ()


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate set against the slot it would enter.

    Attributes:
        number: identifies the proposal within its request; from 1.
        candidate: the new value; its `retracts` says that the user takes something back.
        present: the slot's value now, or None when it is empty.
        update_description: how the configuration wants the slot merged.
    """

    number: int
    candidate: Candidate
    present: str | None
    update_description: str = ""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a proposal.

    Attributes:
        number: the proposal's.
        action: UPDATE (the slot becomes `value`), APPEND (`present; value`), ABORT (nothing changes).
        value: the slot's new text for UPDATE (empty: the slot is emptied); what is added for APPEND.
        reason: why, for people: one short sentence.
    """

    number: int
    action: Action
    value: str = ""
    reason: str = ""


class MergeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions on proposals; a proposal without one is dealt with by the merge stage."""

    decisions: tuple[Decision, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    dropped: tuple[Dropped, ...] = ()


class StoredValue(msgspec.Struct, frozen=True, kw_only=True):
    """A slot as it stands after a merge, numbered within its request, from 1."""

    number: int
    sub_topic: str
    value: str


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A slot of a regrouped topic.

    Attributes:
        sub_topic: its (unified) name.
        value: what it holds.
        sources: numbers of the stored values that went into it; each stored value goes into exactly one group.
    """

    sub_topic: str
    value: str
    sources: tuple[int, ...]


class Organisation(msgspec.Struct, frozen=True, kw_only=True):
    """A topic regrouped into fewer slots; no groups when the processor leaves it as it is."""

    groups: tuple[Group, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    dropped: tuple[Dropped, ...] = ()


class Shortening(msgspec.Struct, frozen=True, kw_only=True):
    """A value said in fewer words; empty when the processor leaves it as it is."""

    value: str = ""
    calls: tuple[ModelCall, ...] = ()
    dropped: tuple[Dropped, ...] = ()


class Processor(Protocol):
    """The judgement behind each stage of lane ``memo``.

    Every method may raise `StageUnavailable` (worth trying again), `StageFailed` (not) or
    `streams.errors.DependencyDown` (the settings are wrong: every record waits until they are mended), nothing else.

    Attributes:
        name: who decides, as deltas and events carry it: ``rules``, or the model's name.
        version: content hash of the rules or prompts.
    """

    name: str
    version: str

    async def summarise(self, batch: FlushBatch, known: Sequence[SlotName]) -> Summary:
        """Sum up what the batch's user says about themselves; `known` are the slots the user already has."""
        ...

    async def extract(self, memo: Memo, known: Sequence[SlotName]) -> Extraction:
        """Turn a memo's bullets into candidates."""
        ...

    async def tag(self, memo: Memo) -> Tagging:
        """Tag a memo with the configured event tags."""
        ...

    async def merge(self, proposals: Sequence[Proposal], memo: Memo) -> MergeAnswer:
        """Decide what becomes of each proposal."""
        ...

    async def organise(self, topic: str, values: Sequence[StoredValue], limit: int) -> Organisation:
        """Regroup the slots of a topic that has too many into at most `limit`."""
        ...

    async def shorten(self, topic: str, value: StoredValue, budget: int) -> Shortening:
        """Say a value in at most `budget` o200k tokens, keeping dates and names."""
        ...


class PipelineProcessor(Processor, FactProcessor, DomainProcessor, Protocol):
    """The judgement behind every stage."""

    @property
    def answers(self) -> int:
        """How often a model has answered so far: it rises for as long as one is at work."""
        ...
