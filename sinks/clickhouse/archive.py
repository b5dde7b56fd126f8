"""`ClickHouseArchive`: every profile delta and flush event, kept in ClickHouse, and the profiles they make."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

import msgspec

from schemas.dead_letters import ArchivedDecision, ArchivedLetter
from schemas.deltas import FlushEvent, ProfileDelta
from schemas.flushes import FlushRef, Lane
from schemas.places import Place
from schemas.profiles import MAX_REDRIVEN, AppliedMark, Profile, ProfileState, VersionGap, apply_deltas
from sinks.clickhouse import queries
from sinks.clickhouse.client import ClickHouseClient
from sinks.clickhouse.columns import DECISIONS, DELTAS, EVENTS, LETTERS, REFS, T, Table
from sinks.clickhouse.forgetting import (
    Delete,
    deletes_of_deltas,
    deletes_of_events,
    deletes_of_letters,
    deletes_of_named_letters,
    forgets,
    without_forgotten_deltas,
)
from sinks.clickhouse.ready import ReadyQuery
from sinks.clickhouse.schema import CREATE_LEDGER, migrations
from sinks.errors import SinkRejected
from sinks.forgetting import without_forgotten_events

_USERS_PER_PAGE: Final = 500
_USERS_PER_QUERY: Final = 100
_User = tuple[str, str]


class ClickHouseArchive:
    """The archive. Every method may raise `SinkUnavailable` or `SinkRejected`, and nothing else.

    Writing is safe to repeat: rows that have been written before, in whatever batches, change nothing. The
    methods never block the event loop and may run at the same time.

    Args:
        url: of ClickHouse's HTTP port; a user and a password in it are used before the others.
        user: name of the ClickHouse user.
        password: its password.
        database: where the tables are; created when missing.
        timeout: seconds that a request may take.
    """

    def __init__(
        self,
        *,
        url: str = "http://127.0.0.1:8123",
        user: str = "default",
        password: str = "",
        database: str = "profilestream",
        timeout: float = 30.0,
    ) -> None:
        self._client = ClickHouseClient(url=url, user=user, password=password, database=database, timeout=timeout)

    async def open(self) -> None:
        """Connect and create the database when it is missing; other methods do so too where it is needed."""
        await self._client.connect()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def ping(self) -> str:
        """Return the server's version."""
        rows = await self._client.rows("SELECT version()")
        return str(rows[0][0])

    async def migrate(self) -> list[int]:
        """Bring the tables to this release's form; return the numbers of the migrations that were missing."""
        await self._client.command(CREATE_LEDGER)
        applied = {row[0] for row in await self._client.rows("SELECT version FROM schema_migrations FINAL")}
        missing = [migration for migration in migrations() if migration.version not in applied]
        for migration in missing:
            for statement in migration.statements:
                await self._client.command(statement)
            await self._client.command(
                "INSERT INTO schema_migrations (version, name) SELECT {version:UInt32}, {name:String}",
                {"version": migration.version, "name": migration.name},
            )
        return [migration.version for migration in missing]

    async def missing_migrations(self) -> list[int]:
        """Return the numbers of the migrations that are missing, and change nothing; all where no tables are made."""
        ledger = "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = 'schema_migrations'"
        applied = set()
        if (await self._client.rows(ledger))[0][0]:
            applied = {row[0] for row in await self._client.rows("SELECT version FROM schema_migrations FINAL")}
        return [migration.version for migration in migrations() if migration.version not in applied]

    async def write_deltas(self, deltas: Sequence[ProfileDelta], places: Sequence[Place] = ()) -> None:
        """Write deltas; when this returns they are in the table.

        A delta ``forget`` removes those of its user that came before it, and their tag hits; of those in the same
        batch none is written. It is written before they are removed; profile and history are without them at once.

        Args:
            deltas: the rows.
            places: where each lies on the delta topic; may be left out.
        """
        place_of = dict(zip(map(id, deltas), places, strict=False))
        forgotten = forgets(deltas)
        if deltas := without_forgotten_deltas(deltas, forgotten):
            await self._client.insert(DELTAS, deltas, [place_of[id(delta)] for delta in deltas] if places else ())
        await self._remove(deletes_of_deltas(forgotten.values()))

    async def write_events(self, events: Sequence[FlushEvent], places: Sequence[Place] = ()) -> None:
        """Write flush events; when this returns they are in the table.

        An event ``forgotten`` removes those of its user that came before it, likewise; with them their gists and model
        calls, and the user's dead letters.

        Args:
            events: the rows.
            places: where each lies on the event topic; may be left out.
        """
        place_of = dict(zip(map(id, events), places, strict=False))
        forgotten = [event for event in events if event.outcome == "forgotten"]
        if events := without_forgotten_events(events, forgotten):
            await self._client.insert(EVENTS, events, [place_of[id(event)] for event in events] if places else ())
        await self._remove(deletes_of_events(forgotten))
        # After the insert: a letter that is being written looks for the event after itself.
        await self._remove(deletes_of_letters(forgotten))

    async def write_letters(self, letters: Sequence[ArchivedLetter]) -> list[FlushEvent]:
        """Write where dead letters lie and why; those of users who have been forgotten since are removed again.

        Returns the events by which users of these letters were forgotten, as `forgotten` does.
        """
        if not letters:
            return []
        await self._client.insert(LETTERS, letters)
        forgotten = await self.forgotten((letter.tenant_id, letter.user_id) for letter in letters)
        await self._remove(deletes_of_letters(forgotten))
        return forgotten

    async def remove_letters(self, tenant_id: str, user_id: str, letter_ids: Collection[str]) -> None:
        """Remove these dead letters of a user."""
        await self._remove(deletes_of_named_letters(tenant_id, user_id, letter_ids))

    async def all_forgotten(self) -> tuple[list[ProfileDelta], list[FlushEvent]]:
        """Return of every user who was forgotten the newest delta, and the newest event, that says so."""
        deltas = await self._records(DELTAS, queries.ALL_FORGETS, {})
        return deltas, await self._records(EVENTS, queries.ALL_FORGOTTEN, {})

    async def finish_forgetting(self, deltas: Sequence[ProfileDelta], events: Sequence[FlushEvent]) -> None:
        """Remove what there still is from before these, which are written already.

        Looks first: a delete costs more, and mostly there is nothing.
        """
        for deletes in (deletes_of_deltas(deltas), deletes_of_events(events), deletes_of_letters(events)):
            await self._remove([each for each in deletes if await self._client.finds(each.look, each.parameters)])

    async def forgotten(self, users: Iterable[tuple[str, str]]) -> list[FlushEvent]:
        """Return for each of these users (tenant, user) who was forgotten the last event that says so."""
        named = {user for user in users if user[1]}
        pages = sorted(named)
        found: list[FlushEvent] = []
        for start in range(0, len(pages), _USERS_PER_QUERY):
            tenants, names = (list(column) for column in zip(*pages[start : start + _USERS_PER_QUERY], strict=True))
            found += await self._records(EVENTS, queries.FORGOTTEN, {"tenants": tenants, "users": names})
        # Beside these tenants and users the query finds others that are made of them.
        return [event for event in found if (event.flush.tenant_id, event.flush.user_id) in named]

    async def write_decisions(self, decisions: Sequence[ArchivedDecision]) -> None:
        """Write what was decided about dead letters."""
        if decisions:
            await self._client.insert(DECISIONS, decisions)

    async def history(
        self,
        tenant_id: str,
        user_id: str,
        *,
        topic: str | None = None,
        sub_topic: str | None = None,
        kind: str | None = None,
        item_id: str | None = None,
        limit: int = 100,
    ) -> list[ProfileDelta]:
        """Return a user's newest `limit` deltas, oldest of them first.

        Args:
            tenant_id: the user's tenant.
            user_id: the user.
            topic: only those of this topic or category.
            sub_topic: only those of this sub-topic or tag.
            kind: only those of this kind.
            item_id: only those of this fact or preference.
            limit: how many at most.
        """
        wanted = {"topic": topic, "sub_topic": sub_topic, "kind": kind, "item_id": item_id}
        parameters = {**_of(tenant_id, user_id), **wanted, "limit": limit}
        deltas = await self._records(DELTAS, queries.HISTORY, parameters)
        return deltas[::-1]

    async def profile(self, tenant_id: str, user_id: str) -> Profile:
        """Return a user's profile, folded from all deltas; of a user without any, an empty one."""
        deltas = await self._records(DELTAS, queries.USER_DELTAS, _of(tenant_id, user_id))
        return await asyncio.to_thread(_folded, (tenant_id, user_id), deltas)

    async def events(self, tenant_id: str, user_id: str, limit: int = 100) -> list[FlushEvent]:
        """Return a user's newest `limit` flush events, oldest of them first."""
        events = await self._records(EVENTS, queries.USER_EVENTS, {**_of(tenant_id, user_id), "limit": limit})
        # What is still to be removed since the user was forgotten is left out, as in the history.
        return without_forgotten_events(events[::-1], [event for event in events if event.outcome == "forgotten"])

    async def query(self, query: ReadyQuery, parameters: Mapping[str, str]) -> list[dict[str, Any]]:
        """Run a ready query and return its rows, each by the names of its columns.

        Raises:
            ValueError: when a parameter is missing or not known.
        """
        values = query.values(parameters)
        if values.get("at") == "now":
            values["at"] = datetime.now(UTC).isoformat()
        names, rows = await self._client.table(query.sql, values)
        return [dict(zip(names, row, strict=True)) for row in rows]

    async def counts(self) -> dict[str, int]:
        """Return how many ``deltas``, ``events`` and ``users`` there are."""
        (row,) = await self._client.rows(queries.COUNTS)
        return dict(zip(("deltas", "events", "users"), map(int, row), strict=True))

    async def count_user(self, tenant_id: str, user_id: str) -> dict[str, int]:
        """Return how many ``deltas``, ``events`` and ``tag_hits`` there are of a user.

        What only says that the user was forgotten is not counted.
        """
        (row,) = await self._client.rows(queries.COUNTS_OF_USER, _of(tenant_id, user_id))
        return dict(zip(("deltas", "events", "tag_hits"), map(int, row), strict=True))

    async def users(self) -> AsyncIterator[list[tuple[str, str]]]:
        """Give every user (tenant, user) in their order, a page at a time, as `profiles` does."""
        page = {"after_tenant": "", "after_user": "", "users": _USERS_PER_PAGE}
        while rows := await self._client.rows(queries.PAGE_OF_USERS, page):
            yield [(tenant_id, user_id) for tenant_id, user_id in rows]
            page.update(after_tenant=rows[-1][0], after_user=rows[-1][1])

    async def profiles(self) -> AsyncIterator[ProfileState]:
        """Give what the merge must know of every user: the profile, and how far each lane has been applied.

        Users come in the order of tenant and user id, a page at a time: no request stays open while the caller
        works, however slow it is, and memory holds one page. Users whose flushes never changed anything are
        included. What is written meanwhile may be missed.
        """
        page = {"after_tenant": "", "after_user": "", "users": _USERS_PER_PAGE}
        while True:
            users: list[_User] = [(row[0], row[1]) for row in await self._client.rows(queries.PAGE_OF_USERS, page)]
            if not users:
                return
            last_tenant, last_user = users[-1]
            bounds = {**page, "last_tenant": last_tenant, "last_user": last_user}
            profiles = await self._profiles(bounds)
            marks = await self._marks(bounds)
            redriven = await self._redriven(bounds)
            for user in users:
                state = ProfileState(profile=profiles.get(user) or _empty(user), applied=marks.get(user, {}))
                for flush in redriven.get(user, ()):
                    state = state.marked(flush)
                yield state
            page.update(after_tenant=last_tenant, after_user=last_user)

    async def _profiles(self, bounds: Mapping[str, Any]) -> dict[_User, Profile]:
        """Fold the deltas of a page of users, block by block: of one user all deltas are held, of the others none."""
        profiles: dict[_User, Profile] = {}
        open_user: list[ProfileDelta] = []
        async with self._client.blocks(queries.PAGE_OF_DELTAS, bounds) as blocks:
            async for block in blocks:
                open_user = await asyncio.to_thread(self._fold_block, profiles, open_user, block)
        if open_user:
            await asyncio.to_thread(_fold, profiles, open_user)
        return profiles

    def _fold_block(
        self, profiles: dict[_User, Profile], open_user: list[ProfileDelta], block: Iterable[Sequence[Any]]
    ) -> list[ProfileDelta]:
        """Fold every user who is complete with this block; return the deltas of the last, who may not be."""
        groups = [list(group) for _, group in groupby([*open_user, *self._read(DELTAS, block)], key=_user_of)]
        for group in groups[:-1]:
            _fold(profiles, group)
        return groups[-1] if groups else []

    async def _marks(self, bounds: Mapping[str, Any]) -> dict[_User, dict[Lane, AppliedMark]]:
        marks: dict[_User, dict[Lane, AppliedMark]] = {}
        for tenant_id, user_id, lane, log_id, partition, offset in await self._client.rows(
            queries.PAGE_OF_MARKS, bounds
        ):
            mark = AppliedMark(log_id=log_id, partition=partition, last_offset=offset)
            marks.setdefault((tenant_id, user_id), {})[lane] = mark
        return marks

    async def _redriven(self, bounds: Mapping[str, Any]) -> dict[_User, list[FlushRef]]:
        """Return each user's newest flushes that were sent again, oldest first."""
        flushes = await self._records(REFS, queries.PAGE_OF_REDRIVEN, {**bounds, "per_user": MAX_REDRIVEN})
        redriven: dict[_User, list[FlushRef]] = {}
        for flush in reversed(flushes):
            redriven.setdefault((flush.tenant_id, flush.user_id), []).append(flush)
        return redriven

    async def _remove(self, deletes: Iterable[Delete]) -> None:
        for each in deletes:
            await self._client.delete(each.statement, each.parameters)

    async def _records(self, table: Table[T], sql: str, parameters: Mapping[str, Any]) -> list[T]:
        rows = await self._client.rows(sql, parameters)
        return await asyncio.to_thread(self._read, table, rows)

    def _read(self, table: Table[T], rows: Iterable[Sequence[Any]]) -> list[T]:
        try:
            return table.records(rows)
        except msgspec.ValidationError as error:
            raise SinkRejected(
                f"{table.name} in ClickHouse at {self._client.url} holds a row that this release cannot read: {error}"
            ) from error


def _of(tenant_id: str, user_id: str) -> dict[str, Any]:
    return {"tenant": tenant_id, "user": user_id}


def _user_of(delta: ProfileDelta) -> _User:
    return delta.tenant_id, delta.user_id


def _empty(user: _User) -> Profile:
    return Profile(tenant_id=user[0], user_id=user[1])


def _fold(profiles: dict[_User, Profile], deltas: Sequence[ProfileDelta]) -> None:
    user = _user_of(deltas[0])
    profiles[user] = _folded(user, deltas)


def _folded(user: _User, deltas: Sequence[ProfileDelta]) -> Profile:
    forgotten = max((place for place, delta in enumerate(deltas) if delta.op == "forget"), default=0)
    try:
        # What is written again from before may not be complete, and does not matter.
        return apply_deltas(_empty(user), deltas[forgotten:])
    except VersionGap as gap:
        raise SinkRejected(f"the archive is incomplete, {gap}: archive the delta topic again from its start") from gap
