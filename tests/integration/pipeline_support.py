"""Messages and checks that the tests of the whole pipeline share."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from benchmarks.harness import Overrides
from schemas.profiles import Profile
from streams.settings import Settings, load_settings
from streams.stores import open_archive

FAST: Overrides = {"embedding": {"kind": "hash"}, "lanes": {"backoff": 0.05, "backoff_limit": 0.5}}
"""Settings of a test worker: vectors that cost nothing, and short waits."""


def write_chat(path: Path, lines: Iterable[Mapping[str, object]]) -> Path:
    """Write messages as JSON lines."""
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def said(user: str, *texts: str, role: str = "user") -> list[dict[str, object]]:
    """Return messages of a user, a minute apart, with ids of their own."""
    return [
        {
            "user_id": user,
            "role": role,
            "content": text,
            "message_id": f"{user}-{number}",
            "occurred_at": f"2026-01-02T03:{number:02}:00Z",
        }
        for number, text in enumerate(texts)
    ]


def settings_of(*overrides: Overrides) -> Settings:
    """Return the settings that a process with these overrides has."""
    merged: dict[str, dict[str, object]] = {}
    for one in overrides:
        for group, values in one.items():
            merged.setdefault(group, {}).update(values)
    return load_settings(overrides=merged)


async def eventually(holds: Callable[[], Awaitable[bool]], limit: float = 60.0) -> None:
    """Wait until a condition holds.

    Raises:
        TimeoutError: when it does not within `limit` seconds.
    """
    deadline = time.monotonic() + limit
    while not await holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {limit} s")
        await asyncio.sleep(0.1)


async def archived_profile(settings: Settings, user: str) -> Profile:
    """Return a user's profile from the archive."""
    async with open_archive(settings.clickhouse) as store:
        return await store.profile("default", user)


def values(profile: Profile) -> dict[str, tuple[str, int, tuple[str, ...]]]:
    """Return what a profile says, without the times at which it was recorded."""
    return {f"{s.topic}/{s.sub_topic}": (s.value, s.update_hits, s.evidence) for s in profile.slots}
