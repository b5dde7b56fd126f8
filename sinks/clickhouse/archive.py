"""`ClickHouseArchive`: every profile delta and flush event, kept in ClickHouse, and the profiles they make."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from schemas.deltas import FlushEvent, ProfileDelta
from schemas.flushes import Lane
from schemas.profiles import AppliedMark, Profile, ProfileState, VersionGap, apply_deltas
from sinks.clickhouse import queries
from sinks.clickhouse.client import ClickHouseClient
from sinks.clickhouse.columns import DELTAS, EVENTS, T, Table
from sinks.clickhouse.schema import CREATE_LEDGER, migrations
from sinks.errors import SinkRejected

_USERS_PER_PAGE: Final = 500
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

    async def write_deltas(self, deltas: Sequence[ProfileDelta]) -> None:
        """Write deltas; when this returns they are in the table."""
        if deltas:
            await self._client.insert(DELTAS, deltas)

    async def write_events(self, events: Sequence[FlushEvent]) -> None:
        """Write flush events; when this returns they are in the table."""
        if events:
            await self._client.insert(EVENTS, events)

    async def history(
        self,
        tenant_id: str,
        user_id: str,
        *,
        topic: str | None = None,
        sub_topic: str | None = None,
        limit: int = 100,
    ) -> list[ProfileDelta]:
        """Return a user's newest `limit` deltas, oldest of them first, of all slots or of those named."""
        deltas = await self._records(
            DELTAS, queries.HISTORY, {**_of(tenant_id, user_id), "topic": topic, "sub_topic": sub_topic, "limit": limit}
        )
        return deltas[::-1]

    async def profile(self, tenant_id: str, user_id: str) -> Profile:
        """Return a user's profile, folded from all deltas; of a user without any, an empty one."""
        deltas = await self._records(DELTAS, queries.USER_DELTAS, _of(tenant_id, user_id))
        return await asyncio.to_thread(_folded, (tenant_id, user_id), deltas)

    async def events(self, tenant_id: str, user_id: str, limit: int = 100) -> list[FlushEvent]:
        """Return a user's newest `limit` flush events, oldest of them first."""
        events = await self._records(EVENTS, queries.USER_EVENTS, {**_of(tenant_id, user_id), "limit": limit})
        return events[::-1]

    async def counts(self) -> dict[str, int]:
        """Return how many ``deltas``, ``events`` and ``users`` there are."""
        (row,) = await self._client.rows(queries.COUNTS)
        return dict(zip(("deltas", "events", "users"), map(int, row), strict=True))

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
            for user in users:
                yield ProfileState(profile=profiles.get(user) or _empty(user), applied=marks.get(user, {}))
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


def _folded(user: _User, deltas: Iterable[ProfileDelta]) -> Profile:
    try:
        return apply_deltas(_empty(user), deltas)
    except VersionGap as gap:
        raise SinkRejected(f"the archive is incomplete, {gap}: archive the delta topic again from its start") from gap
