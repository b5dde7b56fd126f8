"""`Connection`: where the broker is and how to log in; and the clients that are made from it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NodeNotReadyError,
    RequestTimedOutError,
)

from profilestream_client.closing import close_whole
from profilestream_client.errors import KafkaUnavailable, TopicMissing
from profilestream_client.refusals import find_refusal

CONNECT_TIMEOUT: Final = 10.0
"""Seconds that a broker may take to answer the first time."""

REQUEST_TIMEOUT: Final = 15.0
"""Seconds that it may take for any request after that."""

_SILENCE: Final = (KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError, RequestTimedOutError)
"""Errors that mean that nothing answered."""

_CHECK: Final = {
    "certificate": "the certificates of ssl_context, and that the broker's is for this address",
    "login": "sasl_username and sasl_password",
    "mechanism": "sasl_mechanism",
    "protocol": "security_protocol, and that this is Kafka's address",
}
"""What to check, by what is refused."""


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Where the broker is and how to log in.

    Attributes:
        bootstrap_servers: addresses, ``host:port``; in one string with commas between them, or each on its own.
        topic_prefix: what the names of all topics begin with, if anything: the pipeline's ``kafka.topic_prefix``.
        client_id: name of this application, for the broker's logs and quotas.
        security_protocol: ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``.
        ssl_context: for the two with SSL; by default the certificates that this machine trusts.
        sasl_mechanism: for the two with SASL: ``PLAIN``, ``SCRAM-SHA-256``, ``SCRAM-SHA-512`` or ``OAUTHBEARER``.
        sasl_username: for all mechanisms but the last.
        sasl_password: likewise; it is in no log and no error.
        sasl_token_provider: for the last: gives a token whenever one is needed.
        idempotent: whether the broker is to recognise what is sent twice after a lost answer. Apache Kafka can; a
            broker that cannot, such as the embedded one, needs False, and gets each message as a batch of its own.

    Raises:
        ValueError: when what is given does not fit together.
    """

    bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092"
    topic_prefix: str = ""
    client_id: str = "profilestream-client"
    security_protocol: str = "PLAINTEXT"
    ssl_context: ssl.SSLContext | None = None
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    sasl_token_provider: AbstractTokenProvider | None = field(default=None, repr=False)
    idempotent: bool = True

    def __post_init__(self) -> None:
        if self.security_protocol not in {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}:
            raise ValueError(f"there is no security_protocol {self.security_protocol!r}")
        if self.security_protocol.startswith("SASL"):
            if self.sasl_mechanism == "OAUTHBEARER":
                if self.sasl_token_provider is None:
                    raise ValueError("sasl_mechanism OAUTHBEARER needs a sasl_token_provider")
            elif not self.sasl_username or self.sasl_password is None:
                raise ValueError(f"security_protocol {self.security_protocol} needs sasl_username and sasl_password")

    @property
    def messages_topic(self) -> str:
        """Name of the topic of chat messages."""
        return f"{self.topic_prefix}chat.messages.v1"

    @property
    def deltas_topic(self) -> str:
        """Name of the topic of profile deltas."""
        return f"{self.topic_prefix}profile.deltas.v1"

    @property
    def servers(self) -> list[str]:
        """The addresses."""
        given = self.bootstrap_servers
        return [each.strip() for each in (given.split(",") if isinstance(given, str) else given)]

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments that every aiokafka client takes."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.servers,
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
            "request_timeout_ms": round(REQUEST_TIMEOUT * 1000),
        }
        if self.security_protocol.endswith("SSL"):
            options["ssl_context"] = self.ssl_context or ssl.create_default_context()
        if self.security_protocol.startswith("SASL"):
            options["sasl_mechanism"] = self.sasl_mechanism
            if self.sasl_mechanism == "OAUTHBEARER":
                options["sasl_oauth_token_provider"] = self.sasl_token_provider
            else:
                options["sasl_plain_username"] = self.sasl_username
                options["sasl_plain_password"] = self.sasl_password
        return options

    def unavailable(self, error: BaseException) -> KafkaUnavailable:
        """Return what to raise when the broker failed with `error`."""
        servers = ",".join(self.servers)
        if isinstance(error, KafkaError) and not isinstance(error, _SILENCE):
            return KafkaUnavailable(
                f"Kafka at {servers} answers with an error ({in_words(error)}): see its log, and check the "
                "connection's login and what it may do"
            )
        why = "no answer in time" if isinstance(error, TimeoutError) else in_words(error)
        login = "" if self.security_protocol == "PLAINTEXT" else ", and check security_protocol and the login"
        return KafkaUnavailable(
            f"Kafka does not answer at {servers} ({why}): see that it runs, and that bootstrap_servers is its "
            f"address{login}"
        )


def in_words(error: BaseException) -> str:
    """Return what an error says, on one line."""
    return " ".join(str(error).split()) or type(error).__name__


@dataclass(frozen=True)
class Topic:
    """A topic of the broker.

    Attributes:
        name: its full name.
        log_id: id of the cluster that it is in.
        partitions: how many it has.
    """

    name: str
    log_id: str
    partitions: int


async def find_topic(connection: Connection, name: str) -> Topic:
    """Ask the broker for a topic.

    All topics are listed, because asking for one by name can create it.

    Raises:
        KafkaUnavailable: when the broker does not answer.
        TopicMissing: when it has no such topic.
    """
    client = AIOKafkaAdminClient(**connection.options())
    await start(connection, client, client.close)
    try:
        topics = await client.describe_topics()
        cluster = await client.describe_cluster()
    except (KafkaError, OSError) as error:
        raise connection.unavailable(error) from error
    finally:
        await close_whole(client.close())
    partitions = next((len(topic["partitions"]) for topic in topics if topic["topic"] == name), 0)
    if not partitions:
        raise TopicMissing(
            f"Kafka at {','.join(connection.servers)} has no topic {name}: the worker makes it when it starts; "
            "check topic_prefix, and what this client may read"
        )
    return Topic(name, str(cluster["cluster_id"]), partitions)


async def start(connection: Connection, client: Any, stop: Any) -> None:
    """Start an aiokafka client, and stop it again where that fails.

    Raises:
        KafkaUnavailable: when the broker does not answer, or refuses this client.
    """
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await client.start()
    except (KafkaError, TimeoutError, OSError) as error:
        await close_whole(stop())
        refusal = await find_refusal(connection.options()) if isinstance(error, KafkaConnectionError) else None
        if refusal is not None:
            raise KafkaUnavailable(f"{refusal.sentence}: check {_CHECK[refusal.what]}") from error
        raise connection.unavailable(error) from error
    except BaseException:
        await close_whole(stop())
        raise
