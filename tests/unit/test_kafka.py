"""Arguments of Kafka clients, as the settings ask for them."""

from __future__ import annotations

import ssl
from pathlib import Path

import certifi
import pytest
from aiokafka.errors import KafkaConnectionError, KafkaTimeoutError, TopicAuthorizationFailedError
from pydantic import SecretStr

from streams.kafka import (
    MAX_RECORD_BYTES,
    KafkaUnavailable,
    client_options,
    consumer_options,
    producer_options,
    unavailable,
)
from streams.settings import KafkaSettings


def test_a_plain_client_is_only_told_where() -> None:
    options = client_options(KafkaSettings(bootstrap_servers="a:1, b:2"))
    assert options["bootstrap_servers"] == ["a:1", "b:2"]
    assert options["security_protocol"] == "PLAINTEXT"
    assert not {name for name in options if name.startswith(("sasl", "ssl"))}


def test_a_login_over_tls() -> None:
    options = client_options(
        KafkaSettings(
            security_protocol="SASL_SSL",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_username="me",
            sasl_password=SecretStr("secret"),
            ssl_cafile=certifi.where(),
        )
    )
    assert options["sasl_mechanism"] == "SCRAM-SHA-512"
    assert options["sasl_plain_username"] == "me"
    assert options["sasl_plain_password"] == "secret"
    assert isinstance(options["ssl_context"], ssl.SSLContext)
    assert options["ssl_context"].verify_mode is ssl.CERT_REQUIRED
    assert options["ssl_context"].check_hostname


def test_a_login_without_tls_has_no_context() -> None:
    options = client_options(
        KafkaSettings(security_protocol="SASL_PLAINTEXT", sasl_username="me", sasl_password=SecretStr("pw"))
    )
    assert options["sasl_mechanism"] == "PLAIN"
    assert "ssl_context" not in options


def test_certificates_that_are_none(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nothing")
    with pytest.raises(KafkaUnavailable, match=r"kafka.ssl_cafile \(PROFILESTREAM_KAFKA__SSL_CAFILE\)"):
        client_options(KafkaSettings(security_protocol="SSL", ssl_cafile=str(file)))


def test_producers_wait_for_all_replicas_and_repeat_without_doubles() -> None:
    options = producer_options(KafkaSettings())
    assert options["acks"] == "all"
    assert options["enable_idempotence"]
    assert options["max_request_size"] == MAX_RECORD_BYTES


def test_producers_for_the_embedded_broker_send_records_one_by_one() -> None:
    options = producer_options(KafkaSettings(single_record_batches=True))
    assert options["max_batch_size"] == 1
    assert "enable_idempotence" not in options


def test_consumers_commit_only_when_told() -> None:
    kafka = KafkaSettings(session_timeout=6, heartbeat_interval=1.5)
    options = consumer_options(kafka, "group")
    assert options["enable_auto_commit"] is False
    assert options["auto_offset_reset"] == "earliest"
    assert (options["session_timeout_ms"], options["heartbeat_interval_ms"]) == (6000, 1500)
    assert "session_timeout_ms" not in consumer_options(kafka)


@pytest.mark.parametrize("error", [None, KafkaConnectionError("x"), TimeoutError(), KafkaTimeoutError()])
def test_a_broker_that_is_silent_is_named_with_its_setting(error: Exception | None) -> None:
    said = str(unavailable(KafkaSettings(bootstrap_servers="kafka:9092"), error))
    assert said.startswith("Kafka does not answer at kafka:9092: start it")
    assert said.endswith("kafka.bootstrap_servers (PROFILESTREAM_KAFKA__BOOTSTRAP_SERVERS)")


def test_a_broker_that_may_refuse_the_login() -> None:
    kafka = KafkaSettings(security_protocol="SASL_PLAINTEXT", sasl_username="me", sasl_password=SecretStr("pw"))
    assert "does not accept this client" in str(unavailable(kafka))
    assert "kafka.sasl_*" in str(unavailable(kafka))


def test_a_broker_that_answers_with_an_error_is_not_called_silent() -> None:
    said = str(unavailable(KafkaSettings(), TopicAuthorizationFailedError("chat")))
    assert "TopicAuthorizationFailedError" in said
    assert "does not answer" not in said
