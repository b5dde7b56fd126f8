"""Why a broker that is there does not take a client, which aiokafka's clients log and do not tell."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from aiokafka.conn import create_conn
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

_LIMIT: Final = 5.0
"""Seconds that the question may take, over all addresses."""


class Refusal(NamedTuple):
    """What a broker refuses.

    Attributes:
        what: which part of the connection's options to look at.
        sentence: the same in words, without a full stop.
    """

    what: Literal["certificate", "login", "mechanism", "protocol"]
    sentence: str


async def find_refusal(options: Mapping[str, Any]) -> Refusal | None:
    """Connect once to each address, and return what the first that answers refuses; None where none does.

    Args:
        options: what every aiokafka client takes: addresses, protocol, certificates, login.
    """
    others = {name: value for name, value in options.items() if name != "bootstrap_servers"}
    try:
        async with asyncio.timeout(_LIMIT):
            for server in options["bootstrap_servers"]:
                if found := await _ask(server, others):
                    return found
    except TimeoutError:
        pass
    return None


async def _ask(server: str, options: Mapping[str, Any]) -> Refusal | None:
    host, _, port = server.rpartition(":")
    try:
        connection = await create_conn(host.strip("[]"), int(port), **options)
        try:
            await connection.send(MetadataRequest([]))
        finally:
            connection.close()
    except ssl.SSLCertVerificationError as error:
        why = error.verify_message.rstrip(".")
        return Refusal("certificate", f"Kafka at {server} shows a certificate that is not trusted ({why})")
    except SaslAuthenticationFailed:
        login = f"{options['sasl_mechanism']} as {options.get('sasl_plain_username', 'the owner of this token')}"
        return Refusal("login", f"Kafka at {server} refuses the login by {login}")
    except UnsupportedSaslMechanismError:
        return Refusal("mechanism", f"Kafka at {server} offers no login by {options['sasl_mechanism']}")
    except (IllegalSaslStateError, KafkaConnectionError, ssl.SSLError, ConnectionResetError):
        return Refusal("protocol", f"Kafka at {server} does not take connections by {options['security_protocol']}")
    except (KafkaError, OSError):
        return None
    return None
