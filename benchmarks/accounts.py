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
from pathlib import Path

from benchmarks.harness import WorkerProcess, Written, command, discrepancies, environment, read_topics
from schemas.profiles import Profile, apply_deltas
from streams.embedded.services import EmbeddedServices
from streams.settings import Settings, load_settings
from streams.stores import open_archive, open_vectors

_LIMIT = 900.0


async def run(files: list[Path], *, show: int) -> int:
    """Run the files and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="profilestream-") as folder:
        async with EmbeddedServices(Path(folder)) as services:
            env = environment(services.settings)
            started = time.monotonic()
            async with WorkerProcess(env, Path(folder) / "worker.log"):
                sent = json.loads(await command("publish", "--flush", "--json", *map(str, files), env=env))
                settings = load_settings(overrides=services.settings)
                written = await read_topics(
                    settings.kafka, lambda written: bool(written.messages) and written.ended >= written.messages, _LIMIT
                )
                profiles = _profiles(written)
                problems = discrepancies(written) + await _stores(settings, written, profiles)
            return _report(files, sent, written, profiles, problems, time.monotonic() - started, show)


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
    slots = sum(len(profile.slots) for profile in profiles.values())
    async with open_archive(settings.clickhouse) as store, open_vectors(settings) as vectors:
        try:
            async with asyncio.timeout(300):
                while (await store.counts())["deltas"] < deltas or (await store.counts())["events"] < events:
                    await asyncio.sleep(0.2)
                while await vectors.count() != slots:
                    await asyncio.sleep(0.2)
        except TimeoutError:
            problems.append(f"the stores hold {await store.counts()} and {await vectors.count()} vectors, not {slots}")
        for (tenant_id, user_id), profile in profiles.items():
            if await store.profile(tenant_id, user_id) != profile:
                problems.append(f"the archive's profile of {user_id} differs from that of the topic")
    return problems


def _report(
    files: list[Path],
    sent: dict[str, int],
    written: Written,
    profiles: dict[tuple[str, str], Profile],
    problems: list[str],
    seconds: float,
    show: int,
) -> int:
    events = {event.event_id: event for event in written.events}.values()
    dropped = Counter(f"{drop.stage}: {drop.reason}" for event in events for drop in event.dropped)
    ops = Counter(delta.op for delta in {delta.delta_id: delta for delta in written.deltas}.values())
    print(f"files         {', '.join(file.name for file in files)}")
    print(f"messages      {written.messages} (sent {sent['sent']}, refused {sent['refused']})")
    print(f"flushes       {len({batch.ref.flush_id for batch in written.flushes})}")
    print(f"events        {len(events)} {dict(Counter(event.outcome for event in events))}")
    print(f"deltas        {sum(ops.values())} {dict(ops)}")
    print(f"users         {len(profiles)} with {sum(len(profile.slots) for profile in profiles.values())} slots")
    print(f"dropped       {dict(dropped)}")
    print(f"dead letters  {len(written.dead_letters)}")
    print(f"seconds       {seconds:.1f}")
    for profile in sorted(profiles.values(), key=lambda profile: profile.user_id)[:show]:
        print(f"\n{profile.user_id}, version {profile.version}")
        for slot in profile.slots:
            print(
                f"  {slot.topic}/{slot.sub_topic}: {slot.value}  (x{slot.update_hits}, {len(slot.evidence)} messages)"
            )
    if written.dead_letters:
        problems.append(f"{len(written.dead_letters)} records are in the dead letters")
    for problem in problems[:20]:
        print(f"does not add up: {problem}", file=sys.stderr)
    print("everything adds up" if not problems else f"{len(problems)} things do not add up")
    return 1 if problems else 0


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accounts", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON lines of chat messages")
    parser.add_argument("--show", type=int, default=3, metavar="N", help="profiles to print (default 3)")
    options = parser.parse_args()
    return asyncio.run(run(options.files, show=options.show))


if __name__ == "__main__":
    sys.exit(main())
