"""`DeltaWriter`: gives the changes of one flush their ids and versions, and folds them into the profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from agents.changes import Change
from agents.processor import SlotName
from schemas.deltas import DeltaKind, FactDetail, Operation, PreferenceDetail, ProfileDelta
from schemas.flushes import FlushRef
from schemas.ids import delta_id
from schemas.profiles import Profile, apply_deltas
from schemas.stages import Assertion


class DeltaWriter:
    """Collects the deltas of a flush in the order of their versions.

    Args:
        profile: before the flush.
        flush: its heading.
        processor: who decides.
        pipeline_version: content hash of configuration and prompts.
        now: when the changes are made.

    Attributes:
        deltas: of this flush so far.
    """

    def __init__(
        self, profile: Profile, flush: FlushRef, *, processor: str, pipeline_version: str, now: datetime
    ) -> None:
        self.deltas: list[ProfileDelta] = []
        self._profile = profile
        self._folded = 0
        self._flush = flush
        self._processor = processor
        self._pipeline_version = pipeline_version
        self._now = now

    @property
    def profile(self) -> Profile:
        """The profile after the deltas so far."""
        if self._folded < len(self.deltas):
            self._profile = apply_deltas(self._profile, self.deltas[self._folded :])
            self._folded = len(self.deltas)
        return self._profile

    def write(
        self,
        kind: DeltaKind,
        op: Operation,
        topic: str,
        sub_topic: str,
        *,
        before: str | None,
        after: str | None,
        added: str | None,
        reason: str,
        evidence: tuple[str, ...],
        hits: int,
        said_at: datetime,
        assertion: Assertion = "said",
        item_id: str = "",
        fact: FactDetail | None = None,
        preference: PreferenceDetail | None = None,
    ) -> None:
        """Add a change; the arguments are the fields of `schemas.deltas.ProfileDelta`."""
        index = len(self.deltas)
        delta = ProfileDelta(
            delta_id=delta_id(self._flush.flush_id, index, self._flush.attempt),
            tenant_id=self._flush.tenant_id,
            user_id=self._flush.user_id,
            version=self._profile.version + 1 + index - self._folded,
            flush_id=self._flush.flush_id,
            index=index,
            kind=kind,
            op=op,
            topic=topic,
            sub_topic=sub_topic,
            before=before,
            after=after,
            added=added,
            reason=reason,
            evidence=evidence,
            update_hits=hits,
            said_at=said_at,
            recorded_at=self._now,
            processor=self._processor,
            pipeline_version=self._pipeline_version,
            assertion=assertion,
            item_id=item_id,
            fact=fact,
            preference=preference,
        )
        self.deltas.append(delta)

    def write_slots(self, changes: Sequence[Change], occurred: Mapping[str, datetime]) -> None:
        """Add changes of slots.

        Args:
            changes: in their order.
            occurred: when each message of the flush was written, by its id.
        """
        hits: dict[SlotName, int] = {slot.key: slot.update_hits for slot in self.profile.slots}
        for change in changes:
            candidate = change.candidate
            if change.hits is not None:
                hits[change.slot] = change.hits
            else:
                hits[change.slot] = 1 if change.op == "add" else hits.get(change.slot, 0) + 1
            self.write(
                "slot",
                change.op,
                candidate.topic,
                candidate.sub_topic,
                before=change.before,
                after=change.after,
                added=change.added,
                reason=change.reason,
                evidence=candidate.evidence,
                hits=hits[change.slot],
                said_at=change.said_at or max(occurred[message_id] for message_id in candidate.evidence),
                assertion=candidate.assertion,
            )
