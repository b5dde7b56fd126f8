"""Stage 4, merge: what the branches of a flush found, against what the profile says now.

`merge_flush` is the only place where slots change (`agents.fact_merge` does the same for facts and preferences). A new
value is settled in code where that is possible: an empty slot takes it, a repeat confirms it. Everything else is put to
the processor, which says UPDATE, APPEND or ABORT. A value that the processor does not decide about is kept, by APPEND:
nothing is skipped in silence.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime

from agents.changes import SEPARATOR, Change, Changes
from agents.delta_writer import DeltaWriter
from agents.flush_record import flush_record
from agents.organise import tidy
from agents.overtaken import overtaken
from agents.policy import MergePolicy
from agents.processor import Decision, MergeAnswer, Processor, Proposal, SlotName
from schemas.flushes import Branch
from schemas.profiles import ProfileState
from schemas.stages import Candidate, Candidates, Dropped, Memo, ModelCall


async def merge_flush(
    state: ProfileState,
    extracted: Candidates | None,
    tagged: Candidates | None,
    described: Candidates | None = None,
    *,
    processor: Processor,
    policy: MergePolicy,
    now: datetime,
) -> ProfileState:
    """Apply a flush of lane ``memo`` to a profile; one that was sent again may lack branches that answered before.

    Returns the record to be kept: the new profile, the deltas with consecutive versions, the flush's event, and the
    mark that says it is applied.

    Raises:
        StageFailed: when the processor cannot decide about this flush.
        StageUnavailable: when it cannot now.
    """
    started = time.perf_counter()
    answers = {answer.branch: answer for answer in (extracted, tagged, described) if answer is not None}
    flush = next(iter(answers.values())).flush
    changes = Changes(state.profile)
    writer = DeltaWriter(
        state.profile, flush, processor=processor.name, pipeline_version=policy.pipeline_version, now=now
    )
    memo = extracted.memo if extracted is not None else None
    if extracted is not None and extracted.status == "ok" and memo is not None:
        ordered = sorted(extracted.candidates, key=lambda candidate: not candidate.retracts)
        await _merge(ordered, changes, memo, processor, policy)
        occurred = {message.message_id: message.occurred_at for message in memo.messages}
        if flush.redrive:
            changes.made[:] = overtaken(changes.made, state.profile, occurred, state.retracted)
        else:
            await tidy(state.profile, changes, processor, policy)
        writer.write_slots(changes.made, occurred)
    if described is not None:
        count_tags(described, writer)
    return flush_record(
        state,
        answers,
        writer,
        calls=changes.calls,
        dropped=changes.dropped,
        error=None,
        duration_ms=(time.perf_counter() - started) * 1000,
        processor=processor.name,
        policy=policy,
        now=now,
    )


def count_tags(described: Candidates, writer: DeltaWriter) -> None:
    """Raise the count of each tag that was chosen for a flush by one."""
    counts = {tag.name: tag.count for tag in writer.profile.tags}
    for place, hit in enumerate(described.hits, start=1):
        before = counts.get(hit.name)
        count = (before or 0) + 1
        writer.write(
            "tag",
            "add" if before is None else "confirm",
            "tag",
            hit.name,
            before=None if before is None else str(before),
            after=str(count),
            added=None,
            reason=f"fits the conversation, place {place} of {len(described.hits)}",
            evidence=hit.evidence,
            hits=count,
            said_at=described.flush.last_occurred_at,
            assertion="inferred",
        )


def fail_flush(
    state: ProfileState,
    answers: Mapping[Branch, Candidates],
    *,
    error: str,
    calls: Sequence[ModelCall],
    processor: str,
    policy: MergePolicy,
    now: datetime,
) -> ProfileState:
    """Return the record of a flush whose merge has failed: the profile as it was, and an event that says so.

    Tags are counted all the same: that branch has not failed.
    """
    flush = next(iter(answers.values())).flush
    writer = DeltaWriter(state.profile, flush, processor=processor, pipeline_version=policy.pipeline_version, now=now)
    if "domain" in answers:
        count_tags(answers["domain"], writer)
    return flush_record(
        state,
        answers,
        writer,
        calls=calls,
        dropped=(),
        error=error,
        duration_ms=0.0,
        processor=processor,
        policy=policy,
        now=now,
    )


async def _merge(
    candidates: Sequence[Candidate], changes: Changes, memo: Memo, processor: Processor, policy: MergePolicy
) -> None:
    """Settle what code can, then put all the rest to the processor in one request.

    Where one candidate for a slot waits for a decision, the later ones for it do too; each decision is carried out on
    what the earlier ones have made of the slot.
    """
    proposals: list[Proposal] = []
    undecided: set[SlotName] = set()
    for candidate in candidates:
        slot = (candidate.topic, candidate.sub_topic)
        present = changes.values.get(slot)
        if slot not in undecided and _settle(candidate, present, changes, policy):
            continue
        undecided.add(slot)
        proposals.append(
            Proposal(
                number=len(proposals) + 1,
                candidate=candidate,
                present=present,
                update_description=policy.update_descriptions.get(slot, ""),
            )
        )
    decisions = await _ask(proposals, changes, memo, processor)
    for proposal in proposals:
        change = _decide(proposal.candidate, decisions.get(proposal.number), changes)
        if change is not None:
            changes.make(change)


def _settle(candidate: Candidate, present: str | None, changes: Changes, policy: MergePolicy) -> bool:
    """Deal with a candidate that needs no decision; returns whether that is so."""
    if candidate.retracts:
        # An inferred retraction ("likes tea", so does not dislike it) was never more than a precaution.
        if present is None and candidate.assertion == "said":
            changes.drop("nothing_to_retract", candidate)
        return present is None
    if present is not None:
        if not _repeats(candidate.memo, present):
            return False
        changes.make(Change(candidate, "confirm", present, present, None, "said again"))
        return True
    if policy.needs_decision((candidate.topic, candidate.sub_topic)):
        return False
    changes.make(Change(candidate, "add", None, candidate.memo, candidate.memo, "first value of this slot"))
    return True


async def _ask(
    proposals: Sequence[Proposal], changes: Changes, memo: Memo, processor: Processor
) -> dict[int, Decision]:
    if not proposals:
        return {}
    answer = await processor.merge(proposals, memo)
    changes.calls.extend(answer.calls)
    changes.dropped.extend(answer.dropped)
    return _by_number(answer, len(proposals), changes.dropped)


def _by_number(answer: MergeAnswer, count: int, dropped: list[Dropped]) -> dict[int, Decision]:
    decisions: dict[int, Decision] = {}
    for decision in answer.decisions:
        if not 1 <= decision.number <= count:
            dropped.append(
                Dropped(stage="merge", reason="unknown_proposal", detail=f"{decision.number}: {decision.value}"[:200])
            )
        elif decision.number in decisions:
            dropped.append(Dropped(stage="merge", reason="second_decision", detail=decision.value[:200]))
        else:
            decisions[decision.number] = decision
    return decisions


def _decide(candidate: Candidate, decision: Decision | None, changes: Changes) -> Change | None:
    present = changes.values.get((candidate.topic, candidate.sub_topic))
    if candidate.retracts and (decision is None or decision.action == "APPEND"):
        # There is nothing that could be kept of "no longer" by adding it: leaving the value is the smaller error.
        changes.drop("undecided_retraction", candidate)
        return None
    if decision is None:
        decision = Decision(number=0, action="APPEND", reason="kept: no decision was given")
    if decision.action == "ABORT":
        if not (candidate.retracts and candidate.assertion == "inferred"):
            changes.drop("aborted", candidate, decision.reason)
        return None
    value = decision.value.strip()
    reason = decision.reason.strip() or "no reason given"
    if decision.action == "APPEND":
        added = value or candidate.memo
        if present is None:
            return Change(candidate, "add", None, added, added, reason)
        if _repeats(added, present):
            return Change(candidate, "confirm", present, present, None, reason)
        return Change(candidate, "append", present, present + SEPARATOR + added, added, reason)
    if present is None:
        if candidate.retracts or not (value or candidate.memo):
            changes.drop("nothing_to_update", candidate)
            return None
        return Change(candidate, "add", None, value or candidate.memo, value or candidate.memo, reason)
    if not value and not candidate.retracts:
        # An empty rewrite that nobody asked for would lose the slot.
        changes.drop("empty_update", candidate, decision.reason)
        return Change(
            candidate,
            "append",
            present,
            present + SEPARATOR + candidate.memo,
            candidate.memo,
            "kept: the rewrite was empty",
        )
    if not value:
        return Change(candidate, "delete", present, None, None, reason)
    if value == present:
        return Change(candidate, "confirm", present, present, None, reason)
    return Change(candidate, "update", present, value, None if candidate.retracts else candidate.memo, reason)


def _repeats(memo: str, present: str) -> bool:
    """Whether a value says only what the slot says already: all of it, or some of its items."""
    if _comparable(memo) == _comparable(present):
        return True
    known = set(map(_comparable, present.split(SEPARATOR.strip())))
    return known.issuperset(map(_comparable, memo.split(SEPARATOR.strip())))


def _comparable(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip(" \t\r\n.,;!?。，；！？、")
