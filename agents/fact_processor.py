"""`FactProcessor` and `DomainProcessor`: the judgement behind lane ``facts`` and behind the keywords of lane ``memo``.

As with `agents.processor.Processor`, nothing that they return is trusted: `agents.facts`, `agents.domain` and
`agents.fact_merge` check it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from schemas.facts import Fact, Preference
from schemas.flushes import FlushBatch
from schemas.stages import Domain, Dropped, FactCandidate, ModelCall, PreferenceCandidate

Relation = Literal["duplicate", "update", "conflict", "different"]
"""How a new statement relates to a known one.

``duplicate``: it says the same. ``update``: it says what the known one has become ("lives in" another city).
``conflict``: both cannot be true. ``different``: both can stand.
"""


class FoundFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that a message states about its author."""

    facts: tuple[FactCandidate, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    dropped: tuple[Dropped, ...] = ()


class FoundPreferences(msgspec.Struct, frozen=True, kw_only=True):
    """Preferences that a message states or shows."""

    preferences: tuple[PreferenceCandidate, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    dropped: tuple[Dropped, ...] = ()


class Related(msgspec.Struct, frozen=True, kw_only=True):
    """How two statements relate; None where the answer cannot be read."""

    relation: Relation | None = None
    calls: tuple[ModelCall, ...] = ()
    dropped: tuple[Dropped, ...] = ()


class FoundDomain(msgspec.Struct, frozen=True, kw_only=True):
    """Short facts and keywords of a conversation."""

    domain: Domain = Domain()
    calls: tuple[ModelCall, ...] = ()
    dropped: tuple[Dropped, ...] = ()


class FactProcessor(Protocol):
    """The judgement of lane ``facts``; every method may raise what those of `agents.processor.Processor` may.

    Attributes:
        name: who decides, as deltas and events carry it: ``rules``, or the model's name.
        version: content hash of the rules or prompts.
    """

    name: str
    version: str

    async def extract_facts(self, batch: FlushBatch, known: Sequence[Fact]) -> FoundFacts:
        """Return what the user's messages in the batch plainly state about the user.

        Args:
            batch: of lane ``facts``: one message, or a part of it, and the turns before as context.
            known: some of the facts that hold, the most recently confirmed first.
        """
        ...

    async def extract_preferences(self, batch: FlushBatch, known: Sequence[Preference]) -> FoundPreferences:
        """Return what the user's messages in the batch say or show about how the user likes things to be."""
        ...

    async def relate(self, kind: Literal["fact", "preference"], known: str, new: str) -> Related:
        """Say how a new statement relates to a known one that is near to it in meaning."""
        ...


class DomainProcessor(Protocol):
    """The judgement of the branch ``domain``; it may raise what `agents.processor.Processor` may."""

    async def describe(self, batch: FlushBatch) -> FoundDomain:
        """Return short facts on what the batch's messages speak of, the assistant's included, and keywords.

        With a tag catalogue in the configuration, the keywords are names of its tags: from one to five, the most
        fitting first.
        """
        ...
