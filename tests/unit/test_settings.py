"""Settings: which source wins, and what is said when they are wrong."""

from __future__ import annotations

import errno
import os
import ssl
from pathlib import Path

import certifi
import pytest

from streams import registry
from streams.processors import half_named, uses_model
from streams.settings import (
    KafkaSettings,
    ModelSettings,
    Settings,
    SettingsError,
    describe,
    load_settings,
    variable,
    without_credentials,
)
from streams.topics import Topics


@pytest.fixture(autouse=True)
def _nothing_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variables, no file and no running `up` of whoever runs the tests."""
    for key in os.environ:
        if key.startswith(("PROFILESTREAM_", "OPENAI_")):
            monkeypatch.delenv(key)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


def problems_of(**arguments: object) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(**arguments)  # type: ignore[arg-type]
    return caught.value.problems


def announce_up(folder: Path, **kafka: object) -> None:
    folder.mkdir(parents=True)
    registry.announce(
        folder,
        {"kafka": {"single_record_batches": True, **kafka}, "clickhouse": {"url": "http://127.0.0.1:5000"}},
    )


def test_defaults_without_any_source() -> None:
    settings = load_settings()
    assert settings == Settings()
    assert settings.source_of("kafka.group_id") == "default"


def test_each_source_beats_the_ones_below(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    announce_up(tmp_path / "up", group_id="announced", partitions=1)
    assert load_settings().kafka.group_id == "announced"

    Path("profilestream.yaml").write_text("kafka:\n  group_id: file\n  partitions: 2\n")
    assert (load_settings().kafka.group_id, load_settings().kafka.partitions) == ("file", 2)

    monkeypatch.setenv("PROFILESTREAM_KAFKA__GROUP_ID", "variable")
    assert (load_settings().kafka.group_id, load_settings().kafka.partitions) == ("variable", 2)

    given = load_settings(overrides={"kafka": {"group_id": "code"}})
    assert (given.kafka.group_id, given.kafka.partitions) == ("code", 2)
    assert given.kafka.single_record_batches
    assert given.source_of("kafka.group_id") == "given in code"
    assert given.source_of("kafka.partitions") == "profilestream.yaml line 3"


def test_an_announced_group_is_used_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    announce_up(tmp_path / "up", bootstrap_servers="127.0.0.1:4000")
    monkeypatch.setenv("PROFILESTREAM_KAFKA__BOOTSTRAP_SERVERS", "kafka:9092")
    settings = load_settings()
    assert settings.kafka.bootstrap_servers == "kafka:9092"
    assert not settings.kafka.single_record_batches
    assert settings.clickhouse.url == "http://127.0.0.1:5000"


def test_the_data_directory_says_which_up_is_meant(tmp_path: Path) -> None:
    announce_up(tmp_path / "up", group_id="announced")
    assert load_settings(data_dir=tmp_path / "up").kafka.group_id == "announced"
    assert load_settings(data_dir=tmp_path / "another").kafka.group_id == "profilestream"


def test_settings_file_by_argument_and_by_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "elsewhere" / "a.yaml"
    file.parent.mkdir()
    file.write_bytes(b"\xef\xbb\xbfwindow: {tokens: 99}\npipeline_file: slots.yaml\nkafka:\n")
    (file.parent / "slots.yaml").touch()
    monkeypatch.setenv("PROFILESTREAM_SETTINGS", str(file))
    assert load_settings().window.tokens == 99
    assert load_settings(settings_file=file).pipeline_file == file.parent / "slots.yaml"


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFILESTREAM_KAFKA__PARTITIONS", "")
    monkeypatch.setenv("OPENAI_MODEL", "")
    assert load_settings() == Settings()


def test_openai_variables_rank_below_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1/")
    monkeypatch.setenv("OPENAI_MODEL", "small")
    settings = load_settings()
    assert settings.model.api_key.get_secret_value() == "sk-1"
    assert settings.model.base_url == "http://127.0.0.1:8000/v1"
    assert settings.model.name == "small"
    assert not settings.embedding.api_key.get_secret_value()

    Path("profilestream.yaml").write_text("model: {name: large}\nembedding: {kind: openai, model: e}\n")
    settings = load_settings()
    assert settings.model.name == "large"
    assert settings.embedding.api_key.get_secret_value() == "sk-1"
    assert settings.embedding.base_url == "http://127.0.0.1:8000/v1"


def test_all_problems_at_once_with_their_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Path("profilestream.yaml").write_text(
        "kafka:\n  partitions: four\n  grup_id: x\nwindow:\n  idle: 0\npipeline_file: none.yaml\nqdrant: 3\n"
    )
    monkeypatch.setenv("PROFILESTREAM_KAFKA__REPLICATION", "many")
    monkeypatch.setenv("PROFILESTREAM_KAFKA__PARTITION", "4")
    monkeypatch.setenv("PROFILESTREAM_CLICKHOUSE__URL", "tcp://127.0.0.1:9000")
    found = "\n".join(
        problems_of(overrides={"lanes": {"drain": -1, "max_open": 0}}, sources={"lanes.max_open": "--open"})
    )
    for expected in (
        "kafka.partitions must be a valid integer, unable to parse string as an integer but is 'four' "
        "(profilestream.yaml line 2)",
        "profilestream.yaml line 3: there is no setting 'kafka.grup_id', did you mean 'kafka.group_id'?",
        "window.idle must be greater than 0 but is '0' (profilestream.yaml line 5)",
        "pipeline_file: there is no file 'none.yaml' (profilestream.yaml line 6)",
        "profilestream.yaml line 7: qdrant is a group of settings, not one",
        "(environment variable PROFILESTREAM_KAFKA__REPLICATION)",
        "environment variable PROFILESTREAM_KAFKA__PARTITION is no setting, "
        "did you mean 'PROFILESTREAM_KAFKA__PARTITIONS'?",
        "clickhouse.url must be an address such as http://127.0.0.1:8123",
        "lanes.drain must be greater than or equal to 0 but is '-1' (given in code)",
        "lanes.max_open must be greater than or equal to 1 but is '0' (--open)",
    ):
        assert expected in found
    assert len(found.splitlines()) == 10


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"kafka: [1", "no valid YAML"),
        (b"- a\n- b\n", "must hold settings"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"a: \x07", "no valid YAML"),
        (b"window: {idle: 1}\nwindow: {idle: 2}\n", "line 2: window.idle is set twice, first in line 1"),
        (b"window: {idle: 2026-13-45}\n", "no valid YAML"),
        (b"kafka: {group_id: 7}\n", "kafka.group_id must be a valid string but is '7'"),
    ],
    ids=["syntax", "list", "encoding", "control", "twice", "date", "type"],
)
def test_files_that_are_no_settings(content: bytes, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(content)
    found = problems_of(settings_file=file)
    assert len(found) == 1
    assert str(file) in found[0]
    assert expected in found[0]


def test_a_file_that_is_not_there_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFILESTREAM_SETTINGS", "gone.yaml")
    assert problems_of() == ["the settings file gone.yaml cannot be read: No such file or directory"]


@pytest.mark.parametrize(
    "overrides",
    [
        {"kafka": {"security_protocol": "SASL_SSL"}},
        {"kafka": {"security_protocol": "SASL_SSL", "sasl_username": "app"}},
        {"kafka": {"sasl_username": "app", "sasl_password": "pw"}},
        {"kafka": {"security_protocol": "SSL", "sasl_password": "pw"}},
        {"kafka": {"ssl_cafile": __file__}},
        {"kafka": {"session_timeout": 3}},
        {"model": {"processor": "llm"}},
        {"embedding": {"kind": "openai"}},
        {"kafka": {"bootstrap_servers": "kafka"}},
        {"kafka": {"bootstrap_servers": "kafka:99999"}},
        {"kafka": {"bootstrap_servers": "kafka:9092,"}},
        {"qdrant": {"url": "http://host:port"}},
    ],
    ids=str,
)
def test_settings_that_cannot_work(overrides: dict[str, dict[str, object]]) -> None:
    (group,) = overrides
    (problem,) = problems_of(overrides=overrides)
    assert problem.startswith(group)


@pytest.mark.parametrize("servers", ["kafka:9092", "a:1, b:65535", "[::1]:9092", "127.0.0.1:9092"])
def test_servers_that_can_be_meant(servers: str) -> None:
    assert load_settings(overrides={"kafka": {"bootstrap_servers": servers}}).kafka.bootstrap_servers == servers


def test_the_words_of_kafka_are_taken_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFILESTREAM_KAFKA__SECURITY_PROTOCOL", "sasl_ssl")
    Path("profilestream.yaml").write_text(
        "kafka: {sasl_mechanism: Scram-Sha-512, sasl_username: app, sasl_password: pw}\n"
    )
    kafka = load_settings().kafka
    assert (kafka.security_protocol, kafka.sasl_mechanism) == ("SASL_SSL", "SCRAM-SHA-512")

    monkeypatch.setenv("PROFILESTREAM_KAFKA__SECURITY_PROTOCOL", "tls")
    (problem,) = problems_of()
    assert problem.endswith("but is 'tls' (environment variable PROFILESTREAM_KAFKA__SECURITY_PROTOCOL)")


@pytest.mark.parametrize("content", [b"", b"nothing", b"\x30\x82\x01\x0a\xff"], ids=["empty", "text", "binary"])
def test_a_file_without_certificates_is_a_wrong_setting(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(content)
    assert problems_of(overrides={"kafka": {"security_protocol": "SSL", "ssl_cafile": str(file)}}) == [
        f"kafka.ssl_cafile: the file '{file}' holds no certificate in PEM format (given in code); "
        "name one with the authorities to trust"
    ]


def test_a_file_of_certificates_that_cannot_be_read_is_a_wrong_setting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "ca.pem"
    file.touch()

    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", refused)  # root may read any file
    (problem,) = problems_of(overrides={"kafka": {"security_protocol": "SSL", "ssl_cafile": str(file)}})
    assert problem.startswith(f"kafka.ssl_cafile: the file '{file}' cannot be read: Permission denied (given in code)")


def test_a_file_of_certificates_is_taken() -> None:
    kafka = {"security_protocol": "SSL", "ssl_cafile": certifi.where()}
    assert load_settings(overrides={"kafka": kafka}).kafka.ssl_cafile == certifi.where()


def test_secrets_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROFILESTREAM_MODEL__API_KEY", "hidden-1")
    monkeypatch.setenv("PROFILESTREAM_QDRANT__URL", "https://me:hidden-2@qdrant:6333")
    settings = load_settings()
    shown = {one.name: one for one in describe(settings)}
    assert shown["model.api_key"].value == "set"
    assert shown["model.api_key"].source == "environment variable PROFILESTREAM_MODEL__API_KEY"
    assert shown["qdrant.api_key"].value == "not set"
    assert shown["qdrant.url"].value == "https://***@qdrant:6333"
    assert "hidden" not in repr(shown) + repr(settings.model)

    monkeypatch.setenv("PROFILESTREAM_KAFKA__PARTITIONS", "x")
    problem = problems_of(overrides={"model": {"api_key": 12345}, "qdrant": {"url": "ftp://me:hidden-3@q"}})
    assert not {"12345", "hidden"} & set("\n".join(problem).replace("-", " ").split())
    assert "hidden-3" not in "\n".join(problem)


def test_every_setting_has_a_variable_and_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {one.name: one.value for one in describe(Settings())}
    assert shown["window.by_session"] == "false"
    assert shown["pipeline_file"] == ""
    for name, value in shown.items():
        if value != "not set":
            monkeypatch.setenv(variable(name), value)
    assert load_settings().model_dump() == Settings().model_dump()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://a:1", "http://a:1"),
        ("http://u:p@a:1/x?y=1", "http://***@a:1/x?y=1"),
        ("http://u@[::1", "***"),
        ("https://tok@en@host", "https://***@host"),
    ],
)
def test_addresses_without_credentials(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


@pytest.mark.parametrize(
    ("values", "uses", "missing"),
    [
        ({}, False, None),
        ({"name": "m", "api_key": "k"}, True, None),
        ({"name": "m", "base_url": "http://vllm:8000/v1"}, True, None),
        ({"name": "m"}, False, "OPENAI_API_KEY"),
        ({"api_key": "k"}, False, "OPENAI_MODEL"),
        ({"base_url": "http://vllm:8000/v1"}, False, None),
        ({"name": "m", "processor": "rules"}, False, None),
        ({"name": "m", "processor": "llm"}, True, None),
    ],
)
def test_a_model_of_which_half_is_set(values: dict[str, str], uses: bool, missing: str | None) -> None:
    model = ModelSettings.model_validate(values)
    assert uses_model(model) is uses
    told = half_named(model)
    assert told is None if missing is None else missing in (told or "")


def test_installations_with_a_prefix_have_a_group_each() -> None:
    assert KafkaSettings().group_id == "profilestream"
    assert KafkaSettings(topic_prefix="a.").group_id == "a.profilestream"
    assert KafkaSettings(topic_prefix="a.", group_id="own").group_id == "own"
    assert Topics.of(KafkaSettings(topic_prefix="a.")).profiles_changelog == "a.profilestream-profiles-changelog"
