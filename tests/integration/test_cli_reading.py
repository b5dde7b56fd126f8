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

from schemas.deltas import FactDetail, PreferenceDetail, ProfileDelta
from schemas.ids import fact_id, preference_id
from schemas.stages import EventTag, MemoBullet, MessageRef
from streams.embedded.services import EmbeddedServices
from streams.settings import Settings, variable
from streams.stores import open_archive, open_vectors
from tests.integration.clickhouse_records import make_event

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


def about_li_lei(version: int, kind: str, topic: str, after: str | None, **changes: Any) -> ProfileDelta:
    own = {"kind": kind, "topic": topic, "user_id": "李雷", "delta_id": f"00000000-0000-0000-0004-{version:012}"}
    return delta(version, changes.pop("sub_topic", ""), after, **own | {"update_hits": 1} | changes)


BEIJING, HANGZHOU, SHORT = fact_id("f", 1), fact_id("f", 2), preference_id("f", 1)
SURE = FactDetail(confidence=0.9, importance=0.9, session_id="s")
REPLACED = FactDetail(confidence=0.9, importance=0.9, session_id="s", replaced_by=HANGZHOU)
LIKED = PreferenceDetail(strength=0.8, quotes=("平时喜欢简短的回复",))
LI_LEI = [
    about_li_lei(1, "fact", "location", "用户住在北京", item_id=BEIJING, fact=SURE),
    about_li_lei(
        *(2, "fact", "location", None),
        **{
            "op": "invalidate",
            "before": "用户住在北京",
            "reason": "contradicted",
            "item_id": BEIJING,
            "fact": REPLACED,
        },
    ),
    about_li_lei(3, "fact", "location", "用户住在杭州", item_id=HANGZHOU, fact=SURE),
    about_li_lei(4, "preference", "communication_style", "偏好简短的回复风格", item_id=SHORT, preference=LIKED),
    about_li_lei(5, "tag", "tag", "1", sub_topic="Board Games"),
    about_li_lei(6, "slot", "contact", "杭州", sub_topic="city"),
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


GISTS = make_event(
    1,
    user="ada",
    tenant="default",
    memo=(
        MemoBullet(text="Ada moved to Lyon", evidence=("m1",)),
        MemoBullet(text="她\x1b[2J喜欢下棋", evidence=("m2",)),
    ),
    tags=(EventTag(tag="emotion", value="happy"),),
    messages=tuple(MessageRef(message_id=f"m{n}", role="user", occurred_at=SAID + timedelta(hours=n)) for n in (1, 2)),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def environment(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, str]]:
    """Variables of commands for stores that hold the deltas above."""
    folder = tmp_path_factory.mktemp("stores")
    async with EmbeddedServices(folder) as services:
        settings = Settings.model_validate({**services.settings, "embedding": {"kind": "hash"}})
        async with open_archive(settings.clickhouse) as archive:
            await archive.migrate()
            await archive.write_deltas([*DELTAS, *OTHERS, *LI_LEI])
            await archive.write_events([GISTS])
        async with open_vectors(settings) as vectors:
            await vectors.apply([*DELTAS, *OTHERS, *LI_LEI])
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
        (["profile", "nobody"], "Nothing is known of nobody in tenant default yet.\n"),
        (["profile", "ada", "--tenant", "t2"], "Nothing is known of ada in tenant t2 yet.\n"),
        (["profile", "carl"], "Nothing is known of carl in tenant default any more: all was taken back.\n"),
        (["history", "no\x1bbody"], "There are no such changes of no\\x1bbody in tenant default yet.\n"),
        (["history", "nobody", "--json"], ""),
        (["events", "nobody"], "There are no such events of nobody in tenant default.\n"),
        (["similar-users", "nobody"], "Nothing is known of nobody in tenant default yet.\n"),
        (["similar-users", "nobody", "--json"], ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
async def test_nothing_known_is_an_answer(environment: dict[str, str], arguments: list[str], said: str) -> None:
    assert await run(environment, *arguments) == (0, said, "")


async def test_a_user_with_nothing_is_an_empty_profile_for_programs(environment: dict[str, str]) -> None:
    code, out, _ = await run(environment, "profile", "nobody", "--json")
    assert code == 0
    assert json.loads(out) == {
        "tenant_id": "default", "user_id": "nobody", "version": 0, "slots": [], "facts": {}, "preferences": {},
        "facts_count": 0, "preferences_count": 0, "tags": [], "replaced_facts": [], "changed_facts": [],
    }  # fmt: skip


async def test_facts_preferences_and_tags_of_a_profile(environment: dict[str, str]) -> None:
    code, out, err = await run(environment, "profile", "李雷")
    assert (code, err) == (0, "")
    held = [
        "Facts (1)",
        "category fact confidence times confirmed",
        "location (1) 用户住在杭州 0.90 ×1 2026-02-01",
    ]
    rest = [
        "",
        "Preferences (1)",
        "category preference strength times confirmed",
        "communication_style (1) 偏好简短的回复风格 0.80 ×1 2026-02-01",
        "",
        "Tags (1)",
        "tag times last seen",
        "Board Games ×1 2026-02-01",
    ]
    assert [" ".join(line.split()) for line in out.splitlines()][4:] == [*held, *rest]

    _, out, _ = await run(environment, "profile", "李雷", "--replaced")
    before = "before: 用户住在北京, until 2026-02-01"
    assert [" ".join(line.split()) for line in out.splitlines()][4:] == [*held, before, *rest]

    _, out, _ = await run(environment, "profile", "李雷", "--json")
    profile = json.loads(out)
    assert [fact["fact_id"] for fact in profile["facts"]["location"]] == [HANGZHOU]
    assert profile["preferences"]["communication_style"][0]["quotes"] == ["平时喜欢简短的回复"]
    assert [(tag["name"], tag["count"]) for tag in profile["tags"]] == [("Board Games", 1)]
    assert [(fact["fact_id"], fact["replaced"]["by"]) for fact in profile["replaced_facts"]] == [(BEIJING, HANGZHOU)]


async def test_history_of_one_kind(environment: dict[str, str]) -> None:
    async def versions(*arguments: str) -> list[int]:
        code, out, err = await run(environment, "history", "李雷", "--json", *arguments)
        assert (code, err) == (0, "")
        return [json.loads(line)["version"] for line in out.splitlines()]

    assert await versions() == [1, 2, 3, 4, 5, 6]
    assert await versions("--kind", "fact") == [1, 2, 3]
    assert await versions("--kind", "preference", "--topic", "Communication Style") == [4]
    assert await versions("--kind", "tag", "--sub-topic", "Board Games") == [5]
    assert await versions("--kind", "slot", "--sub-topic", "City") == [6]
    assert await versions("--kind", "fact", "--topic", "work") == []

    _, out, _ = await run(environment, "history", "李雷", "--kind", "fact")
    assert [line.partition("  李雷 ")[2] for line in out.splitlines()] == [
        "v1  + fact/location  用户住在北京  ×1  (first value)  [m1]",
        "v2  ✗ fact/location  用户住在北京  no longer holds  (contradicted)  [m2]",
        "v3  + fact/location  用户住在杭州  ×1  (first value)  [m3]",
    ]
    code, out, err = await run(environment, "history", "李雷", "--kind", "facts")
    assert (code, out) == (2, "")
    assert "'facts' is not one of 'slot', 'fact', 'preference', 'tag'" in err


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
    assert "2026-02-02 12:00:00  ada v3  ~ contact/city  “Paris” → “里昂”  (moved)  [m3]" in out.splitlines()


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

    assert await found("用户住在杭州", "--kind", "fact") == [("李雷", "用户住在杭州")]
    assert await found("用户住在北京", "--kind", "preference", "--user", "李雷") == []

    code, out, _ = await run(environment, "search", "偏好简短的回复风格", "--limit", "1")
    assert code == 0
    assert out.splitlines()[1].split()[0] == "1."
    assert out.splitlines()[1].split()[2:] == ["李雷", "preference/communication_style", "偏好简短的回复风格"]

    code, out, _ = await run(environment, "search", "green tea", "--user", "ada", "--limit", "1")
    assert code == 0
    assert out.splitlines()[1].split()[2:] == ["ada", "likes/drink", "green", "tea"]
    for arguments, said in (
        (("x", "--tenant", "t2"), "Nothing is known of the users of tenant t2 that could be found yet."),
        (("x", "--user", "no"), "Nothing is known of no in tenant default that could be found yet."),
        (
            ("qzx", "--by", "words", "--user", "bert"),
            "None of the 1 things known of bert in tenant default is like that or has its words.",
        ),
    ):
        assert await run(environment, "search", *arguments) == (0, f"{said}\n", "")


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
    assert err.startswith("profilestream: the archive has no tables yet, or those of an older release: a worker makes")
    code, out, err = await run(environment | {variable("qdrant.collection"): "fresh"}, "search", "tea")
    assert (code, out) == (1, "")
    assert "collection fresh" in err


async def test_a_profile_as_it_was(environment: dict[str, str]) -> None:
    async def then(*arguments: str) -> list[tuple[str, str]]:
        code, out, err = await run(environment, "profile", "ada", "--json", "--as-of", *arguments)
        assert (code, err) == (0, "")
        return [(row["sub_topic"], row["value"]) for row in map(json.loads, out.splitlines())]

    assert await then("2026-02-01T11:30:00Z", "--clock", "said") == [("city", "Paris"), ("email", DELTAS[1].after)]
    assert await then("2026-02-01T11:30:00Z") == []
    assert [value for _, value in await then("2026-02-02T12:00:00Z")] == ["里昂", DELTAS[1].after]
    assert len(await then("now")) == 3
    _, out, _ = await run(environment, "profile", "ada", "--as-of", "2026-02-02T10:00:00Z")
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "what value said_at recorded_at version",
        "contact/city Paris 2026-02-01 10:00:00 2026-02-02 10:00:00 1",
    ]
    _, out, _ = await run(environment, "profile", "ada", "--as-of", "2020-01-01")
    assert out == "Nothing was known of ada in tenant default then.\n"


async def test_events_are_found_by_words_and_tags(environment: dict[str, str]) -> None:
    code, out, err = await run(environment, "events", "ada")
    assert (code, err) == (0, "")
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "occurred_at text tags",
        r"2026-02-01 11:00:00 她\x1b[2J喜欢下棋 emotion=happy",
        "2026-02-01 10:00:00 Ada moved to Lyon emotion=happy",
    ]
    for arguments in (
        ("--text", "lyon"),
        ("--until", "2026-02-01T10:30:00Z"),
        ("--tag", "emotion=happy", "--text", "Ada"),
    ):
        _, out, _ = await run(environment, "events", "ada", "--json", *arguments)
        assert [json.loads(line)["text"] for line in out.splitlines()] == ["Ada moved to Lyon"]


async def test_ready_queries_are_listed_shown_and_run(environment: dict[str, str]) -> None:
    _, out, _ = await run(environment, "query", "--json")
    listed = {json.loads(line)["name"]: json.loads(line) for line in out.splitlines()}
    assert listed["slot_holders"]["parameters"][1] == {"name": "topic", "default": None, "meaning": "the slot's topic"}
    _, out, _ = await run(environment, "query", "slot_holders", "-p", "topic=contact", "-p", "sub_topic=city", "--json")
    assert {(row["user_id"], row["value"]) for row in map(json.loads, out.splitlines())} == {
        ("ada", "里昂"),
        ("bert", "Rome"),
        ("李雷", "杭州"),
    }
    _, out, _ = await run(environment, "query", "slot_holders", "-p", "topic=contact", "-p", "sub_topic=none")
    assert out == "There are no such rows.\n"
    _, out, _ = await run(environment, "query", "fill_rates", "--sql")
    assert out.startswith("WITH (SELECT uniqExact(")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["query", "nothing", "--sql"], "there is no query 'nothing': `profilestream query` lists them."),
        (["profile", "ada", "--clock", "said"], "--clock needs --as-of"),
        (["profile", "ada", "--as-of", "now", "--replaced"], "--replaced is of the present profile"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
async def test_a_question_that_cannot_be_asked(environment: dict[str, str], arguments: list[str], said: str) -> None:
    code, out, err = await run(environment, *arguments)
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
    assert "Traceback" not in err


async def test_tables_are_migrated_once(environment: dict[str, str]) -> None:
    assert await run(environment, "migrate") == (0, "nothing was missing.\n", "")
    _, out, _ = await run(environment | {variable("clickhouse.database"): "made"}, "migrate", "--json")
    assert json.loads(out)["applied"][:3] == [1, 2, 3]


async def test_similar_users_are_of_the_tenant(environment: dict[str, str]) -> None:
    code, out, err = await run(environment, "similar-users", "ada", "--json", "--limit", "5")
    assert (code, err) == (0, "")
    found = [json.loads(line) for line in out.splitlines()]
    assert all(set(each) == {"user_id", "score"} for each in found)
    assert {each["user_id"] for each in found} <= {"bert", "李雷"}


async def test_reindex_fills_another_collection_and_takes_it_into_use(environment: dict[str, str]) -> None:
    other = environment | {variable("embedding.dimension"): "64"}
    code, out, err = await run(other, "search", "green tea")
    assert (code, out) == (1, "")
    assert "a worker creates collection profiles-hash-64-2 when it starts" in err

    code, out, err = await run(other, "reindex")
    assert (code, err) == (0, "")
    assert " ".join(out.split()) == (
        "profiles-hash-64-2 holds what is known of 5 users, and is in use as profiles. "
        "profiles-hash-384-2 is not searched any more: delete it once no worker writes to it."
    )
    code, out, _ = await run(other, "search", "green tea", "--json", "--limit", "1")
    assert (code, json.loads(out)["text"]) == (0, "green tea")

    code, out, err = await run(environment, "search", "green tea")
    assert (code, out) == (1, "")
    assert "not in use yet" in err

    code, out, err = await run(environment, "reindex", "--delete-old", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {
        "collection": "profiles-hash-384-2",
        "alias": "profiles",
        "users": 5,
        "before": "profiles-hash-64-2",
        "deleted": True,
    }
    code, out, _ = await run(environment, "search", "green tea", "--by", "words", "--json", "--limit", "1")
    assert (code, json.loads(out)["text"]) == (0, "green tea")


async def test_times_are_read_and_printed_in_the_readers_zone(environment: dict[str, str]) -> None:
    tokyo = environment | {"TZ": "Asia/Tokyo"}
    # Said at 10:00 and 11:00 UTC: 19:00 and 20:00 in Tokyo.
    for arguments in (
        ("events", "ada", "--until", "2026-02-01T19:30"),
        ("events", "ada", "--until", "2026-02-01T10:30Z"),
        ("query", "user_events", "-p", "user=ada", "-p", "until=2026-02-01T19:30"),
    ):
        code, out, err = await run(tokyo, *arguments)
        assert (code, err) == (0, "")
        assert [line.split()[:2] for line in out.splitlines() if "Ada" in line] == [["2026-02-01", "19:00:00"]]
        assert "喜欢下棋" not in out
    _, out, _ = await run(tokyo, "profile", "ada", "--as-of", "2026-02-01T20:30", "--clock", "said")
    known = [line.split()[:2] for line in out.splitlines()[1:]]
    assert known == [["contact/city", "Paris"], ["contact/email", "ada@example.org"]]
    _, out, _ = await run(tokyo, "events", "ada", "--json", "--until", "2026-02-01T19:30")
    assert json.loads(out)["occurred_at"] == "2026-02-01T10:00:00Z"


@pytest.mark.parametrize(
    "arguments",
    [
        ["profile", "ada"],
        ["profile", "nobody"],
        ["history", "ada", "--json"],
        ["events", "ada"],
        ["query", "fill_rates"],
        ["search", "green tea"],
        ["similar-users", "nobody"],
    ],
    ids=" ".join,
)
async def test_a_reader_who_leaves_ends_a_command_quietly(environment: dict[str, str], arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "streams.cli", *arguments), env=environment, stdout=writing, stderr=subprocess.PIPE
        )
    finally:
        os.close(writing)
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, err) == (141, b"")
