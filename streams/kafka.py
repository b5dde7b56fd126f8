"""Kafka clients made from the settings, and the one sentence that is said when the broker does not answer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
)
from profilestream_client.closing import close_whole

from streams.settings import KafkaSettings, variable

CONNECT_TIMEOUT: Final = 10.0
"""Seconds that a broker may take to answer the first time."""

REQUEST_TIMEOUT: Final = 15.0
"""Seconds that it may take for any request after that."""

MAX_RECORD_BYTES: Final = 8 * 1024 * 1024
"""Largest record of the topics that the project writes itself: a batch holds several messages."""

MEMBERS: Final = 5
"""Where the members are in what `describe_consumer_groups` says of a group, in every version of its answer."""

_SILENCE: Final = (KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError, RequestTimedOutError)
"""Errors that mean that nothing answered."""

_CHECK: Final = {
    "certificate": ("kafka.ssl_cafile", "kafka.bootstrap_servers"),
    "login": ("kafka.sasl_username", "kafka.sasl_password"),
    "mechanism": ("kafka.sasl_mechanism",),
    "protocol": ("kafka.security_protocol", "kafka.bootstrap_servers"),
}
"""Settings to check, by what is refused."""


class KafkaUnavailable(Exception):
    """The broker does not answer, or refuses this client; the message names the setting that says where it is."""


def unavailable(kafka: KafkaSettings, error: BaseException | None = None) -> KafkaUnavailable:
    """Return what to raise when the broker of these settings failed with `error`."""
    where = f"kafka.bootstrap_servers ({variable('kafka.bootstrap_servers')})"
    if isinstance(error, KafkaError) and not isinstance(error, _SILENCE):
        return KafkaUnavailable(
            f"Kafka at {kafka.bootstrap_servers} answers with an error, {' '.join(str(error).split())}: see its log, "
            f"and check {where}"
        )
    login = "" if kafka.security_protocol == "PLAINTEXT" else ", or does not accept this client"
    return KafkaUnavailable(
        f"Kafka does not answer at {kafka.bootstrap_servers}{login}: start it, for example with `profilestream up`, "
        f"or say where it is with {where}" + (", and check kafka.security_protocol and kafka.sasl_*" if login else "")
    )


def client_options(kafka: KafkaSettings) -> dict[str, Any]:
    """Return the keyword arguments that every aiokafka client takes: where the broker is and how to log in.

    Raises:
        KafkaUnavailable: when the file of certificates cannot be read as one.
    """
    options: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in kafka.bootstrap_servers.split(",")],
        "security_protocol": kafka.security_protocol,
        "request_timeout_ms": round(REQUEST_TIMEOUT * 1000),
    }
    if kafka.security_protocol.startswith("SASL"):
        options |= {
            "sasl_mechanism": kafka.sasl_mechanism,
            "sasl_plain_username": kafka.sasl_username,
            "sasl_plain_password": kafka.sasl_password.get_secret_value(),
        }
    if kafka.security_protocol.endswith("SSL"):
        options["ssl_context"] = trusted(kafka)
    return options


def trusted(kafka: KafkaSettings) -> ssl.SSLContext:
    """Return what the broker's certificate is checked by.

    Raises:
        KafkaUnavailable: when the file of certificates cannot be read as one.
    """
    try:
        return ssl.create_default_context(cafile=kafka.ssl_cafile or None)
    except OSError as error:
        raise KafkaUnavailable(
            f"the file {kafka.ssl_cafile} holds no certificate in PEM format: check kafka.ssl_cafile "
            f"({variable('kafka.ssl_cafile')})"
        ) from error


def producer_options(kafka: KafkaSettings) -> dict[str, Any]:
    """Return the keyword arguments of a producer whose sends are acknowledged by all replicas.

    Repeats after a lost answer are removed by the broker (idempotence), except by the embedded one, which
    cannot: it runs on the same machine and gets each record as a batch of its own.
    """
    options = client_options(kafka) | {"acks": "all", "max_request_size": MAX_RECORD_BYTES}
    if kafka.single_record_batches:
        return options | {"max_batch_size": 1}
    return options | {"enable_idempotence": True, "max_batch_size": 128 * 1024, "linger_ms": 5}


def consumer_options(kafka: KafkaSettings, group_id: str | None = None) -> dict[str, Any]:
    """Return the keyword arguments of a consumer that starts at the beginning and commits only when told."""
    options = client_options(kafka) | {
        "group_id": group_id,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
    }
    if group_id is not None:
        options |= {
            "session_timeout_ms": round(kafka.session_timeout * 1000),
            "rebalance_timeout_ms": round(kafka.rebalance_timeout * 1000),
            "heartbeat_interval_ms": round(kafka.heartbeat_interval * 1000),
        }
    return options


@asynccontextmanager
async def producer(kafka: KafkaSettings) -> AsyncIterator[AIOKafkaProducer]:
    """Open a producer; leaving waits until everything sent is acknowledged or has failed.

    Raises:
        KafkaUnavailable: when the broker does not answer.
    """
    client = AIOKafkaProducer(**producer_options(kafka))
    await _start(client, kafka, client.stop)
    try:
        yield client
    finally:
        await close_whole(client.stop())


@asynccontextmanager
async def consumer(
    kafka: KafkaSettings, *topics: str, group_id: str | None = None, **options: Any
) -> AsyncIterator[AIOKafkaConsumer]:
    """Open a consumer of these topics; without topics the caller assigns partitions.

    Args:
        kafka: where the broker is.
        topics: what to subscribe to.
        group_id: consumer group; None reads without one.
        options: further arguments of `AIOKafkaConsumer`, before those of `consumer_options`.

    Raises:
        KafkaUnavailable: when the broker does not answer.
    """
    client = AIOKafkaConsumer(*topics, **consumer_options(kafka, group_id) | options)
    await _start(client, kafka, client.stop)
    try:
        yield client
    finally:
        await close_whole(client.stop())


@asynccontextmanager
async def admin(kafka: KafkaSettings) -> AsyncIterator[AIOKafkaAdminClient]:
    """Open an admin client.

    Raises:
        KafkaUnavailable: when the broker does not answer.
    """
    client = AIOKafkaAdminClient(**client_options(kafka))
    await _start(client, kafka, client.close)
    try:
        yield client
    finally:
        await close_whole(client.close())


async def cluster_id(kafka: KafkaSettings) -> str:
    """Return the id of the Kafka cluster, as it was given when its storage was made.

    Raises:
        KafkaUnavailable: when the broker does not answer.
    """
    async with admin(kafka) as client:
        try:
            return str((await client.describe_cluster())["cluster_id"])
        except KafkaError as error:
            raise unavailable(kafka, error) from error


async def _start(client: Any, kafka: KafkaSettings, stop: Any) -> None:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await client.start()
    except (KafkaError, TimeoutError, OSError) as error:
        await close_whole(stop())
        raise await _explained(kafka, error) from error
    except BaseException:
        await close_whole(stop())
        raise


async def _explained(kafka: KafkaSettings, error: BaseException) -> KafkaUnavailable:
    """Return what to raise when a client could not start, asking the broker what it refuses."""
    from profilestream_client.refusals import find_refusal

    refusal = await find_refusal(client_options(kafka)) if isinstance(error, KafkaConnectionError) else None
    if refusal is None:
        return unavailable(kafka, error)
    settings = " and ".join(f"{name} ({variable(name)})" for name in _CHECK[refusal.what])
    return KafkaUnavailable(f"{refusal.sentence}: check {settings}")
