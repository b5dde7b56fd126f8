"""Records on the chat topic that no well-behaved application writes, all of them before one worker on Apache Kafka.

What can be processed is, once; what cannot is parked once, untouched, with where and why. A worker that is started
again repeats none of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import ConsumerRecord

from agents.moved import MOVED_HEADER, origin_of
from benchmarks.harness import Overrides, Place, WorkerProcess, Written, environment, read_topics
from schemas.dead_letters import NULL_HEADER, OMITTED_HEADER, TIMESTAMP_HEADER, DeadLetterReason
from schemas.flushes import FlushBatch
from schemas.ids import message_id
from schemas.messages import EARLIEST, LATEST, user_key
from streams.embedded.services import EmbeddedServices
from streams.kafka import admin, cluster_id, consumer, producer_options
from streams.letters import read_content
from streams.partitioning import partition_for
from streams.settings import KafkaSettings
from streams.topics import Topics, ensure_topics
from tests.integration.pipeline_support import FAST, settings_of
from tests.support.brokers import KafkaSettingsByName

pytestmark = pytest.mark.timeout(180)

ONE_BY_ONE: Overrides = {"window": {"messages": 1}}
"""Every message is a window of its own: none waits, and nothing is open when the worker stops."""

LONG_AGO = 1
"""A Kafka timestamp in milliseconds: 1970."""

FAR_AHEAD = 253_402_300_799_000
"""Likewise: the last second of the year 9999."""

MEGABYTE = 1_000_000
ODD_USER = "ann:of:\x00\x1f\n\u2028:\u007f"
LARGEST_NAME = "🦜" * 256


@dataclass(frozen=True, kw_only=True)
class Record:
    """A record as a client publishes it.

    Attributes:
        user: whose partition it goes to; None has no user.
        astray: it goes to another partition than its user's.
        keyed: it has its user's key; `key` is the key otherwise.
    """

    name: str
    value: bytes | None
    user: str | None = None
    astray: bool = False
    keyed: bool = True
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None

    @property
    def sent_key(self) -> bytes | None:
        """The key that it is sent with."""
        return user_key("default", self.user) if self.user is not None and self.keyed else self.key

    def partition(self, partitions: int) -> int:
        """Return the partition that it is sent to."""
        home = partition_for(user_key("default", self.user or ""), partitions)
        return (home + self.astray) % partitions


def body(user: str, **fields: object) -> bytes:
    return json.dumps({"user_id": user, "role": "user", "content": f"I am {user[:9]}."} | fields).encode()


def good(name: str, user: str | None = None, value: bytes | None = None, **fields) -> Record:
    user = user or name
    return Record(name=name, user=user, value=body(user) if value is None else value, **fields)


def bad(name: str, value: bytes | None, **fields) -> Record:
    return Record(name=name, value=value, **({"key": f"default:{name}".encode()} | fields))


PROCESSED = [
    good("odd user id", ODD_USER),
    good("longest names", LARGEST_NAME, body(LARGEST_NAME, **dict.fromkeys(("session_id", "speaker"), LARGEST_NAME))),
    good("null in the text", value=body("null in the text", content="I am\x00here.")),
    good("fields twice", value=b'{"user_id": "x", "content": "no", "role": "tool", ' + body("fields twice")[1:]),
    good(
        "numbers beyond float", value=body("numbers beyond float")[:-1] + b', "x": 1e999, "y": ' + b"9" * 5_000 + b"}"
    ),
    good(
        "a field of many levels", value=body("a field of many levels")[:-1] + b', "x": ' + b"[" * 99 + b"]" * 99 + b"}"
    ),
    good("written in 1970", timestamp=LONG_AGO),
    good("written at no time", timestamp=0),
    good("written in 9999", timestamp=FAR_AHEAD),
    good("said in 1900", value=body("said in 1900", occurred_at=EARLIEST.isoformat())),
    good("said in 2299", value=body("said in 2299", occurred_at=LATEST.isoformat())),
    good("no key", keyed=False),
    good("another key", keyed=False, key=b"default:somebody-else"),
    good("a key in no encoding", keyed=False, key=b"\xff\xfe"),
    good("a large key", keyed=False, key=b"k" * 100_000),
    good("large headers", headers=tuple((f"header-{number}", b"h" * 1_000) for number in range(200))),
    good("headers without values", headers=((MOVED_HEADER, None), ("other", None))),
    good("a header that looks like ours", headers=((MOVED_HEADER, b"log:0:" + b"9" * 5_000),)),
]
ASTRAY = [
    good("astray", astray=True),
    good("astray without a key", astray=True, keyed=False),
    good("astray under another key", astray=True, keyed=False, key=b"default:nobody"),
    good("astray with large headers", astray=True, headers=(("large", b"h" * 100_000), ("none", None))),
    good("astray in 1970", astray=True, timestamp=LONG_AGO),
    good("astray in 9999", astray=True, timestamp=FAR_AHEAD),
]
LARGEST_CHAT_RECORD = 5_500_000
TOO_LARGE_TO_MOVE = good("too large to move", astray=True, headers=(("large", b"h" * LARGEST_CHAT_RECORD),))
"""With the header that says where it was: with the others alone it fits, compressed as its client sends it."""

TOO_LARGE_TO_PARK = bad("too large to park", body("x", content="9" * 9 * MEGABYTE))
"""Likewise compressed: this program sends no record of that size."""

UNREADABLE = [
    bad("no JSON", b"I live in Oslo."),
    bad("not UTF-8", body("x").replace(b"I am", b"I\xff\xfeam")),
    bad("empty", b""),
    bad("a list", b"[1, 2]"),
    bad("a byte order mark", b"\xef\xbb\xbf" + body("x")),
    bad("half a surrogate pair", body("x").replace(b"I am", rb"I \ud83e am")),
    bad("surrogates in the wrong order", body("x").replace(b"I am", rb"I \udd9c\ud83e am")),
    bad("cut short", body("x")[:-5]),
    bad("no user", b'{"role": "user", "content": "hello"}'),
    bad("an empty user", body("")),
    bad("a user that is a number", body("x").replace(b'"x"', b"42", 1)),
    bad("a user id that is too long", body("u" * 257)),
    bad("a tenant with a colon", body("x", tenant_id="a:b")),
    bad("no role", b'{"user_id": "x", "content": "hello"}'),
    bad("an unknown role", body("x", role="robot")),
    bad("an unknown type", body("x", type="remember")),
    bad("blank", body("x", content=" \n\t")),
    bad("text that is a list", body("x", content=["hello"])),
    bad("a time without a zone", body("x", occurred_at="2026-01-01T00:00:00")),
    bad("a time before all", body("x", occurred_at="1899-12-31T23:59:59Z")),
    bad("a time after all", body("x", occurred_at="2300-01-01T00:00:00Z")),
    bad("a time that is a number", body("x", occurred_at=0)[:-1] + b', "occurred_at": ' + b"9" * 1_000 + b"}"),
    bad("ten thousand brackets", body("x")[:-1] + b', "x": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"),
    bad("ten thousand brackets that stay open", b"[" * 10_000),
    bad("five megabytes", body("x", content="5" * 5 * MEGABYTE)),
    bad("no value", None),
    bad("no key and no JSON", b"{", key=None),
    bad("no key and no value", None, key=None),
    bad("a large key and no JSON", b"{", key=b"k" * 100_000),
    bad("large headers and no JSON", b"{", headers=tuple((f"header-{number}", b"h" * 1_000) for number in range(200))),
    bad("odd headers and no JSON", b"{", headers=(("none", None), ("twice", b"1"), ("twice", b"2"), ("空", b"\xff"))),
    bad("our own headers and no JSON", b"{", headers=(("profilestream-stage", b"merge"),)),
    bad("no JSON in 1970", b"{", timestamp=LONG_AGO),
    bad("no JSON at no time", b"{", timestamp=0),
    bad("no JSON in 9999", b"{", timestamp=FAR_AHEAD),
]
RECORDS = [*PROCESSED, *ASTRAY, *UNREADABLE]


@pytest_asyncio.fixture
async def services(on_apache_kafka: KafkaSettingsByName, tmp_path: Path) -> AsyncIterator[EmbeddedServices]:
    async with EmbeddedServices(tmp_path / "services", on_apache_kafka) as running:
        yield running


async def allow(kafka: KafkaSettings, topic: str, **configuration: str) -> None:
    """Change a topic's configuration."""
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=configuration)
    async with admin(kafka) as client:
        for answer in await client.alter_configs([resource]):
            assert [code for code, *_ in answer.resources] == [0]


async def publish(kafka: KafkaSettings, records: Sequence[Record], **options: object) -> dict[str, Place]:
    """Publish records, as a client does that sends what it likes; return their places by name."""
    partitions = await ensure_topics(kafka)
    topic = Topics.of(kafka).messages
    client = AIOKafkaProducer(**producer_options(kafka) | options)
    await client.start()
    places: dict[str, Place] = {}
    try:
        for record in records:
            batch = client.create_batch()
            batch.append(
                key=record.sent_key,
                value=record.value,
                timestamp=record.timestamp,
                headers=list(record.headers),
            )
            sent = await (await client.send_batch(batch, topic, partition=record.partition(partitions)))
            places[record.name] = (sent.partition, sent.offset)
    finally:
        await client.stop()
    return places


async def read_chat(kafka: KafkaSettings) -> list[ConsumerRecord]:
    """Return everything on the chat topic."""
    found: list[ConsumerRecord] = []
    topic = Topics.of(kafka).messages
    async with consumer(kafka) as client:
        client.assign([TopicPartition(topic, number) for number in range(await ensure_topics(kafka))])
        await client.seek_to_beginning()
        ends = await client.end_offsets(client.assignment())
        while any([await client.position(place) < end for place, end in ends.items()]):
            for records in (await client.getmany(timeout_ms=500)).values():
                found += records
    return found


def windowed(written: Written) -> list[FlushBatch]:
    return [batch for batch in written.flushes if batch.ref.lane == "memo"]


def settled(processed: int, parked: int) -> Callable[[Written], bool]:
    """Return whether so much was processed to its end and parked."""

    def holds(written: Written) -> bool:
        ended = {event.flush.flush_id for event in written.events if event.flush.lane == "memo"}
        return len(ended) >= processed and len(written.dead_letters) >= parked

    return holds


async def test_what_can_be_processed_is_and_the_rest_is_parked_untouched(
    services: EmbeddedServices, tmp_path: Path
) -> None:
    env = environment(services.settings, FAST, ONE_BY_ONE)
    kafka = settings_of(services.settings, FAST, ONE_BY_ONE).kafka
    topic = Topics.of(kafka).messages
    log_id = await cluster_id(kafka)
    await ensure_topics(kafka)
    any_time = {"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
    await allow(kafka, topic, **any_time, **{"max.message.bytes": str(LARGEST_CHAT_RECORD)})

    async with WorkerProcess(env, tmp_path / "worker.log") as worker:
        places = await publish(kafka, RECORDS)
        places |= await publish(kafka, [TOO_LARGE_TO_MOVE, TOO_LARGE_TO_PARK], compression_type="gzip")
        processed, parked = [*PROCESSED, *ASTRAY], [*UNREADABLE, TOO_LARGE_TO_MOVE, TOO_LARGE_TO_PARK]
        written = await read_topics(kafka, settled(len(processed), len(parked)), 90)
        chat = await read_chat(kafka)

        assert sorted(batch.ref.user_id for batch in windowed(written)) == sorted(str(each.user) for each in processed)
        assert {event.outcome for event in written.events} <= {"applied", "empty"}
        batches = {batch.ref.user_id: batch for batch in windowed(written)}
        for record in ASTRAY:
            place = places[record.name]
            assert_moved_once(chat, record, place)
            (message,) = batches[record.name].messages
            assert message.message_id == message_id(log_id, *place)
        assert worker.log().count("to its user's partition") == len(ASTRAY)
        assert len(chat) == len(processed) + len(parked) + len(ASTRAY)

        letters = {
            (why.partition, why.offset): letter for letter in written.dead_letters for why in [reason_of(letter)]
        }
        assert len(letters) == len(written.dead_letters)
        assert sorted(letters) == sorted(places[record.name] for record in parked)
        for record in UNREADABLE:
            assert_parked(letters[places[record.name]], record, topic, "invalid_record")
        assert_parked(letters[places[TOO_LARGE_TO_MOVE.name]], TOO_LARGE_TO_MOVE, topic, "record_too_large")
        omitted = letters[places[TOO_LARGE_TO_PARK.name]]
        assert reason_of(omitted).reason == "invalid_record"
        assert int(dict(omitted.headers)[OMITTED_HEADER]) == len(TOO_LARGE_TO_PARK.value or b"")
        assert await worker.stop() == 0

        await worker.start()
        await publish(kafka, [good("afterwards")])
        again = await read_topics(kafka, settled(len(processed) + 1, len(parked)), 60)
        assert Counter(batch.ref.flush_id for batch in again.flushes if batch.ref.user_id != "afterwards") == Counter(
            batch.ref.flush_id for batch in written.flushes
        )
        assert len(again.dead_letters) == len(written.dead_letters)
        assert len(await read_chat(kafka)) == len(chat) + 1


def assert_moved_once(chat: Sequence[ConsumerRecord], record: Record, place: Place) -> None:
    (moved,) = [each for each in chat if (origin := origin_of(each.headers)) and origin[1:] == place]
    assert moved.partition == partition_for(user_key("default", record.name), 4)
    assert (moved.key, moved.value) == (user_key("default", record.name), record.value)
    assert moved.headers[:-1] == record.headers
    assert record.timestamp in {None, moved.timestamp}


def assert_parked(letter: ConsumerRecord, record: Record, topic: str, reason: str) -> None:
    """Check that a letter says where its record was and why it is there, and is otherwise that record."""
    why = reason_of(letter)
    assert (why.stage, why.reason, why.topic, why.attempts) == ("window", reason, topic, 1), record.name
    assert letter.partition == why.partition
    assert len(why.detail) > 5
    assert (read_content(letter).headers, letter.key) == ([*record.headers], record.sent_key), record.name
    found = dict(letter.headers)
    if record.sent_key is None and record.value is None:
        assert (letter.value, found[NULL_HEADER]) == (b"", b"key and value")
    else:
        assert letter.value == record.value, record.name
    if record.timestamp is not None:
        assert record.timestamp == int(found.get(TIMESTAMP_HEADER, letter.timestamp)), record.name


def reason_of(letter: ConsumerRecord) -> DeadLetterReason:
    return DeadLetterReason.from_headers(letter.headers)
