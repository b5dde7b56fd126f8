"""Tidying after a merge: a topic with too many slots is regrouped, a slot that is too long is shortened.

Both come after the merge of the flush, so that nothing just merged is lost, and both are best effort: whatever goes
wrong is counted, the profile stays as it is, and the flush does not fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from agents.changes import Change, Changes
from agents.entities import kept_share
from agents.policy import MergePolicy
from agents.processor import Group, Processor, SlotName, StoredValue
from schemas.deltas import Operation
from schemas.profiles import Profile, unify
from schemas.stages import Assertion, Candidate, Dropped, StageName
from streams.errors import RecordFailed
from streams.tokens import count_tokens

_LEAST_KEPT: Final = 0.5
"""Share of the names, dates and numbers that a rewrite must keep."""


async def tidy(profile: Profile, changes: Changes, processor: Processor, policy: MergePolicy) -> None:
    """Regroup and shorten what this flush has made too many or too long.

    Args:
        profile: before the flush.
        changes: of the flush; further changes are added to them.
        processor: regroups and shortens.
        policy: the limits, and the slots that are allowed.
    """
    known = _Slots(profile, changes)
    for topic in dict.fromkeys(change.slot[0] for change in changes.made if change.op == "add"):
        if len(known.of(topic)) > policy.max_sub_topics:
            await _organise(topic, known, changes, processor, policy)
    for slot in dict.fromkeys(change.slot for change in list(changes.made)):
        value = changes.values.get(slot)
        if value is not None and count_tokens(value) > policy.max_slot_tokens:
            await _shorten(slot, value, known, changes, processor, policy)


class _Slots:
    """The slots as they stand after the merge, with what a rewrite must carry along."""

    def __init__(self, profile: Profile, changes: Changes) -> None:
        self._changes = changes
        self._before = {slot.key: slot for slot in profile.slots}

    def of(self, topic: str) -> list[SlotName]:
        return sorted(slot for slot in self._changes.values if slot[0] == topic)

    def hits(self, slot: SlotName) -> int:
        before = self._before.get(slot)
        hits = before.update_hits if before else 0
        for change in self._changes.made:
            if change.slot == slot:
                hits = change.hits if change.hits is not None else 1 if change.op == "add" else hits + 1
        return hits

    def said_at(self, slots: Sequence[SlotName]) -> datetime | None:
        """When the newest of them was said, of those that this flush did not touch."""
        return max((self._before[slot].said_at for slot in slots if slot in self._before), default=None)

    def assertion(self, slots: Sequence[SlotName]) -> Assertion:
        """``inferred`` if any of them is."""
        inferred = {slot for slot, before in self._before.items() if before.assertion == "inferred"}
        inferred |= {change.slot for change in self._changes.made if change.candidate.assertion == "inferred"}
        return "inferred" if inferred.intersection(slots) else "said"

    def evidence(self, slots: Sequence[SlotName]) -> tuple[str, ...]:
        """The messages of this flush that led to changes of these slots."""
        cited = (change.candidate.evidence for change in self._changes.made if change.slot in slots)
        return tuple(dict.fromkeys(message_id for evidence in cited for message_id in evidence))


async def _organise(topic: str, known: _Slots, changes: Changes, processor: Processor, policy: MergePolicy) -> None:
    slots = known.of(topic)
    values = [
        StoredValue(number=number, sub_topic=slot[1], value=changes.values[slot])
        for number, slot in enumerate(slots, 1)
    ]
    limit = policy.max_sub_topics // 2 + 1
    try:
        answer = await processor.organise(topic, values, limit)
    except RecordFailed as failure:
        _count_failure("organise", topic, failure, changes)
        return
    changes.calls.extend(answer.calls)
    changes.dropped.extend(answer.dropped)
    if not answer.groups:
        return
    groups = [
        Group(sub_topic=unify(group.sub_topic), value=group.value.strip(), sources=group.sources)
        for group in answer.groups
    ]
    objection = _objection(topic, groups, values, limit, policy)
    if objection is not None:
        _drop("organise", objection, topic, changes)
        return
    evidence = known.evidence(slots)
    reason = f"{topic} had {len(slots)} slots, more than {policy.max_sub_topics}: regrouped"
    made = [_moved(topic, group, slots, known, changes, evidence, reason) for group in groups]
    targets = {group.sub_topic for group in groups}
    made += [
        _change(slot, changes.values[slot], None, evidence, known.assertion([slot]), reason)
        for slot in slots
        if slot[1] not in targets
    ]
    if not changes.make_all([change for change in made if change is not None]):
        _drop("organise", "flush_full", topic, changes)


def _moved(
    topic: str,
    group: Group,
    slots: Sequence[SlotName],
    known: _Slots,
    changes: Changes,
    evidence: tuple[str, ...],
    reason: str,
) -> Change | None:
    target = (topic, group.sub_topic)
    sources = [slots[number - 1] for number in group.sources]
    before = changes.values.get(target)
    if before == group.value and sources == [target]:
        return None
    change = _change(target, before, group.value, evidence, known.assertion(sources), reason)
    change.hits = sum(known.hits(slot) for slot in sources)
    change.said_at = known.said_at(sources)
    return change


def _objection(
    topic: str, groups: Sequence[Group], values: Sequence[StoredValue], limit: int, policy: MergePolicy
) -> str | None:
    """Return why a regrouping cannot be used, or None when it accounts for every value."""
    names = Counter(group.sub_topic for group in groups)
    sources = Counter(number for group in groups for number in group.sources)
    if len(groups) > limit:
        return "too_many_groups"
    if not all(names) or max(names.values()) > 1:
        return "unclear_group_names"
    if policy.allowed is not None and any((topic, name) not in policy.allowed for name in names):
        return "slot_not_configured"
    if sources != Counter(value.number for value in values):
        return "values_unaccounted"
    by_number = {value.number: value.value for value in values}
    for group in groups:
        old = " ".join(by_number[number] for number in group.sources)
        if not group.value or kept_share(old, group.value) < _LEAST_KEPT:
            return "values_lost"
    return None


async def _shorten(
    slot: SlotName, value: str, known: _Slots, changes: Changes, processor: Processor, policy: MergePolicy
) -> None:
    topic, sub_topic = slot
    stored = StoredValue(number=1, sub_topic=sub_topic, value=value)
    try:
        answer = await processor.shorten(topic, stored, policy.max_slot_tokens)
    except RecordFailed as failure:
        _count_failure("shorten", f"{topic}/{sub_topic}", failure, changes)
        return
    changes.calls.extend(answer.calls)
    changes.dropped.extend(answer.dropped)
    shorter = answer.value.strip()
    if not shorter or shorter == value:
        return
    if count_tokens(shorter) > policy.max_slot_tokens:
        _drop("shorten", "still_too_long", f"{topic}/{sub_topic}", changes)
    elif kept_share(value, shorter) < _LEAST_KEPT:
        _drop("shorten", "values_lost", f"{topic}/{sub_topic}", changes)
    else:
        reason = f"longer than {policy.max_slot_tokens} tokens: said in fewer words"
        change = _change(slot, value, shorter, known.evidence([slot]), known.assertion([slot]), reason, "shorten")
        change.hits = known.hits(slot)
        changes.make(change)


def _change(
    slot: SlotName,
    before: str | None,
    after: str | None,
    evidence: tuple[str, ...],
    assertion: Assertion,
    reason: str,
    op: Operation = "organise",
) -> Change:
    topic, sub_topic = slot
    candidate = Candidate(topic=topic, sub_topic=sub_topic, memo=after or "", evidence=evidence, assertion=assertion)
    return Change(candidate, op, before, after, None, reason)


def _count_failure(stage: StageName, what: str, failure: RecordFailed, changes: Changes) -> None:
    changes.calls.extend(getattr(failure, "calls", ()))
    changes.dropped.append(Dropped(stage=stage, reason="failed", detail=f"{what}: {failure}"[:200]))


def _drop(stage: StageName, reason: str, what: str, changes: Changes) -> None:
    changes.dropped.append(Dropped(stage=stage, reason=reason, detail=what[:200]))
