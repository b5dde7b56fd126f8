"""`profilestream profile`, `history` and `search` against real stores."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from schemas.deltas import ProfileDelta
from streams.embedded.services import EmbeddedServices
from streams.settings import Settings, variable
from streams.stores import open_archive, open_vectors

pytestmark = pytest.mark.asyncio(loop_scope="module")

SAID = datetime(2026, 2, 1, 9, 0, tzinfo=UTC)


def delta(version: int, sub_topic: str, after: str | None, **changes: Any) -> ProfileDelta:
    fields: dict[str, Any] = {
        "delta_id": f"00000000-0000-0000-0000-{version:012}",
        "tenant_id": "default",
        "user_id": "ada",
        "version": version,
        "flush_id": "00000000-0000-0000-0000-000000000001",
        "index": version - 1,
        "op": "add",
        "topic": "contact",
        "sub_topic": sub_topic,
        "before": None,
        "after": after,
        "added": after,
        "reason": "first value",
        "evidence": (f"m{version}",),
        "update_hits": 0,
        "said_at": SAID + timedelta(hours=version),
        "recorded_at": SAID + timedelta(days=1, hours=version),
        "processor": "rules",
        "pipeline_version": "p",
    }
    return ProfileDelta(**fields | changes)


DELTAS = [
    delta(1, "city", "Paris"),
    delta(2, "email", "ada@example.org \x1b[2J[bold]"),
    delta(3, "city", "里昂", op="update", before="Paris", reason="moved"),
    delta(4, "drink", "green tea", topic="likes", assertion="inferred"),
]
OTHERS = [
    delta(1, "city", "Rome", delta_id="00000000-0000-0000-0001-000000000001", user_id="bert"),
    delta(1, "city", "Oslo", delta_id="00000000-0000-0000-0002-000000000001", tenant_id="t1"),
    delta(1, "city", "Bonn", delta_id="00000000-0000-0000-0003-000000000001", user_id="carl"),
    delta(
        2,
        "city",
        None,
        delta_id="00000000-0000-0000-0003-000000000002",
        user_id="carl",
        op="delete",
        before="Bonn",
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def environment(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, str]]:
    """Variables of commands for stores that hold the deltas above."""
    folder = tmp_path_factory.mktemp("stores")
    async with EmbeddedServices(folder) as services:
        settings = Settings.model_validate({**services.settings, "embedding": {"kind": "hash"}})
        async with open_archive(settings.clickhouse) as archive:
            await archive.migrate()
            await archive.write_deltas([*DELTAS, *OTHERS])
        async with open_vectors(settings) as vectors:
            await vectors.apply([*DELTAS, *OTHERS])
        own = {key: value for key, value in os.environ.items() if not key.startswith(("PROFILESTREAM_", "OPENAI_"))}
        yield own | {
            "XDG_STATE_HOME": str(folder),
            "TZ": "UTC",
            "COLUMNS": "120",
            variable("clickhouse.url"): settings.clickhouse.url,
            variable("qdrant.url"): settings.qdrant.url,
            variable("embedding.kind"): "hash",
        }


async def run(environment: dict[str, str], *arguments: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "streams.cli", *arguments),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    return process.returncode, out.decode(), err.decode()


async def test_a_profile_is_a_table_for_people(environment: dict[str, str]) -> None:
    code, out, err = await run(environment, "profile", "ada")
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == "ada, version 4"
    assert lines[2:] == [
        "contact city 里昂 2026-02-01 12:00:00",
        r"email ada@example.org \x1b[2J[bold] 2026-02-01 11:00:00",
        "likes drink green tea (inferred) 2026-02-01 13:00:00",
    ]


async def test_a_profile_is_one_object_for_programs(environment: dict[str, str]) -> None:
    _, out, _ = await run(environment, "profile", "ada", "--json")
    profile = json.loads(out)
    assert (profile["user_id"], profile["version"]) == ("ada", 4)
    assert [(slot["sub_topic"], slot["value"]) for slot in profile["slots"]] == [
        ("city", "里昂"),
        ("email", "ada@example.org \x1b[2J[bold]"),
        ("drink", "green tea"),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["profile", "nobody"], "Nothing is known of nobody yet.\n"),
        (["profile", "ada", "--tenant", "t2"], "Nothing is known of ada yet.\n"),
        (["profile", "carl"], "Nothing is known of carl any more: all was taken back.\n"),
        (["history", "no\x1bbody"], "There are no such changes of no\\x1bbody yet.\n"),
        (["history", "nobody", "--json"], ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
async def test_nothing_known_is_an_answer(environment: dict[str, str], arguments: list[str], said: str) -> None:
    assert await run(environment, *arguments) == (0, said, "")


async def test_a_user_with_nothing_is_an_empty_profile_for_programs(environment: dict[str, str]) -> None:
    code, out, _ = await run(environment, "profile", "nobody", "--json")
    assert code == 0
    assert json.loads(out) == {"tenant_id": "default", "user_id": "nobody", "version": 0, "slots": []}


async def test_history_of_a_user_and_of_a_slot(environment: dict[str, str]) -> None:
    async def versions(*arguments: str) -> list[int]:
        code, out, err = await run(environment, "history", "ada", "--json", *arguments)
        assert (code, err) == (0, "")
        return sorted(json.loads(line)["version"] for line in out.splitlines())

    assert await versions() == [1, 2, 3, 4]
    assert await versions("--topic", "Contact ", "--sub-topic", "City") == [1, 3]
    assert await versions("--topic", "likes") == [4]
    assert len(await versions("--limit", "2")) == 2
    assert await versions("--tenant", "t1") == [1]

    _, out, _ = await run(environment, "history", "ada")
    assert "2026-02-02 12:00:00  ada v3  update  contact/city: “Paris” → “里昂”  (moved)  [m3]" in out.splitlines()


async def test_search_finds_users_of_the_tenant_only(environment: dict[str, str]) -> None:
    async def found(*arguments: str) -> list[tuple[str, str]]:
        code, out, err = await run(environment, "search", "--json", *arguments)
        assert (code, err) == (0, "")
        return [(hit["user_id"], hit["text"]) for hit in map(json.loads, out.splitlines())]

    assert (await found("likes drink green tea"))[0] == ("ada", "green tea")
    assert {user for user, _ in await found("contact city Rome", "--user", "bert")} == {"bert"}
    assert await found("contact city Oslo", "--tenant", "t1") == [("ada", "Oslo")]
    assert await found("contact city Rome", "--tenant", "t2") == []
    assert len(await found("contact city Rome", "--limit", "1")) == 1

    code, out, _ = await run(environment, "search", "green tea", "--user", "ada", "--limit", "1")
    assert code == 0
    assert out.splitlines()[1].split()[1:] == ["ada", "likes/drink", "green", "tea"]
    assert await run(environment, "search", "x", "--tenant", "t2") == (
        0,
        "Nothing is known that could be found yet.\n",
        "",
    )


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        (["profile", "ada"], "clickhouse.url"),
        (["history", "ada"], "clickhouse.url"),
        (["search", "tea"], "qdrant.url"),
    ],
)
async def test_a_store_that_is_down_is_named_with_its_setting(
    environment: dict[str, str], arguments: list[str], setting: str
) -> None:
    code, out, err = await run(environment | {variable(setting): "http://127.0.0.1:9"}, *arguments)
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert setting in err


async def test_stores_that_no_worker_has_used_say_so(environment: dict[str, str]) -> None:
    code, out, err = await run(environment | {variable("clickhouse.database"): "fresh"}, "profile", "ada")
    assert (code, out) == (1, "")
    assert err.startswith("profilestream: the archive has no tables yet: a worker makes them")
    code, out, err = await run(environment | {variable("qdrant.collection"): "fresh"}, "search", "tea")
    assert (code, out) == (1, "")
    assert "collection fresh" in err
