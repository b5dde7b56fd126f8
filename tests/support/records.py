"""Records to test with: one flush of one user, and what the stages made of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from schemas.flushes import BatchMessage, FactSignal, FlushBatch, FlushRef, PreferenceSignal, Signals
from schemas.ids import flush_id
from schemas.messages import Role, user_key
from schemas.stages import (
    Candidate,
    Candidates,
    Domain,
    EventTag,
    FactCandidate,
    Memo,
    MemoBullet,
    MessageRef,
    PreferenceCandidate,
    TagHit,
)

SAID = datetime(2026, 2, 1, 9, 0, tzinfo=UTC)
OPENED = datetime(2026, 3, 1, 11, 59, 58, 500_000, tzinfo=UTC)
CLOSED = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
KEY = user_key("default", "ada")


def flush_ref(first: int = 0, last: int = 2, **changes) -> FlushRef:
    """Return the heading of the batch at these offsets."""
    log_id, partition = changes.pop("log_id", "log"), changes.pop("partition", 0)
    lane = changes.pop("lane", "memo")
    values = {
        "flush_id": flush_id(log_id, "default", "ada", lane, partition, first, last),
        "tenant_id": "default",
        "user_id": "ada",
        "lane": lane,
        "log_id": log_id,
        "partition": partition,
        "first_offset": first,
        "last_offset": last,
        "trigger": "idle",
        "opened_at": OPENED,
        "closed_at": CLOSED,
        "first_occurred_at": SAID,
        "last_occurred_at": SAID + timedelta(minutes=last - first),
        "message_count": last - first + 1,
        "token_count": 30,
    }
    return FlushRef(**(values | changes))


def flush_batch(ref: FlushRef | None = None) -> FlushBatch:
    """Return a batch whose messages `m0`, `m1`, ... are a minute apart, the second one the assistant's."""
    ref = ref or flush_ref()
    messages = tuple(
        BatchMessage(
            message_id=f"m{offset}",
            offset=offset,
            role="assistant" if offset == ref.first_offset + 1 else "user",
            content=f"message {offset}",
            occurred_at=SAID + timedelta(minutes=offset - ref.first_offset),
        )
        for offset in range(ref.first_offset, ref.last_offset + 1)
    )
    return FlushBatch(ref=ref, messages=messages)


def memo(ref: FlushRef | None = None, **changes) -> Memo:
    """Return the memo of that batch."""
    batch = flush_batch(ref)
    references = tuple(
        MessageRef(message_id=message.message_id, role=message.role, occurred_at=message.occurred_at)
        for message in batch.messages
    )
    bullets = (MemoBullet(text="likes tea", evidence=(batch.messages[0].message_id,)),)
    return Memo(**({"flush": batch.ref, "status": "ok", "messages": references, "bullets": bullets} | changes))


def candidate(value: str, slot: str = "interest/drinks", **changes) -> Candidate:
    """Return a candidate for a slot, given as ``topic/sub_topic``."""
    topic, sub_topic = slot.split("/")
    return Candidate(**({"topic": topic, "sub_topic": sub_topic, "memo": value, "evidence": ("m0",)} | changes))


def extracted(*candidates: Candidate, ref: FlushRef | None = None, **changes) -> Candidates:
    """Return the answer of the branch ``extract``."""
    basis = changes.pop("memo", memo(ref))
    values = {
        "flush": basis.flush,
        "branch": "extract",
        "status": "ok" if candidates else "empty",
        "memo": basis,
        "candidates": candidates,
    }
    return Candidates(**(values | changes))


def tagged(*tags: EventTag, ref: FlushRef | None = None, **changes) -> Candidates:
    """Return the answer of the branch ``tag``."""
    values = {"flush": ref or flush_ref(), "branch": "tag", "status": "ok" if tags else "empty", "tags": tags}
    return Candidates(**(values | changes))


def described(*hits: TagHit, ref: FlushRef | None = None, **changes) -> Candidates:
    """Return the answer of the branch ``domain``."""
    values = {
        "flush": ref or flush_ref(),
        "branch": "domain",
        "status": "ok" if hits else "empty",
        "domain": Domain(domain=tuple(hit.name for hit in hits)) if hits else None,
        "hits": hits,
    }
    return Candidates(**(values | changes))


def turn(role: Role, content: str, offset: int = 0) -> BatchMessage:
    """Return a turn of the conversation; its id is ``m`` and its offset."""
    return BatchMessage(message_id=f"m{offset}", offset=offset, role=role, content=content, occurred_at=SAID)


def signal_batch(
    content: str,
    *context: BatchMessage,
    facts: tuple[FactSignal, ...] = ("location",),
    preferences: tuple[PreferenceSignal, ...] = ("explicit",),
    **changes,
) -> FlushBatch:
    """Return the batch of lane ``facts`` that a message of the user makes: `m`, at offset 9, of the session `s`."""
    message = BatchMessage(message_id="m", offset=9, role="user", content=content, occurred_at=SAID, session_id="s")
    return FlushBatch(
        ref=flush_ref(9, 9, lane="facts", trigger="signal", **changes),
        messages=(message,),
        context=context,
        signals=Signals(facts=facts, preferences=preferences),
    )


def found(*items: FactCandidate | PreferenceCandidate, ref: FlushRef | None = None, **changes) -> Candidates:
    """Return the answer of the branch ``facts``."""
    batch = signal_batch("I live in Oslo.")
    values = {
        "flush": ref or batch.ref,
        "branch": "facts",
        "status": "ok" if items else "empty",
        "facts": tuple(item for item in items if isinstance(item, FactCandidate)),
        "preferences": tuple(item for item in items if isinstance(item, PreferenceCandidate)),
        "messages": (MessageRef(message_id="m", role="user", occurred_at=SAID),),
        "session_id": "s",
    }
    return Candidates(**(values | changes))
