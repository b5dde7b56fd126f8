# ruff: noqa: S608 - what is put together here are constants
"""Histories of many users, made from those of a few: what the archive's benchmark asks about.

The history of a *model user* is simulated change by change, so that versions rise by one, every item goes from add to
end, and each change belongs to a flush whose event cites it. Every model user stands for `COPIES` users: a copy has
ids, texts and times of its own. A copy can be made here, one record at a time, or by ClickHouse, all of them at once,
and either gives the same rows; memory holds the model users only.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from schemas import ids
from schemas.dead_letters import ArchivedDecision, ArchivedLetter, DeadLetterReason, Resolution
from schemas.deltas import AddedValue, FactDetail, FlushEvent, PreferenceDetail, ProfileDelta, Timings
from schemas.facts import FACT_CATEGORIES, PREFERENCE_CATEGORIES
from schemas.flushes import FlushRef, Lane
from schemas.places import Place
from schemas.stages import Dropped, EventTag, MemoBullet, MessageRef, ModelCall, StageName

TENANT: Final = "default"
COPIES: Final = 100
"""Users that are made from one model user."""
PARTITIONS: Final = 16
START: Final = datetime(2026, 1, 1, tzinfo=UTC)
DAYS: Final = 90
"""The time that all histories span, but for the shift of the copies."""
SHIFT: Final = timedelta(seconds=977)
"""By so much each copy of a user is later than the one before."""
SLOTS: Final = tuple((f"topic_{number % 8}", f"slot_{number:02}") for number in range(48))
"""The slots of a profile, the most used ones first."""
TAGS: Final = tuple(f"tag {number:02}" for number in range(40))

_SLOT_WEIGHTS: Final = [1 / (number + 3) for number in range(len(SLOTS))]
_TAG_WEIGHTS: Final = [1 / (number + 3) for number in range(len(TAGS))]
_WORDS: Final = (
    "tea", "coffee", "chess", "piano", "Lyon", "Oslo", "garden", "night", "train", "nurse", "violin", "running",
    "cheese", "winter", "sister", "project", "deadline", "cat", "bicycle", "novel", "咖啡", "旅行", "音乐",
    "工作", "妹妹",
)  # fmt: skip


@dataclass
class ModelUser:
    """A user's whole history: deltas in the order of their versions, events in that of their flushes."""

    number: int
    deltas: list[ProfileDelta] = field(default_factory=list)
    events: list[FlushEvent] = field(default_factory=list)


def user_name(model: int, copy: int) -> str:
    """Return the id of a copy of a model user."""
    return f"user-{model * COPIES + copy:06}"


def model_user(number: int, length: int) -> ModelUser:
    """Return a model user whose history has so many deltas; the same each time."""
    return _Simulation(number, length).run()


class _Simulation:
    """One user, flush by flush."""

    def __init__(self, number: int, length: int) -> None:
        self._chance = random.Random(number)
        self._name = f"model-{number}"
        self._made = ModelUser(number)
        self._length = length
        self._offset = 0
        self._slots: dict[tuple[str, str], tuple[str, int]] = {}
        self._facts: dict[str, ProfileDelta] = {}
        self._preferences: dict[str, ProfileDelta] = {}
        self._tags: dict[str, int] = {}

    def run(self) -> ModelUser:
        made = self._made.deltas
        while len(made) < self._length:
            room = self._length - len(made)
            progress = len(made) / self._length
            recorded = START + timedelta(days=DAYS) * progress + timedelta(seconds=self._chance.randrange(60_000))
            if self._made.events:
                recorded = max(recorded, self._made.events[-1].recorded_at + timedelta(seconds=1))
            self._flush(recorded, min(room, self._chance.choice([1, 2, 3, 4, 4, 5, 6, 7])))
        return self._made

    def _flush(self, recorded: datetime, changes: int) -> None:
        chance = self._chance
        # Some of it comes in late.
        written = recorded - timedelta(seconds=30 if chance.random() < 0.9 else chance.randrange(30, 300_000))
        first, self._offset = self._offset, self._offset + 8
        lanes: tuple[Lane, ...] = ("memo", "memo", "facts")
        lane = chance.choice(lanes)
        flush = FlushRef(
            flush_id=ids.flush_id("log", TENANT, self._name, lane, 0, first, first + 7), tenant_id=TENANT,
            user_id=self._name, lane=lane, log_id="log", partition=self._made.number % PARTITIONS, first_offset=first,
            last_offset=first + 7, trigger="idle", opened_at=recorded - timedelta(seconds=20),
            closed_at=recorded - timedelta(seconds=2), first_occurred_at=written - timedelta(seconds=70),
            last_occurred_at=written, message_count=8, token_count=400,
        )  # fmt: skip
        messages = tuple(
            MessageRef(
                message_id=f"{self._name}-{first + place}",
                role="assistant" if place % 2 else "user",
                occurred_at=written - timedelta(seconds=10 * (7 - place)),
            )
            for place in range(8)
        )
        deltas: list[ProfileDelta] = []
        while len(deltas) < changes:
            change = self._slot_or_tag() if lane == "memo" else self._fact_or_preference(flush, len(deltas), changes)
            for each in change:
                cited = messages[2 * chance.randrange(4)]
                deltas.append(
                    ProfileDelta(
                        delta_id=ids.delta_id(flush.flush_id, len(deltas)), tenant_id=TENANT, user_id=self._name,
                        version=len(self._made.deltas) + len(deltas) + 1, flush_id=flush.flush_id, index=len(deltas),
                        evidence=(cited.message_id,), said_at=cited.occurred_at, recorded_at=recorded,
                        processor="model-b", pipeline_version="v1", **each,
                    )
                )  # fmt: skip
                self._remember(deltas[-1])
        self._made.deltas += deltas
        self._made.events.append(self._event(flush, messages, deltas, recorded))

    def _text(self) -> str:
        return " ".join(self._chance.choices(_WORDS, k=self._chance.randrange(3, 12)))

    def _slot_or_tag(self) -> Iterator[dict[str, Any]]:
        chance = self._chance
        if chance.random() < 0.15:
            (tag,) = chance.choices(TAGS, _TAG_WEIGHTS)
            count = self._tags.get(tag, 0)
            yield _change(
                "tag", "update" if count else "add", "tag", tag, str(count) if count else None, str(count + 1),
                count + 1, None, "the conversation is about it",
            )  # fmt: skip
            return
        ((topic, name),) = chance.choices(SLOTS, _SLOT_WEIGHTS)
        before, hits = self._slots.get((topic, name), (None, 0))
        added = self._text()
        if before is None:
            yield _change("slot", "add", topic, name, None, added, 1, added, "the user says so")
            return
        op = chance.choices(("update", "append", "confirm", "delete", "overtaken"), (45, 20, 15, 12, 8))[0]
        after = {
            "update": added,
            "append": f"{before[:200]}; {added}",
            "confirm": before,
            "delete": None,
            "overtaken": before,
        }[op]
        hits += op != "overtaken"
        yield _change("slot", op, topic, name, before, after, hits, None if op == "delete" else added, f"{op}: {added}")

    def _fact_or_preference(self, flush: FlushRef, number: int, changes: int) -> Iterator[dict[str, Any]]:
        chance = self._chance
        is_fact = chance.random() < 0.65
        known = self._facts if is_fact else self._preferences
        op = chance.choices(("add", "confirm", "update", "end"), (5 if len(known) < 15 else 0, 2, 2, 1))[0]
        if op == "add" or not known:
            new = ids.fact_id(flush.flush_id, number) if is_fact else ids.preference_id(flush.flush_id, number)
            yield self._item(is_fact, "add", new, None, self._text(), 1)
            return
        old = known[chance.choice(list(known))]
        if op == "confirm":
            yield self._item(is_fact, "confirm", old.item_id, old, old.after, old.update_hits + 1)
        elif op == "update":
            yield self._item(is_fact, "update", old.item_id, old, self._text(), old.update_hits + 1)
        elif not is_fact:
            yield self._item(False, "delete", old.item_id, old, None, old.update_hits)
        elif changes - number > 1:
            newer = ids.fact_id(flush.flush_id, number + 1)
            yield self._item(True, "invalidate", old.item_id, old, None, old.update_hits, newer)
            yield self._item(True, "add", newer, None, self._text(), 1)

    def _item(
        self, is_fact: bool, op: str, item_id: str, old: ProfileDelta | None, after: str | None, hits: int,
        replaced_by: str | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        chance = self._chance
        categories: Sequence[str] = FACT_CATEGORIES if is_fact else PREFERENCE_CATEGORIES
        topic = old.topic if old else chance.choice(categories)
        kind = "fact" if is_fact else "preference"
        change = _change(
            kind, op, topic, "", old.after if old else None, after, hits, after if op == "add" else None, "said so"
        )
        session = f"session {chance.randrange(30)}"
        detail: FactDetail | PreferenceDetail
        if is_fact:
            detail = FactDetail(confidence=0.9, importance=0.9, session_id=session, replaced_by=replaced_by)
        else:
            was = old.preference.strength if old and old.preference else None
            detail = PreferenceDetail(strength=0.8, strength_before=was, quotes=(self._text(),))
        return {**change, "item_id": item_id, kind: detail}

    def _remember(self, delta: ProfileDelta) -> None:
        if delta.op == "overtaken":
            return
        if delta.kind == "tag":
            self._tags[delta.sub_topic] = delta.update_hits
        elif delta.kind == "slot":
            key = (delta.topic, delta.sub_topic)
            self._slots.pop(key, None)
            if delta.after is not None:
                self._slots[key] = (delta.after, delta.update_hits)
        else:
            known = self._facts if delta.kind == "fact" else self._preferences
            known.pop(delta.item_id, None)
            if delta.after is not None:
                known[delta.item_id] = delta

    def _event(
        self, flush: FlushRef, messages: tuple[MessageRef, ...], deltas: Sequence[ProfileDelta], recorded: datetime
    ) -> FlushEvent:
        chance = self._chance
        is_memo = flush.lane == "memo"
        bullets = tuple(
            MemoBullet(text=f"Talked about {self._text()}", evidence=(messages[place].message_id,)) for place in (2, 6)
        )
        prompts: tuple[StageName, ...] = ("summary", "extract") if is_memo else ("facts",)
        calls = tuple(
            ModelCall(
                stage=stage, model="model-a" if stage == "summary" else "model-b",
                outcome="timeout" if chance.random() < 0.02 else "ok", prompt_tokens=chance.randrange(700, 1500),
                completion_tokens=chance.randrange(40, 130), duration_ms=800.0, prompt_version="p1",
            )
            for stage in prompts
        )  # fmt: skip
        reason = chance.choice(("no_evidence", "unknown_slot"))
        return FlushEvent(
            event_id=ids.event_id(flush.flush_id), flush=flush, outcome="applied",
            memo=bullets if is_memo else (),
            tags=(EventTag(tag="emotion", value=chance.choice(("happy", "sad", "calm"))),) if is_memo else (),
            messages=messages,
            added=tuple(
                AddedValue(topic=each.topic, sub_topic=each.sub_topic, value=each.added, kind=each.kind)
                for each in deltas
                if each.added is not None
            ),
            delta_ids=tuple(delta.delta_id for delta in deltas), first_version=deltas[0].version,
            last_version=deltas[-1].version, calls=calls,
            dropped=(Dropped(stage="extract", reason=reason, detail="x"),) if chance.random() < 0.15 else (),
            errors={}, timings=Timings(), recorded_at=recorded, processor="model-b", pipeline_version="v1",
        )  # fmt: skip


def _change(
    kind: str, op: str, topic: str, sub_topic: str, before: str | None, after: str | None, hits: int,
    added: str | None, reason: str,
) -> dict[str, Any]:  # fmt: skip
    return {
        "kind": kind, "op": op, "topic": topic, "sub_topic": sub_topic, "before": before, "after": after,
        "update_hits": hits, "added": added, "reason": reason,
    }  # fmt: skip


def _own(name: str, copy: int) -> str:
    """Return the id that a copy has in place of the model user's: what `SQL_DELTAS` calls own."""
    return hashlib.md5(f"{name}/{copy}".encode(), usedforsecurity=False).hexdigest()


def copied_delta(delta: ProfileDelta, model: int, copy: int) -> ProfileDelta:
    """Return the delta of a copy of its model user."""

    def text(value: str | None) -> str | None:
        return value if value is None or delta.kind == "tag" else f"{value} #{copy}"

    fact = delta.fact
    if fact is not None and fact.replaced_by is not None:
        fact = replace(fact, replaced_by=_own(fact.replaced_by, copy))
    return replace(
        delta, delta_id=_own(delta.delta_id, copy), user_id=user_name(model, copy), flush_id=_own(delta.flush_id, copy),
        before=text(delta.before), after=text(delta.after), added=text(delta.added),
        evidence=tuple(f"{each}-{copy}" for each in delta.evidence), said_at=delta.said_at + copy * SHIFT,
        recorded_at=delta.recorded_at + copy * SHIFT, item_id=_own(delta.item_id, copy) if delta.item_id else "",
        fact=fact,
    )  # fmt: skip


def delta_place(delta: ProfileDelta, model: int) -> Place:
    """Return a place on the delta topic for the delta of a copy."""
    return Place("profile.deltas.v1", model % PARTITIONS, delta.version)


def copied_event(event: FlushEvent, model: int, copy: int) -> FlushEvent:
    """Return the event of a copy of its model user, but for `added`, which stays as it is."""
    flush, shift = event.flush, copy * SHIFT
    return replace(
        event,
        event_id=_own(event.event_id, copy),
        flush=replace(
            flush, flush_id=_own(flush.flush_id, copy), user_id=user_name(model, copy),
            opened_at=flush.opened_at + shift, closed_at=flush.closed_at + shift,
            first_occurred_at=flush.first_occurred_at + shift, last_occurred_at=flush.last_occurred_at + shift,
        ),
        memo=tuple(
            MemoBullet(text=f"{each.text} #{copy}", evidence=tuple(f"{name}-{copy}" for name in each.evidence))
            for each in event.memo
        ),
        messages=tuple(
            replace(each, message_id=f"{each.message_id}-{copy}", occurred_at=each.occurred_at + shift)
            for each in event.messages
        ),
        delta_ids=tuple(_own(each, copy) for each in event.delta_ids),
        recorded_at=event.recorded_at + shift,
    )  # fmt: skip


def dead_letters(users: int) -> tuple[list[ArchivedLetter], list[ArchivedDecision]]:
    """Return a dead letter of every tenth user, and that every third of them was sent again."""
    letters, decisions = [], []
    for number in range(0, users, 10):
        why = DeadLetterReason(
            stage="extract" if number % 4 else "summary", reason="model_timeout", detail="no answer",
            topic="chat.memos.v1", partition=number % PARTITIONS, offset=number, attempts=3,
            failed_at=START + timedelta(seconds=number),
        )  # fmt: skip
        place = Place("dead.letters.v1", number % PARTITIONS, number)
        name = user_name(*divmod(number, COPIES))
        letters.append(
            ArchivedLetter(letter_id=f"letter-{number}", tenant_id=TENANT, user_id=name, why=why, place=place)
        )
        if number % 30 == 0:
            resolution = Resolution(
                letter_id=f"letter-{number}", decision="redriven", reason="", resolved_at=START + timedelta(days=DAYS)
            )
            decisions.append(ArchivedDecision(resolution=resolution, place=place))
    return letters, decisions


_OWN_SQL: Final = "(id, copy) -> lower(hex(MD5(concat(id, '/', toString(copy))))) AS own"
_COPY_SQL: Final = f"""
    {_OWN_SQL},
    (value, copy) -> concat(value, ' #', toString(copy)) AS told,
    (id, copy) -> concat(id, '-', toString(copy)) AS message,
    (moment, copy) -> moment + toIntervalSecond(copy * {int(SHIFT.total_seconds())}) AS later,
    toUInt64(substring(user_id, 7)) AS model,
    concat('user-', leftPad(toString(model * {COPIES} + copy), 6, '0')) AS name
"""
SQL_DELTAS: Final = f"""
INSERT INTO profile_deltas
(
    tenant_id, user_id, version, delta_id, flush_id, `index`, kind, op, topic, sub_topic, before, after, added, reason,
    evidence, assertion, update_hits, said_at, recorded_at, processor, pipeline_version, item_id, confidence,
    importance, session_id, replaced_by, strength, strength_before, quotes, kafka_topic, kafka_partition, kafka_offset
)
WITH {_COPY_SQL}
SELECT
    tenant_id, name, version, own(delta_id, copy), own(flush_id, copy), `index`, kind, op, topic, sub_topic,
    if(kind = 'tag', before, told(before, copy)), if(kind = 'tag', after, told(after, copy)),
    if(kind = 'tag', added, told(added, copy)), reason, arrayMap(each -> message(each, copy), evidence), assertion,
    update_hits, later(said_at, copy), later(recorded_at, copy), processor, pipeline_version,
    if(item_id = '', '', own(item_id, copy)), confidence, importance, session_id, own(replaced_by, copy), strength,
    strength_before, quotes, 'profile.deltas.v1', model % {PARTITIONS}, version
FROM model_users.profile_deltas
CROSS JOIN (SELECT number AS copy FROM numbers({COPIES})) AS copies
WHERE version BETWEEN {{first:UInt64}} AND {{last:UInt64}}
"""
"""Makes the copies of the model users' deltas of these versions: the same as `copied_delta`."""

SQL_EVENTS: Final = f"""
INSERT INTO flush_events
(
    tenant_id, user_id, event_id, flush_id, lane, log_id, partition, first_offset, last_offset, trigger, opened_at,
    closed_at, first_occurred_at, last_occurred_at, message_count, token_count, outcome, memo, tags, messages, added,
    delta_ids, first_version, last_version, calls, dropped, timings, recorded_at, processor, pipeline_version,
    added_kinds, kafka_topic, kafka_partition, kafka_offset
)
WITH {_COPY_SQL}
SELECT
    tenant_id, name, own(event_id, copy), own(flush_id, copy), lane, log_id, partition, first_offset, last_offset,
    trigger, later(opened_at, copy), later(closed_at, copy), later(first_occurred_at, copy),
    later(last_occurred_at, copy), message_count, token_count, outcome,
    arrayMap(each -> (told(each.1, copy), arrayMap(one -> message(one, copy), each.2)), memo), tags,
    arrayMap(each -> (message(each.1, copy), each.2, later(each.3, copy)), messages), added,
    arrayMap(each -> own(each, copy), delta_ids), first_version, last_version, calls, dropped, timings,
    later(recorded_at, copy), processor, pipeline_version, added_kinds, 'profile.events.v1', partition, first_offset
FROM model_users.flush_events
CROSS JOIN (SELECT number AS copy FROM numbers({COPIES})) AS copies
WHERE first_version BETWEEN {{first:UInt64}} AND {{last:UInt64}}
"""
"""Likewise the copies of events, by their first version: the same as `copied_event`."""
