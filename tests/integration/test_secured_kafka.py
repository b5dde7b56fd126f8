"""The whole program on an Apache Kafka that wants TLS and a login, and what is said where it refuses them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from profilestream_client import ChatMessage, Client, Connection, KafkaUnavailable, ProfileDelta

from benchmarks.harness import WorkerProcess, environment
from streams.cli.checks import run_checks
from streams.embedded.services import EmbeddedServices
from streams.settings import variable
from streams.stores import open_vectors
from tests.integration.pipeline_support import FAST, archived_profile, eventually, said, settings_of, write_chat
from tests.integration.test_kcat import librdkafka
from tests.support.brokers import KafkaSettingsByName, own_names
from tests.support.secure_kafka import PASSWORD, USER, SecureKafka, secure_kafka

pytestmark = pytest.mark.timeout(180)

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "configuration.md"

OLDEST_WITH_SCRAM = (2, 6, 1)

LIMIT = 30.0
"""Seconds that a command may take to say what is wrong, on a machine that is busy with several of them."""

WRONG_PASSWORD = "pw-wrong-b81d40"

Stores = dict[str, dict[str, object]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def secured(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SecureKafka]:
    """The broker."""
    async with secure_kafka(tmp_path_factory.mktemp("secured-kafka")) as broker:
        yield broker


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stores(tmp_path_factory: pytest.TempPathFactory, secured: SecureKafka) -> AsyncIterator[Stores]:
    """Settings of a ClickHouse and a Qdrant."""
    kafka = {"bootstrap_servers": secured.bootstrap_servers}
    async with EmbeddedServices(tmp_path_factory.mktemp("stores"), {**kafka}) as services:
        yield {name: {**settings} for name, settings in services.settings.items() if name != "kafka"}


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    return write_chat(tmp_path / "chat.jsonl", said("anna", "I live in Lyon and I work as a nurse."))


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def printed(self) -> str:
        return self.out + self.err


async def run(*arguments: str, env: Mapping[str, str]) -> Ended:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "streams.cli", *arguments),
        env=dict(env),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(LIMIT):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


def ways(broker: SecureKafka) -> dict[str, KafkaSettingsByName]:
    return {"SCRAM": broker.login("SCRAM-SHA-512"), "PLAIN": broker.login("PLAIN"), "TLS": broker.tls()}


def connection(kafka: KafkaSettingsByName) -> Connection:
    """Return the client library's connection for these settings."""
    return Connection(
        bootstrap_servers=str(kafka["bootstrap_servers"]),
        topic_prefix=str(kafka["topic_prefix"]),
        security_protocol=str(kafka["security_protocol"]),
        sasl_mechanism=str(kafka["sasl_mechanism"]),
        sasl_username=str(kafka["sasl_username"]),
        sasl_password=str(kafka["sasl_password"]),
        ssl_context=ssl.create_default_context(cafile=str(kafka["ssl_cafile"]) or None),
    )


async def told_to_client(user: str, text: str, kafka: KafkaSettingsByName) -> ProfileDelta:
    """Publish a message with the client library, and return the first change that it is told of."""
    async with Client(connection(kafka)) as client, client.subscribe(user=user) as deltas:
        await client.publish([ChatMessage(user_id=user, role="user", content=text)])
        await client.flush(user)
        async with asyncio.timeout(60):
            return await anext(deltas)


def checked(doctor: str) -> dict[str, dict[str, object]]:
    """Return what `doctor --json` found, by the name of the check."""
    lines = [json.loads(line) for line in doctor.splitlines()]
    return {line["check"]: line for line in lines if "check" in line}


@pytest.mark.parametrize("mechanism", ["SCRAM", pytest.param("PLAIN", marks=pytest.mark.long)])
async def test_messages_go_in_and_deltas_come_out_over_a_login(
    mechanism: str, secured: SecureKafka, stores: Stores, tmp_path: Path, chat: Path
) -> None:
    kafka = own_names(secured.login_servers) | ways(secured)[mechanism] | {"partitions": 2}
    own: Stores = {
        "kafka": {**kafka},
        "clickhouse": stores["clickhouse"] | {"database": f"of_{mechanism.lower()}"},
        "qdrant": stores["qdrant"] | {"collection": mechanism.lower()},
    }
    env, settings = environment(own, FAST), settings_of(own, FAST)
    printed = []
    async with WorkerProcess(env, tmp_path / "worker.log") as worker:
        published, change = await asyncio.gather(
            run("-v", "publish", "--flush", str(chat), env=env), told_to_client("ben", "I live in Bremen.", kafka)
        )
        assert published.code == 0, published.err
        assert (change.user_id, change.version) == ("ben", 1)

        # The archive and the index are applications of their own, each with a login.
        async with open_vectors(settings) as vectors:

            async def stored() -> bool:
                profiles = [await archived_profile(settings, user) for user in ("anna", "ben")]
                return all(profile.slots for profile in profiles) and await vectors.count() > 0

            await eventually(stored)

        listed, doctor = await asyncio.gather(
            run("deltas", "--user", "anna", "--json", env=env), run("doctor", "--json", env=env)
        )
        assert listed.code == 0, listed.err
        assert "Lyon" in listed.out
        assert doctor.code == 0, doctor.printed
        assert checked(doctor.out)["Kafka"]["ok"]
        assert '"setting":"kafka.sasl_password","value":"set"' in doctor.out
        address = worker.log().partition("metrics at ")[2].split()[0]
        async with aiohttp.ClientSession() as session, session.get(address) as answer:
            printed.append(await answer.text())
        assert "profilestream_" in printed[-1]
        assert await worker.stop() == 0
    printed += [published.printed, listed.printed, doctor.printed, worker.log()]
    assert "Traceback" not in "".join(printed)
    assert PASSWORD not in "".join(printed)


@pytest.mark.long
async def test_tls_without_a_login(secured: SecureKafka, chat: Path) -> None:
    kafka = own_names(secured.tls_servers) | ways(secured)["TLS"]
    env = environment({"kafka": kafka})
    published = await run("publish", "--flush", str(chat), env=env)
    assert published.code == 0, published.err
    listed = await run("deltas", env=env)
    assert (listed.code, listed.out) == (0, "")


@pytest.mark.long
@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed (Debian: apt install kcat)")
@pytest.mark.parametrize("mechanism", ["SCRAM", "PLAIN"])
async def test_kcat_logs_in_as_the_documentation_says(
    mechanism: str, secured: SecureKafka, tmp_path: Path, chat: Path
) -> None:
    if mechanism == "SCRAM" and librdkafka() < OLDEST_WITH_SCRAM:
        pytest.skip("kcat's librdkafka is older than 2.6.1, with whose SCRAM Apache Kafka 4 takes no login")
    kafka = own_names(secured.login_servers) | ways(secured)[mechanism]
    assert (await run("publish", str(chat), env=environment({"kafka": kafka}))).code == 0
    (written,) = re.findall(r"```ini\n(.*?)```", DOCUMENTATION.read_text(encoding="utf-8"), re.DOTALL)
    properties = written.replace("ca.pem", str(secured.ca)).replace("password=…", f"password={PASSWORD}")
    properties = properties.replace("SCRAM-SHA-512", str(kafka["sasl_mechanism"])).replace("=app", f"={USER}")
    (tmp_path / "kcat.conf").write_text(properties)
    process = await asyncio.create_subprocess_exec(
        *("kcat", "-F", "kcat.conf", "-b", secured.login_servers, "-C", "-e", "-o", "beginning"),
        *("-t", f"{kafka['topic_prefix']}chat.messages.v1", "-f", "%k\\n"),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(LIMIT):
        out, _ = await process.communicate()
    assert out == b"default:anna\n"


REFUSALS = {
    "wrong password by SCRAM": (
        "SCRAM",
        {"sasl_password": WRONG_PASSWORD},
        f"refuses the login by SCRAM-SHA-512 as {USER}: check ",
        ("kafka.sasl_username", "kafka.sasl_password"),
    ),
    "wrong password by PLAIN": (
        "PLAIN",
        {"sasl_password": WRONG_PASSWORD},
        f"refuses the login by PLAIN as {USER}: check ",
        ("kafka.sasl_username", "kafka.sasl_password"),
    ),
    "untrusted certificate": (
        "SCRAM",
        {"ssl_cafile": ""},
        "shows a certificate that is not trusted (self-signed certificate): check ",
        ("kafka.ssl_cafile", "kafka.bootstrap_servers"),
    ),
    "plain to a port with TLS": (
        "TLS",
        {"security_protocol": "PLAINTEXT", "ssl_cafile": ""},
        "does not take connections by PLAINTEXT: check ",
        ("kafka.security_protocol", "kafka.bootstrap_servers"),
    ),
    "mechanism that is not offered": (
        "SCRAM",
        {"sasl_mechanism": "SCRAM-SHA-256"},
        "offers no login by SCRAM-SHA-256: check ",
        ("kafka.sasl_mechanism",),
    ),
}


def refusal(case: str, broker: SecureKafka) -> tuple[KafkaSettingsByName, str, str]:
    """Return the settings of a case, and the sentence for them with its first part."""
    way, changes, refused, names = REFUSALS[case]
    kafka = own_names("") | ways(broker)[way] | changes
    found = f"Kafka at {kafka['bootstrap_servers']} {refused}"
    return kafka, found + " and ".join(f"{name} ({variable(name)})" for name in names), found


@pytest.mark.parametrize("case", REFUSALS)
async def test_what_is_refused_is_one_sentence(case: str, secured: SecureKafka, stores: Stores, chat: Path) -> None:
    kafka, sentence, found = refusal(case, secured)
    env = environment({"kafka": kafka})

    publish, doctor = await asyncio.gather(
        run("publish", str(chat), env=env), run_checks(settings_of(stores, FAST, {"kafka": kafka}))
    )

    assert (publish.code, publish.printed) == (1, f"profilestream: {sentence}\n")
    (wrong,) = [check for check in doctor if not check.ok]
    assert f"{wrong.check} {wrong.found}: {wrong.advice}" == sentence
    for secret in (PASSWORD, WRONG_PASSWORD):
        assert secret not in sentence + wrong.found + wrong.advice

    async with Client(connection(own_names("") | secured.login("PLAIN") | kafka)) as client:
        with pytest.raises(KafkaUnavailable) as caught:
            await client.flush("anna")
    assert str(caught.value).startswith(found)
    assert PASSWORD not in str(caught.value)
    assert WRONG_PASSWORD not in str(caught.value)


@pytest.mark.long
async def test_a_worker_that_is_refused_ends(secured: SecureKafka, stores: Stores) -> None:
    refusals = [refusal(case, secured) for case in ("wrong password by SCRAM", "plain to a port with TLS")]
    tables = {"clickhouse": stores["clickhouse"] | {"database": "of_scram"}}  # which are there already
    own = [environment(stores | tables, FAST, {"kafka": kafka}) for kafka, _, _ in refusals]
    ends = await asyncio.gather(*(run("worker", env=env) for env in own))
    for worker, (_, sentence, _) in zip(ends, refusals, strict=True):
        assert (worker.code, worker.out) == (1, "")
        assert worker.err.splitlines()[-1] == f"profilestream: {sentence}"
        assert "Traceback" not in worker.err
        for secret in (PASSWORD, WRONG_PASSWORD):
            assert secret not in worker.err


async def test_a_traceback_that_was_asked_for_has_no_password(secured: SecureKafka) -> None:
    kafka = own_names("") | secured.login("SCRAM-SHA-512", WRONG_PASSWORD)
    ended = await run("-v", "deltas", env=environment({"kafka": kafka}))
    assert ended.code == 1
    assert "Traceback" in ended.err
    assert WRONG_PASSWORD not in ended.printed
