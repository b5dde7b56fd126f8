"""`read_context`: what is known of a user, read from the stores and packed for a prompt."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, cast

import msgspec

from profilestream_client.packing import CountTokens, Event, Item, Packed, PackingOptions, pack
from profilestream_client.records import DEFAULT_TENANT, EARLIEST, LATEST, ChatMessage, unify
from profilestream_client.stores import Near, Parameters, Stores
from profilestream_client.tokens import estimate_tokens

Embed = Callable[[str], Awaitable[Sequence[float]]]
"""Turns a question into a vector, by the model that the collection is made with."""

MAX_ITEMS: Final = 1_000
"""Slots, facts and preferences that are looked at: the most important."""

MAX_EVENTS: Final = 500
"""Events that are looked at: the nearest, or else the newest."""

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_TURNS: Final = 3
_MAX_QUESTION: Final = 4_000  # characters of a turn
_MAX_TURNS_LOOKED_UP: Final = 200

_OF_USER: Final = "tenant_id = {tenant:String} AND user_id = {user:String}"
# The view of the past, at its end: one pass over a user's changes, where those of the present take one for each kind.
# Of a long profile the first are read, in the order in which `pack` takes them.
_PROFILE: Final = """
SELECT kind, topic, sub_topic, text, at AS said_at FROM
(
    SELECT toString(kind) AS kind, toString(topic) AS topic, toString(sub_topic) AS sub_topic, value AS text,
        toUnixTimestamp64Micro(said_at) AS at
    FROM profile_as_of(tenant = {tenant:String}, user = {user:String}, clock = 'recorded', at = '2299-12-31')
    WHERE kind IN ('slot', 'fact', 'preference')
    ORDER BY --first
        notEmpty({only:Array(String)}) AND NOT has({only:Array(String)}, topic),
        indexOf({prefer:Array(String)}, topic) = 0,
        indexOf({prefer:Array(String)}, topic),
        at DESC, kind DESC, topic, sub_topic, text
    LIMIT {items:UInt64}
)
"""
# Those that their topic has enough newer ones of come last.
_PROFILE_BY_TOPIC: Final = _PROFILE.replace(
    "--first", "row_number() OVER (PARTITION BY kind, topic ORDER BY at DESC, sub_topic, text) > {per_topic:UInt64},"
)
_EVENTS: Final = f"""
SELECT 'event' AS kind, '' AS topic, '' AS sub_topic, text, toUnixTimestamp64Micro(occurred_at) AS said_at
FROM event_gists FINAL
WHERE {_OF_USER} AND said_at >= {{since:Int64}} AND said_at < {{until:Int64}}
ORDER BY occurred_at DESC, event_id, `index`
LIMIT {{events:UInt64}}
"""  # noqa: S608 - what is put together are constants
_PROCESSED: Final = f"""
SELECT uniqExact(message_id) AS count
FROM flush_events ARRAY JOIN messages.message_id AS message_id
WHERE {_OF_USER} AND lane = 'memo' AND has({{turns:Array(String)}}, message_id)
"""  # noqa: S608


class _Row(msgspec.Struct, frozen=True, gc=False):
    kind: Literal["slot", "fact", "preference", "event"]
    topic: str
    sub_topic: str
    text: str
    said_at: int


class _Count(msgspec.Struct, frozen=True):
    count: int


async def read_context(
    stores: Stores,
    user: str,
    *,
    tenant: str = DEFAULT_TENANT,
    options: PackingOptions | None = None,
    chat: Sequence[ChatMessage] = (),
    embed: Embed | None = None,
    embedding: Sequence[float] | None = None,
    pending: int | None = None,
    count_tokens: CountTokens = estimate_tokens,
) -> Packed:
    """Read what is known of a user, and pack it; the arguments are those of `Client.context`."""
    for name, value in (("user", user), ("tenant", tenant)):
        if _SURROGATES.search(value):
            raise ValueError(f"{name} {value!r} has half a character in it: give the id as it was published")
    questions = [embedding] if embedding is not None else []
    if embedding is None and embed is not None:
        questions = [await embed(text) for text in last_said(chat)]
    options = options or PackingOptions()
    user_of_tenant = {"tenant": tenant, "user": user}
    # All at once, and all of them to their end, so that none is left behind by the failure of another.
    found = await asyncio.gather(
        _items(stores, user_of_tenant, options),
        _nearest(stores, user_of_tenant, options, questions) if questions else _newest(stores, user_of_tenant, options),
        _unprocessed(stores, user_of_tenant, chat if pending is None else ()),
        return_exceptions=True,
    )
    for each in found:
        if isinstance(each, BaseException):
            raise each
    items, events, unprocessed = cast("tuple[list[Item], list[Event], int | None]", found)
    pending = unprocessed if pending is None else pending
    # In a thread, for a long profile takes some hundredths of a second.
    return await asyncio.to_thread(pack, items, events, options, pending=pending, count_tokens=count_tokens)


def last_said(chat: Sequence[ChatMessage]) -> list[str]:
    """Return what the user said last in a conversation, each of which is searched with: together they blur."""
    said = [turn.content[:_MAX_QUESTION] for turn in chat if turn.role == "user" and turn.content.strip()]
    return said[-_TURNS:]


async def _items(stores: Stores, user_of_tenant: Mapping[str, str], options: PackingOptions) -> list[Item]:
    parameters: dict[str, str | int | Sequence[str]] = {
        **user_of_tenant,
        "only": [unify(topic) for topic in options.only],
        "prefer": [unify(topic) for topic in options.prefer],
        "items": MAX_ITEMS,
    }
    sql = _PROFILE
    if options.per_topic is not None:
        sql, parameters["per_topic"] = _PROFILE_BY_TOPIC, options.per_topic
    return [
        Item(kind=row.kind, topic=row.topic, sub_topic=row.sub_topic, text=row.text, said_at=_moment(row.said_at))
        for row in await stores.rows(sql, parameters, _Row)
        if row.kind != "event"
    ]


async def _newest(stores: Stores, user_of_tenant: Mapping[str, str], options: PackingOptions) -> list[Event]:
    since, until = _microseconds(options.since or EARLIEST), _microseconds(options.until or LATEST)
    parameters: Parameters = {**user_of_tenant, "since": since, "until": until, "events": MAX_EVENTS}
    rows = await stores.rows(_EVENTS, parameters, _Row)
    return [Event(text=row.text, said_at=_moment(row.said_at)) for row in rows]


async def _nearest(
    stores: Stores,
    user_of_tenant: Mapping[str, str],
    options: PackingOptions,
    questions: Sequence[Sequence[float]],
) -> list[Event]:
    """Return the events that are near to any of the questions, each with its nearness to the one it is nearest to."""
    fields = {"tenant_id": user_of_tenant["tenant"], "user_id": user_of_tenant["user"], "kind": "gist"}
    moments = {"gte": options.since, "lt": options.until}
    bounds = {name: moment for name, moment in moments.items() if moment is not None}
    answers = await asyncio.gather(*(stores.nearest(each, fields, bounds, MAX_EVENTS) for each in questions))
    best: dict[str | int, Near] = {}
    for hit in (hit for answer in answers for hit in answer):
        if hit.id not in best or best[hit.id].score < hit.score:
            best[hit.id] = hit
    return [Event(text=hit.payload.text, said_at=hit.payload.said_at, similarity=hit.score) for hit in best.values()]


async def _unprocessed(stores: Stores, user_of_tenant: Mapping[str, str], chat: Sequence[ChatMessage]) -> int | None:
    """Return how many of the user's turns are in no flush yet; None where no turn has an id."""
    turns = [turn.message_id for turn in chat if turn.message_id and turn.role == "user"][-_MAX_TURNS_LOOKED_UP:]
    if not turns:
        return None
    parameters: Parameters = {**user_of_tenant, "turns": turns}
    (processed,) = await stores.rows(_PROCESSED, parameters, _Count)
    return len(set(turns)) - processed.count


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
