"""The settings themselves: one frozen group for each part, with defaults that suit one machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    model_validator,
)

_SERVER = re.compile(r"\s*(?:\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/@]+):(\d{1,5})\s*")
_HIGHEST_PORT = 65535


def _check_http_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("must be an address such as http://127.0.0.1:8123")
    return value.rstrip("/")


def _check_servers(value: str) -> str:
    for server in value.split(","):
        match = _SERVER.fullmatch(server)
        if match is None or not 0 < int(match[1]) <= _HIGHEST_PORT:
            raise ValueError("must be host:port, or several of them with commas between")
    return value


def _upper_case(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


HttpUrl = Annotated[str, AfterValidator(_check_http_url)]
"""An ``http://`` or ``https://`` address, without a slash at its end."""

Servers = Annotated[str, AfterValidator(_check_servers)]
"""``host:port``, or several with commas between."""


InAnyCase = BeforeValidator(_upper_case)
"""Of words that Kafka writes in capitals: they may be given in any case, and are kept as it writes them."""


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KafkaSettings(_Group):
    """The broker, its topics and the consumer group."""

    bootstrap_servers: Servers = "127.0.0.1:9092"
    topic_prefix: str = Field(default="", pattern=r"^[A-Za-z0-9._-]*$", max_length=100)
    partitions: int = Field(default=4, ge=1, description="of every topic, when they are created")
    replication: int = Field(default=1, ge=1, description="of every topic, when they are created")
    group_id: str = Field(
        default="profilestream",
        pattern=r"^[A-Za-z0-9._-]+$",
        max_length=200,
        description="of the workers, and in the names of their tables' topics; default: topic_prefix and profilestream",
    )
    log_id: str = Field(default="", description="names the message log; default: the cluster's id")
    security_protocol: Annotated[Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"], InAnyCase] = "PLAINTEXT"
    sasl_mechanism: Annotated[Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], InAnyCase] = "PLAIN"
    sasl_username: str = ""
    sasl_password: SecretStr = SecretStr("")
    ssl_cafile: str = ""
    session_timeout: float = Field(default=45.0, gt=0, description="seconds")
    rebalance_timeout: float = Field(default=60.0, gt=0, description="seconds")
    heartbeat_interval: float = Field(default=3.0, gt=0, description="seconds")
    commit_interval: float = Field(default=1.0, gt=0, description="seconds between offset commits")
    single_record_batches: bool = Field(
        default=False, description="send each record as a batch of its own, as the embedded broker needs it"
    )

    @model_validator(mode="before")
    @classmethod
    def _group_of_prefix(cls, values: Any) -> Any:
        """Give installations on one cluster that have a prefix each a group each."""
        if isinstance(values, dict) and "group_id" not in values and isinstance(values.get("topic_prefix"), str):
            return {**values, "group_id": f"{values['topic_prefix']}profilestream"}
        return values

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        protocol = f"kafka.security_protocol is {self.security_protocol}"
        login = {
            "kafka.sasl_username": self.sasl_username,
            "kafka.sasl_password": self.sasl_password.get_secret_value(),
        }
        if self.security_protocol.startswith("SASL"):
            if empty := " and ".join(name for name, value in login.items() if not value):
                raise ValueError(f"{empty} must be set, since {protocol}")
        elif useless := " and ".join(name for name, value in login.items() if value):
            raise ValueError(f"{useless} must not be set, or with SASL_SSL or SASL_PLAINTEXT, since {protocol}")
        if self.ssl_cafile and not self.security_protocol.endswith("SSL"):
            raise ValueError(f"kafka.ssl_cafile must not be set, or with SSL or SASL_SSL, since {protocol}")
        if self.heartbeat_interval >= self.session_timeout:
            raise ValueError("kafka.heartbeat_interval must be shorter than kafka.session_timeout")
        return self


class WindowSettings(_Group):
    """When a user's window closes."""

    tokens: int = Field(default=1024, ge=1, description="o200k tokens of message text")
    messages: int = Field(default=64, ge=1)
    idle: float = Field(default=600.0, gt=0, description="seconds without a message")
    age: float = Field(default=3600.0, gt=0, description="seconds since the first message")
    by_session: bool = Field(default=False, description="close when `session_id` changes")
    horizon: int = Field(
        default=100_000, ge=1, description="messages of a partition that may wait in windows; then the oldest close"
    )


class LaneSettings(_Group):
    """How the slow stages work on many users at once, and what they do when something fails."""

    concurrency: int = Field(default=64, ge=1, description="handlers running at once, for each stage")
    max_open: int = Field(default=1000, ge=1, description="records taken and not yet acknowledged, for each stage")
    attempts: int = Field(default=8, ge=1, description="tries before a record is parked in the dead letters")
    backoff: float = Field(default=0.5, gt=0, description="seconds before the second try; doubles each time")
    backoff_limit: float = Field(default=30.0, gt=0, description="longest wait in seconds")
    drain: float = Field(default=20.0, ge=0, description="seconds to finish work when stopping or rebalancing")


OPENAI_URL: Final = "https://api.openai.com/v1"


class ModelSettings(_Group):
    """The language model; `OPENAI_API_KEY`, `OPENAI_BASE_URL` and `OPENAI_MODEL` are read too."""

    processor: Literal["auto", "rules", "llm"] = Field(
        default="auto",
        description="auto: llm where a model is named, and a key or a server of your own is set; otherwise rules",
    )
    api_key: SecretStr = SecretStr("")
    base_url: HttpUrl = OPENAI_URL
    name: str = Field(default="", description="model of every stage that has no own one")
    summary_name: str = Field(default="", description="model of the summary stage, often a cheaper one")
    timeout: float = Field(default=60.0, gt=0, description="seconds a request may take")
    attempts: int = Field(default=3, ge=1, description="requests for one call, the first included")
    max_in_flight: int = Field(default=64, ge=1, description="requests at once, over all stages")
    max_in_flight_per_model: int = Field(default=0, ge=0, description="requests at once to one model; 0: no own limit")
    max_completion_tokens: int = Field(default=1024, ge=1)
    structured_output: Literal["auto", "schema", "none"] = Field(
        default="auto", description="ask for a JSON schema; auto: until the server refuses it"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.processor == "llm" and not self.name:
            raise ValueError("model.name is empty, but model.processor is llm: say which model")
        return self


class ClickHouseSettings(_Group):
    """The archive."""

    url: HttpUrl = "http://127.0.0.1:8123"
    user: str = "default"
    password: SecretStr = SecretStr("")
    database: str = Field(default="profilestream", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    timeout: float = Field(default=30.0, gt=0, description="seconds a request may take")
    batch_rows: int = Field(default=5000, ge=1, description="rows of one insert at the most")
    batch_seconds: float = Field(default=1.0, gt=0, description="longest wait for a batch to fill")


class QdrantSettings(_Group):
    """The vector store."""

    url: HttpUrl = "http://127.0.0.1:6333"
    api_key: SecretStr = SecretStr("")
    collection: str = Field(default="profiles", pattern=r"^[A-Za-z0-9_-]+$", description="prefix of its name")
    timeout: float = Field(default=30.0, gt=0, description="seconds a request may take")
    batch_points: int = Field(default=256, ge=1, description="records of one batch at the most")
    batch_seconds: float = Field(default=1.0, gt=0, description="longest wait for a batch to fill")


class EmbeddingSettings(_Group):
    """What turns text into vectors."""

    kind: Literal["e5", "hash", "openai"] = Field(
        default="e5", description="e5: multilingual-e5-small in this process; hash: for load tests only"
    )
    base_url: HttpUrl = "https://api.openai.com/v1"
    api_key: SecretStr = SecretStr("")
    model: str = ""
    dimension: int = Field(default=384, ge=8, description="of `openai` and `hash`; e5 has 384")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.kind == "openai" and not self.model:
            raise ValueError("embedding.model is empty, but embedding.kind is openai: say which model")
        return self


class MetricsSettings(_Group):
    """Where Prometheus reads a worker's metrics."""

    enabled: bool = True
    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(
        default=9464, ge=0, le=65535, description="the first free one from here on: each worker of a host has its own"
    )


class Settings(_Group):
    """All settings. Made directly it holds the defaults; `load_settings` reads the sources."""

    pipeline_file: Path | None = Field(default=None, description="YAML file: slots, tags, language")
    kafka: KafkaSettings = KafkaSettings()
    window: WindowSettings = WindowSettings()
    lanes: LaneSettings = LaneSettings()
    model: ModelSettings = ModelSettings()
    clickhouse: ClickHouseSettings = ClickHouseSettings()
    qdrant: QdrantSettings = QdrantSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    metrics: MetricsSettings = MetricsSettings()

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)

    def source_of(self, name: str) -> str:
        """Say where the value of a setting (``kafka.group_id``) was read."""
        return self._sources.get(name, "default")


def setting_types() -> dict[str, object]:
    """Return the type of every setting by its full name, in the order of their declaration."""
    found: dict[str, object] = {}
    for name, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, _Group):
            for inner, inner_field in field.annotation.model_fields.items():
                found[f"{name}.{inner}"] = inner_field.annotation
        else:
            found[name] = field.annotation
    return found
