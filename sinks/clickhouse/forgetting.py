# ruff: noqa: S608 - what is put together here are constants; values travel as query parameters
"""What the record that a user is forgotten removes from the archive.

In the delta topic that is a delta ``forget``, in the event topic an event ``forgotten``. Either removes what came
before it, from the table as well as from the batch that it arrives in, and stays as the first row of what comes after.
It is written before anything is removed: what is cut short in between is known to be unfinished. Removing twice is
harmless, and no statement looks at what another has removed: a batch that was cut short anywhere is made good by being
written again.

Deletes are lightweight: no query sees the rows any more, and their bytes go with the next merge of their part, or with
``ALTER TABLE ... APPLY DELETED MASK``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from schemas.deltas import FlushEvent, ProfileDelta
from sinks.clickhouse.columns import ticks

_USERS_PER_STATEMENT: Final = 100  # longest ids included, a list of them is no more than a request may hold
_LETTERS_PER_STATEMENT: Final = 1_000
# The first two conditions are what the tables' keys are searched by.
_OF_FORGOTTEN: Final = "tenant_id IN {tenants:Array(String)} AND user_id IN {users:Array(String)}"
_DELTAS_BEFORE: Final = f"""
WHERE {_OF_FORGOTTEN} AND arrayExists(
    (tenant, user, forgotten) -> tenant_id = tenant AND user_id = user AND version < forgotten,
    {{tenants:Array(String)}}, {{users:Array(String)}}, {{versions:Array(UInt64)}}
)
"""
_EVENTS_BEFORE: Final = f"""
WHERE {_OF_FORGOTTEN} AND arrayExists(
    (tenant, user, log, place, forgotten, moment) -> tenant_id = tenant AND user_id = user AND if(
        log_id = log AND partition = place,
        last_offset < forgotten,
        toUnixTimestamp64Micro(recorded_at) <= moment
    ),
    {{tenants:Array(String)}}, {{users:Array(String)}}, {{logs:Array(String)}}, {{partitions:Array(Int32)}},
    {{offsets:Array(Int64)}}, {{moments:Array(Int64)}}
)
"""
_LETTERS_BEFORE: Final = f"""
WHERE {_OF_FORGOTTEN} AND arrayExists(
    (tenant, user, moment) -> tenant_id = tenant AND user_id = user AND toUnixTimestamp64Micro(failed_at) <= moment,
    {{tenants:Array(String)}}, {{users:Array(String)}}, {{moments:Array(Int64)}}
)
"""
_NAMED_LETTERS: Final = """
WHERE tenant_id = {tenant:String} AND user_id = {user:String} AND letter_id IN {letters:Array(String)}
"""


class Delete(NamedTuple):
    """What is to be removed from a table."""

    table: str
    condition: str
    parameters: dict[str, Any]

    @property
    def statement(self) -> str:
        """The statement that removes it."""
        return f"DELETE FROM {self.table} {self.condition}"

    @property
    def look(self) -> str:
        """The statement that answers with a row when there is something to remove."""
        return f"SELECT 1 FROM {self.table} {self.condition} LIMIT 1"


def forgets(deltas: Iterable[ProfileDelta]) -> dict[tuple[str, str], ProfileDelta]:
    """Return for each user (tenant, user) who is forgotten in these deltas the newest that says so."""
    found: dict[tuple[str, str], ProfileDelta] = {}
    for delta in deltas:
        user = (delta.tenant_id, delta.user_id)
        if delta.op == "forget" and (user not in found or found[user].version < delta.version):
            found[user] = delta
    return found


def deletes_of_deltas(newest: Iterable[ProfileDelta]) -> Iterator[Delete]:
    """Give the statements that remove the tag hits and deltas from before these."""
    rows = [(delta.tenant_id, delta.user_id, delta.version) for delta in newest]
    for parameters in _parameters(("tenants", "users", "versions"), rows):
        for table in ("tag_hits", "slot_states", "profile_deltas"):
            yield Delete(table, _DELTAS_BEFORE, parameters)


def without_forgotten_deltas(
    deltas: Iterable[ProfileDelta], newest: Mapping[tuple[str, str], ProfileDelta]
) -> list[ProfileDelta]:
    """Return the deltas that are left of a batch, given the newest `forgets` of it."""

    def stays(delta: ProfileDelta) -> bool:
        forget = newest.get((delta.tenant_id, delta.user_id))
        return forget is None or delta.version >= forget.version

    return [delta for delta in deltas if stays(delta)]


def deletes_of_events(forgotten: Iterable[FlushEvent]) -> Iterator[Delete]:
    """Give the statements that remove the events from before these, and what was made of them."""
    rows = [
        (
            event.flush.tenant_id,
            event.flush.user_id,
            event.flush.log_id,
            event.flush.partition,
            event.flush.last_offset,
            ticks(event.recorded_at),
        )
        for event in forgotten
    ]
    for parameters in _parameters(("tenants", "users", "logs", "partitions", "offsets", "moments"), rows):
        for table in ("event_gists", "model_calls", "flush_events"):
            yield Delete(table, _EVENTS_BEFORE, parameters)


def deletes_of_letters(forgotten: Iterable[FlushEvent]) -> Iterator[Delete]:
    """Give the statements that remove the dead letters of users who are forgotten."""
    rows = [(event.flush.tenant_id, event.flush.user_id, ticks(event.recorded_at)) for event in forgotten]
    for parameters in _parameters(("tenants", "users", "moments"), rows):
        yield Delete("dead_letters", _LETTERS_BEFORE, parameters)


def deletes_of_named_letters(tenant_id: str, user_id: str, letter_ids: Collection[str]) -> Iterator[Delete]:
    """Give the statements that remove these dead letters of a user."""
    ids = sorted(letter_ids)
    for start in range(0, len(ids), _LETTERS_PER_STATEMENT):
        chunk = ids[start : start + _LETTERS_PER_STATEMENT]
        yield Delete("dead_letters", _NAMED_LETTERS, {"tenant": tenant_id, "user": user_id, "letters": chunk})


def _parameters(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(rows), _USERS_PER_STATEMENT):
        columns = zip(*rows[start : start + _USERS_PER_STATEMENT], strict=True)
        yield {name: list(values) for name, values in zip(names, columns, strict=True)}
