"""Publishes files of conversations to a worker and checks that everything adds up.

``python -m benchmarks.accounts FILE...`` runs the embedded services, ``profilestream publish`` and ``profilestream
worker`` as processes of their own. It prints messages, flushes, events, deltas, dead letters and what was dropped by
reason, and ends with 1 unless every message is in exactly one flush, every flush in exactly one event, the archive and
the vectors hold what the topics say, and nothing is in the dead letters.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Overrides, WorkerProcess, Written, command, discrepancies, environment, read_topics
from schemas.flushes import FlushBatch
from schemas.profiles import Profile, apply_deltas
from streams.cli.common import EXIT_REFUSED
from streams.embedded.services import EmbeddedServices
from streams.settings import Settings, load_settings
from streams.stores import open_archive, open_vectors

_LIMIT = 900.0


@dataclass(frozen=True)
class Account:
    """What became of files of conversations.

    Attributes:
        refused: lines that were not sent.
        written: everything on the topics.
        profiles: by tenant and user, folded from the deltas.
        problems: what does not add up.
        seconds: how long it took, the start of the worker included.
    """

    refused: int
    written: Written
    profiles: dict[tuple[str, str], Profile]
    problems: list[str]
    seconds: float


async def account(files: Sequence[Path], overrides: Overrides | None = None) -> Account:
    """Run the files through the program and account for every message.

    Args:
        files: JSON lines of chat messages.
        overrides: settings beside those of the embedded services.
    """
    with tempfile.TemporaryDirectory(prefix="profilestream-") as folder:
        async with EmbeddedServices(Path(folder)) as services:
            own = overrides or {}
            env = environment(services.settings, own)
            started = time.monotonic()
            async with WorkerProcess(env, Path(folder) / "worker.log"):
                published = await command(
                    "publish", "--flush", "--json", *map(str, files), env=env, expect=(0, EXIT_REFUSED)
                )
                sent = json.loads(published)
                settings = load_settings(overrides={**services.settings, **own})
                written = await read_topics(settings.kafka, lambda written: written.complete, _LIMIT)
                profiles = _profiles(written)
                problems = discrepancies(written) + await _stores(settings, written, profiles)
    if written.dead_letters:
        problems.append(f"{len(written.dead_letters)} records are in the dead letters")
    return Account(sent["refused"], written, profiles, problems, time.monotonic() - started)


def _profiles(written: Written) -> dict[tuple[str, str], Profile]:
    profiles: dict[tuple[str, str], Profile] = {}
    deltas = {delta.delta_id: delta for delta in written.deltas}
    for delta in sorted(deltas.values(), key=lambda delta: delta.version):
        user = (delta.tenant_id, delta.user_id)
        known = profiles.get(user) or Profile(tenant_id=delta.tenant_id, user_id=delta.user_id)
        profiles[user] = apply_deltas(known, [delta])
    return profiles


async def _stores(settings: Settings, written: Written, profiles: dict[tuple[str, str], Profile]) -> list[str]:
    """Compare the stores with the topics, once they have caught up."""
    problems: list[str] = []
    deltas = len({delta.delta_id for delta in written.deltas})
    events = len({event.event_id for event in written.events})
    points = sum(profile.searchable for profile in profiles.values())
    async with open_archive(settings.clickhouse) as store, open_vectors(settings) as vectors:
        try:
            async with asyncio.timeout(300):
                while (await store.counts())["deltas"] < deltas or (await store.counts())["events"] < events:
                    await asyncio.sleep(0.2)
                while await vectors.count() != points:
                    await asyncio.sleep(0.2)
        except TimeoutError:
            problems.append(f"the stores hold {await store.counts()} and {await vectors.count()} vectors, not {points}")
        for (tenant_id, user_id), profile in profiles.items():
            if await store.profile(tenant_id, user_id) != profile:
                problems.append(f"the archive's profile of {user_id} differs from that of the topic")
    return problems


def report(files: Sequence[Path], found: Account, show: int) -> None:
    """Print an account, with some of the profiles."""
    written = found.written
    events = {event.event_id: event for event in written.events}.values()
    dropped = Counter(f"{drop.stage}: {drop.reason}" for event in events for drop in event.dropped)
    deltas = {delta.delta_id: delta for delta in written.deltas}.values()
    ops = Counter(f"{delta.kind} {delta.op}" for delta in deltas)
    users = {(body.get("tenant_id", "default"), body["user_id"]) for _, _, body in written.published}
    slots = [slot for profile in found.profiles.values() for slot in profile.slots]
    print(f"files         {', '.join(file.name for file in files)}")
    print(f"messages      {written.messages}, refused lines {found.refused}")
    flushes = {batch.ref.flush_id: batch for batch in written.flushes}
    print(f"flushes       {dict(Counter(batch.ref.lane for batch in flushes.values()))}")
    _report_signals(written, list(flushes.values()))
    print(f"events        {len(events)} {dict(Counter(event.outcome for event in events))}")
    print(f"deltas        {sum(ops.values())} {dict(ops)}")
    print(f"users         {len(users)}, of whom {len(found.profiles)} have a profile")
    known = list(found.profiles.values())
    facts = sum(len(profile.facts) for profile in known)
    print(f"facts         {facts}, {sum(len(profile.replaced_facts) for profile in known)} replaced")
    print(f"preferences   {sum(len(profile.preferences) for profile in known)}")
    print(f"slots         {len(slots)}, of which {sum(bool(slot.evidence) for slot in slots)} cite evidence")
    print(f"dropped       {dict(dropped)}")
    print(f"dead letters  {len(written.dead_letters)}")
    print(f"seconds       {found.seconds:.1f}")
    for profile in sorted(found.profiles.values(), key=lambda profile: profile.user_id)[:show]:
        print(f"\n{profile.user_id}, version {profile.version}")
        for slot in profile.slots:
            print(f"  {slot.topic}/{slot.sub_topic}: {slot.value}  (x{slot.update_hits})")
        for fact in profile.facts:
            print(f"  fact/{fact.category}: {fact.text}  ({fact.confidence:.2f}, x{fact.times_mentioned})")
        for preference in profile.preferences:
            strength, observed = preference.strength, preference.times_observed
            print(f"  preference/{preference.category}: {preference.text}  ({strength:.2f}, x{observed})")
    for problem in found.problems[:20]:
        print(f"does not add up: {problem}", file=sys.stderr)
    print("everything adds up" if not found.problems else f"{len(found.problems)} things do not add up")


def _report_signals(written: Written, flushes: Sequence[FlushBatch]) -> None:
    """Print how many messages had signals, and the calls that a language model would be asked for them."""
    bodies = [body for _, _, body in written.published if body.get("type", "message") == "message"]
    own = sum(body.get("role") == "user" for body in bodies)
    read = [batch.signals for batch in flushes if batch.signals is not None]
    calls = sum(bool(signals.facts) + bool(signals.preferences) for signals in read)
    kinds = Counter(kind for signals in read for kind in (*signals.facts, *signals.preferences))
    print(f"signals       in {len(read)} of {own} users' messages; {own - len(read)} are spared")
    print(f"              {dict(kinds.most_common())}")
    print(f"calls         {calls} for facts and preferences: {1000 * calls / len(bodies):.1f} a thousand messages")


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accounts", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON lines of chat messages")
    parser.add_argument("--show", type=int, default=3, metavar="N", help="profiles to print (default 3)")
    options = parser.parse_args()
    found = asyncio.run(account(options.files))
    report(options.files, found, options.show)
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main())
