"""Records for the tests of the archive, the oddest texts and times among them."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta

import msgspec

from schemas import ids
from schemas.deltas import AddedValue, FactDetail, FlushEvent, PreferenceDetail, ProfileDelta, Timings
from schemas.facts import FACT_CATEGORIES, PREFERENCE_CATEGORIES
from schemas.flushes import Branch, FlushRef, Lane
from schemas.profiles import ProfileState
from schemas.stages import Domain, Dropped, EventTag, MemoBullet, MessageRef, ModelCall
from sinks.clickhouse import ClickHouseArchive

NOON = datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC)
EARLIEST, LATEST = (moment.replace(tzinfo=UTC) for moment in (datetime.min, datetime.max))
ODD_TEXTS = [
    "",
    " ",
    'it\'s "quoted" `so`',
    "back\\slash \\n \\N \\0 \\",
    "tab\tnewline\nreturn\r",
    "😀 👩‍👩‍👧 e\u0301 \u202eright to left\u202c مرحبا 你好",
    "'; DROP TABLE profile_deltas; --",
    "{user:String} ${x} %s %(a)s {{b}} ?",
    "NULL",
    "\x01\x1f\x7f\u2028\ufeff\uffff",
    "長" * 20_000,
]


def make_delta(
    version: int = 1, user: str = "u", tenant: str = "t", sub_topic: str = "name", after: str | None = "v", **changes
) -> ProfileDelta:
    flush = ids.flush_id("log", tenant, user, "memo", 0, version, version)
    delta = ProfileDelta(
        delta_id=ids.delta_id(flush, 0),
        tenant_id=tenant,
        user_id=user,
        version=version,
        flush_id=flush,
        index=0,
        op="delete" if after is None else "update",
        topic="basic_info",
        sub_topic=sub_topic,
        before=None,
        after=after,
        added=after,
        reason="said so",
        evidence=(f"m{version}",),
        update_hits=0,
        said_at=NOON + timedelta(seconds=version % 1000),
        recorded_at=NOON + timedelta(days=1, microseconds=version % 1000),
        processor="rules",
        pipeline_version="abc",
    )
    return msgspec.structs.replace(delta, **changes)


def make_fact(version: int = 1, item_id: str = "f", after: str | None = "User has a cat", **changes) -> ProfileDelta:
    """A delta of kind fact; `changes` may be of the delta or of its detail."""
    detail = {"confidence": 0.9, "importance": 0.95, "session_id": f"s{version}"}
    return _make_item(FactDetail, detail, version, item_id, after, "invalidate", changes, kind="fact")


def make_preference(version: int = 1, item_id: str = "p", after: str | None = "Likes tea", **changes) -> ProfileDelta:
    """A delta of kind preference; likewise."""
    detail = {"strength": 0.8, "quotes": (f"q{version}",)}
    return _make_item(PreferenceDetail, detail, version, item_id, after, "delete", changes, kind="preference")


def _make_item(detail_type, detail, version, item_id, after, end, changes, *, kind) -> ProfileDelta:
    detail |= {name: changes.pop(name) for name in changes.keys() & set(detail_type.__struct_fields__)}
    fields = {
        "op": end if after is None else "add",
        "topic": "other",
        "sub_topic": "",
        "update_hits": 1,
        kind: detail_type(**detail),
    }
    return make_delta(version, after=after, kind=kind, item_id=item_id, **fields | changes)


def make_tag(version: int = 1, tag: str = "coffee", count: int = 1, **changes) -> ProfileDelta:
    """A delta of kind tag."""
    fields = {"op": "add" if count == 1 else "update", "before": str(count - 1) if count > 1 else None} | changes
    return make_delta(
        version, sub_topic=tag, after=str(count), kind="tag", topic="tag", added=None, update_hits=count, **fields
    )


def make_forget(version: int = 1, user: str = "u", tenant: str = "t") -> ProfileDelta:
    """The delta that says that its user is forgotten."""
    flush = ids.flush_id("log", tenant, user, "forget", 0, version, version)
    fields = {"kind": "profile", "op": "forget", "topic": "", "sub_topic": "", "after": None, "update_hits": 1}
    return make_delta(version, user, tenant, flush_id=flush, delta_id=ids.delta_id(flush, 0), **fields)


def random_history(seed: int, length: int = 60, tenant: str = "t") -> list[ProfileDelta]:
    """Changes of all kinds to one user, in any order that the fold accepts, said at any time."""
    chance = random.Random(seed)
    user = f"user {seed:03}"
    history: list[ProfileDelta] = []
    present: dict[str, str | None] = {}
    for version in range(1, length + 1):
        kind = chance.choice(["slot", "fact", "fact", "preference", "preference", "tag"])
        gone = chance.random() < 0.3
        common = {
            "user": user,
            "tenant": tenant,
            "said_at": NOON + timedelta(minutes=chance.randrange(1000)),
            "update_hits": chance.randrange(1, 9),
        }
        text = None if gone else f"text {chance.randrange(5)}"
        item = f"{kind} {chance.randrange(4)}"
        op = chance.choice(["delete", "invalidate"] if gone else ["add", "update", "confirm"])
        if present.get(item) is not None and chance.random() < 0.2:
            op, text, gone = "overtaken", present[item], False
        elif kind != "tag":
            present[item] = text
        match kind:
            case "slot":
                made = make_delta(version, sub_topic=item, after=text, op=op, **common)
            case "fact":
                made = make_fact(
                    version, item, text, op=op, topic=chance.choice(FACT_CATEGORIES), confidence=chance.random(),
                    importance=chance.random(), session_id=chance.choice([None, f"s{version}"]),
                    replaced_by=f"fact of {version}" if op == "invalidate" else None, reason=f"reason {version}",
                    **common,
                )  # fmt: skip
            case "preference":
                made = make_preference(
                    version, item, text, op="delete" if gone else op, topic=chance.choice(PREFERENCE_CATEGORIES),
                    strength=chance.random(), strength_before=chance.choice([None, 0.1]),
                    quotes=tuple(f"q{n}" for n in range(chance.randrange(4))), **common,
                )  # fmt: skip
            case _:
                made = make_tag(version, item, common.pop("update_hits"), **common)
        history.append(made)
    return history


def make_event(
    offset: int = 1,
    user: str = "u",
    tenant: str = "t",
    lane: Lane = "memo",
    log: str = "log",
    partition: int = 0,
    recorded_at: datetime | None = None,
    **changes,
) -> FlushEvent:
    flush = FlushRef(
        flush_id=ids.flush_id(log, tenant, user, lane, partition, offset, offset),
        tenant_id=tenant,
        user_id=user,
        lane=lane,
        log_id=log,
        partition=partition,
        first_offset=offset,
        last_offset=offset,
        trigger="idle",
        opened_at=NOON,
        closed_at=NOON + timedelta(seconds=5),
        first_occurred_at=NOON,
        last_occurred_at=NOON,
        message_count=1,
        token_count=9,
    )
    event = FlushEvent(
        event_id=ids.event_id(flush.flush_id),
        flush=flush,
        outcome="empty",
        memo=(),
        tags=(),
        messages=(),
        added=(),
        delta_ids=(),
        first_version=None,
        last_version=None,
        calls=(),
        dropped=(),
        errors={},
        timings=Timings(),
        recorded_at=recorded_at or NOON + timedelta(seconds=offset % 1000),
        processor="rules",
        pipeline_version="abc",
    )
    return msgspec.structs.replace(event, **changes)


def make_redriven(
    offset: int, redrive: int, only: tuple[Branch, ...] = (), letters_of: tuple[str, ...] = (), **changes
) -> FlushEvent:
    """The end of a flush that was sent again from the dead letters."""
    event = make_event(offset, **changes)
    flush = msgspec.structs.replace(event.flush, redrive=redrive, only=only, letters_of=letters_of)
    return msgspec.structs.replace(event, flush=flush, event_id=ids.event_id(flush.flush_id, flush.attempt))


def full_event() -> FlushEvent:
    text = "".join(ODD_TEXTS[:-1])
    return make_event(
        2**40,
        outcome="applied",
        memo=(MemoBullet(text=text, evidence=(text, "")), MemoBullet(text="", evidence=())),
        tags=(EventTag(tag="mood", value=text),),
        messages=(
            MessageRef(message_id=text, role="user", occurred_at=NOON),
            MessageRef(message_id="", role="tool", occurred_at=LATEST),
        ),
        added=(
            AddedValue(topic="t", sub_topic="s", value="new ‘value’; \\ 汉"),
            AddedValue(topic="", sub_topic="", value=""),
            AddedValue(topic="work", sub_topic="", value=text, kind="fact"),
            AddedValue(topic="other", sub_topic="", value="", kind="preference"),
        ),
        delta_ids=("a", "b"),
        first_version=0,
        last_version=2**63,
        calls=(
            ModelCall(stage="summary", model=text, outcome="ok", prompt_tokens=2**40, duration_ms=0.1 + 0.2),
            ModelCall(stage="tag", model="", outcome="timeout", attempts=3, prompt_version="p"),
        ),
        dropped=(Dropped(stage="extract", reason="no_evidence", detail=text),),
        errors={"tag": text, "": ""},
        timings=Timings(window=1e-300, summary=math.pi, merge=1e300, domain=0.1 + 0.2, facts=1e-9),
        domain=Domain(facts=(text, "", *ODD_TEXTS[:3]), domain=("", text)),
    )  # fmt: skip


async def rows(archive: ClickHouseArchive, sql: str) -> list[tuple]:
    return [tuple(row) for row in await archive._client.rows(sql)]


async def collect(archive: ClickHouseArchive) -> dict[tuple[str, str], ProfileState]:
    states = [state async for state in archive.profiles()]
    found = {(state.profile.tenant_id, state.profile.user_id): state for state in states}
    assert len(found) == len(states), "a user came twice"
    return found
