"""`MergePolicy`: what the configuration says about merging."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.processor import SlotName
from schemas.pipeline import FactsConfig


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """What the configuration says about merging.

    Attributes:
        pipeline_version: content hash of configuration and prompts, carried by every delta.
        validate_all: put every value to the processor, also where the slot is empty.
        validate_slots: slots for which that holds in any case.
        update_descriptions: how the configuration wants slots merged.
        allowed: the slots of strict mode; None allows every slot.
        max_sub_topics: a topic with more slots than this is regrouped.
        max_slot_tokens: a slot with more o200k tokens than this is shortened.
        facts: how facts and preferences are compared, and how many there may be.
    """

    pipeline_version: str
    validate_all: bool = False
    validate_slots: frozenset[SlotName] = frozenset()
    update_descriptions: Mapping[SlotName, str] = field(default_factory=dict)
    allowed: frozenset[SlotName] | None = None
    max_sub_topics: int = 15
    max_slot_tokens: int = 128
    facts: FactsConfig = field(default_factory=FactsConfig)

    def needs_decision(self, slot: SlotName) -> bool:
        """Whether even the first value of a slot is put to the processor."""
        return self.validate_all or slot in self.validate_slots
