"""`Settings`: every setting of every process, typed, from environment variables and a file.

Precedence, highest first: values given in code (the command line), environment variables
(``PROFILESTREAM_KAFKA__BOOTSTRAP_SERVERS``), the settings file, the services that a running
``profilestream up`` announces (`streams.embedded.registry`), defaults.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

ENV_PREFIX = "PROFILESTREAM_"
FILE_VARIABLE = "PROFILESTREAM_SETTINGS"


class SettingsError(Exception):
    """Wrong settings: the message names every one of them, a line each."""


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KafkaSettings(_Group):
    """The broker, its topics and the consumer group."""

    bootstrap_servers: str = "127.0.0.1:9092"
    topic_prefix: str = Field(default="", pattern=r"^[A-Za-z0-9._-]*$")
    partitions: int = Field(default=4, ge=1, description="of every topic, when they are created")
    replication: int = Field(default=1, ge=1, description="of every topic, when they are created")
    group_id: str = Field(default="profilestream", pattern=r"^[A-Za-z0-9._-]+$")
    log_id: str = Field(default="", description="names the message log; default: the cluster's id")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
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


class WindowSettings(_Group):
    """When a user's window closes."""

    tokens: int = Field(default=1024, ge=1, description="o200k tokens of message text")
    messages: int = Field(default=64, ge=1)
    idle: float = Field(default=600.0, gt=0, description="seconds without a message")
    age: float = Field(default=3600.0, gt=0, description="seconds since the first message")
    by_session: bool = Field(default=False, description="close when `session_id` changes")


class LaneSettings(_Group):
    """How the slow stages work on many users at once, and what they do when something fails."""

    concurrency: int = Field(default=64, ge=1, description="handlers running at once, for each stage")
    max_open: int = Field(default=1000, ge=1, description="records taken and not yet acknowledged, for each stage")
    attempts: int = Field(default=5, ge=1, description="tries before a record is parked in the dead letters")
    backoff: float = Field(default=0.5, gt=0, description="seconds before the second try; doubles each time")
    backoff_limit: float = Field(default=30.0, gt=0, description="longest wait in seconds")
    drain: float = Field(default=20.0, ge=0, description="seconds to finish work when stopping or rebalancing")


class ModelSettings(_Group):
    """The language model; `OPENAI_API_KEY`, `OPENAI_BASE_URL` and `OPENAI_MODEL` are read too."""

    processor: Literal["auto", "rules", "llm"] = Field(
        default="auto", description="auto: llm where a key and a model name are set, otherwise rules"
    )
    api_key: SecretStr = SecretStr("")
    base_url: str = "https://api.openai.com/v1"
    name: str = Field(default="", description="model of every stage that has no own one")
    summary_name: str = Field(default="", description="model of the summary stage, often a cheaper one")
    timeout: float = Field(default=60.0, gt=0, description="seconds a request may take")
    attempts: int = Field(default=3, ge=1, description="requests for one call, the first included")
    max_in_flight: int = Field(default=64, ge=1, description="requests at once, over all stages")
    max_completion_tokens: int = Field(default=1024, ge=1)
    structured_output: Literal["auto", "schema", "none"] = Field(
        default="auto", description="ask for a JSON schema; auto: until the server refuses it"
    )


class ClickHouseSettings(_Group):
    """The archive."""

    url: str = Field(default="http://127.0.0.1:8123", pattern=r"^https?://")
    user: str = "default"
    password: SecretStr = SecretStr("")
    database: str = Field(default="profilestream", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    timeout: float = Field(default=30.0, gt=0, description="seconds a request may take")
    batch_rows: int = Field(default=1000, ge=1, description="rows of one insert at the most")
    batch_seconds: float = Field(default=0.5, gt=0, description="longest wait for a batch to fill")


class QdrantSettings(_Group):
    """The vector store."""

    url: str = Field(default="http://127.0.0.1:6333", pattern=r"^https?://")
    api_key: SecretStr = SecretStr("")
    collection: str = Field(default="profiles", pattern=r"^[A-Za-z0-9_-]+$", description="prefix of its name")
    timeout: float = Field(default=30.0, gt=0, description="seconds a request may take")
    batch_points: int = Field(default=64, ge=1)
    batch_seconds: float = Field(default=0.5, gt=0)


class EmbeddingSettings(_Group):
    """What turns text into vectors."""

    kind: Literal["e5", "hash", "openai"] = Field(
        default="e5", description="e5: multilingual-e5-small in this process; hash: for load tests only"
    )
    base_url: str = "https://api.openai.com/v1"
    api_key: SecretStr = SecretStr("")
    model: str = ""
    dimension: int = Field(default=384, ge=8, description="of `openai` and `hash`; e5 has 384")


class Settings(BaseSettings):
    """All settings; `load` reads them."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, nested_model_default_partial_update=True
    )

    pipeline_file: Path | None = Field(default=None, description="YAML file: slots, tags, language")
    kafka: KafkaSettings = KafkaSettings()
    window: WindowSettings = WindowSettings()
    lanes: LaneSettings = LaneSettings()
    model: ModelSettings = ModelSettings()
    clickhouse: ClickHouseSettings = ClickHouseSettings()
    qdrant: QdrantSettings = QdrantSettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
