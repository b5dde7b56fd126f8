"""`Connection`: passed through to Kafka as it is given, its secrets nowhere else."""

from __future__ import annotations

import ssl

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import TopicAuthorizationFailedError
from profilestream_client import Client, Connection, KafkaUnavailable
from profilestream_client.publishing import producer_options

from streams.embedded.child import free_port
from streams.settings import KafkaSettings
from streams.topics import Topics


class Tokens(AbstractTokenProvider):
    async def token(self) -> str:
        return "token"


def test_a_plain_client_is_only_told_where() -> None:
    options = Connection(bootstrap_servers="a:1, b:2").options()
    assert options["bootstrap_servers"] == ["a:1", "b:2"]
    assert options["security_protocol"] == "PLAINTEXT"
    assert not {name for name in options if name.startswith(("sasl", "ssl"))}


def test_addresses_may_come_one_by_one() -> None:
    assert Connection(bootstrap_servers=["a:1", "b:2"]).servers == ["a:1", "b:2"]


def test_a_login_over_tls() -> None:
    options = Connection(
        security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_username="me", sasl_password="hush"
    ).options()
    assert options["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("me", "hush")
    assert options["ssl_context"].verify_mode is ssl.CERT_REQUIRED
    assert options["ssl_context"].check_hostname


def test_a_context_of_ones_own() -> None:
    context = ssl.create_default_context()
    assert Connection(security_protocol="SSL", ssl_context=context).options()["ssl_context"] is context


def test_a_login_by_token() -> None:
    tokens = Tokens()
    options = Connection(
        security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", sasl_token_provider=tokens
    ).options()
    assert options["sasl_oauth_token_provider"] is tokens
    assert "sasl_plain_password" not in options
    assert "ssl_context" not in options


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"security_protocol": "TLS"}, "there is no security_protocol 'TLS'"),
        ({"security_protocol": "SASL_SSL"}, "needs sasl_username and sasl_password"),
        ({"security_protocol": "SASL_SSL", "sasl_username": "me"}, "needs sasl_username and sasl_password"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "needs a sasl_token_provider"),
    ],
)
def test_what_does_not_fit_together_is_said(changes: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Connection(**changes)


def test_the_password_is_not_shown() -> None:
    connection = Connection(security_protocol="SASL_SSL", sasl_username="me", sasl_password="hush")
    assert "hush" not in repr(connection)
    assert "hush" not in str(connection.unavailable(TimeoutError()))


async def test_every_kafka_client_takes_the_options() -> None:
    connection = Connection(
        security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="me", sasl_password="hush"
    )
    for idempotent in (True, False):
        other = Connection(**(vars(connection) | {"idempotent": idempotent}))
        AIOKafkaProducer(**producer_options(other))
    AIOKafkaConsumer(**connection.options())
    AIOKafkaAdminClient(**connection.options())


def test_a_producer_waits_for_all_replicas_and_is_recognised_when_it_repeats() -> None:
    options = producer_options(Connection())
    assert options["acks"] == "all"
    assert options["enable_idempotence"] is True
    assert "enable_idempotence" not in producer_options(Connection(idempotent=False))


@pytest.mark.parametrize("prefix", ["", "acme."])
def test_topics_are_called_as_the_pipeline_calls_them(prefix: str) -> None:
    names = Topics.of(KafkaSettings(topic_prefix=prefix))
    connection = Connection(topic_prefix=prefix)
    assert (connection.messages_topic, connection.deltas_topic) == (names.messages, names.deltas)


async def test_a_broker_that_is_not_there_is_an_error_of_the_client() -> None:
    address = f"127.0.0.1:{free_port()}"
    sentence = (
        rf"^Kafka does not answer at {address} \(.+\): see that it runs, and that bootstrap_servers is its address$"
    )
    async with Client(address) as client:
        with pytest.raises(KafkaUnavailable, match=sentence):
            await client.flush("ada")
        with pytest.raises(KafkaUnavailable, match=address):
            await anext(client.subscribe())


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            TimeoutError(),
            "Kafka does not answer at a:1 (no answer in time): see that it runs, and that bootstrap_servers is its "
            "address, and check security_protocol and the login",
        ),
        (
            TopicAuthorizationFailedError("no\nentry"),
            "Kafka at a:1 answers with an error ([Error 29] TopicAuthorizationFailedError: no entry): see its log, and "
            "check the connection's login and what it may do",
        ),
    ],
    ids=["silent", "refusing"],
)
def test_what_kafka_did_is_one_sentence_with_what_to_do(error: Exception, sentence: str) -> None:
    connection = Connection(
        bootstrap_servers="a:1", security_protocol="SASL_SSL", sasl_username="me", sasl_password="hush"
    )
    assert str(connection.unavailable(error)) == sentence
