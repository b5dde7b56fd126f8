"""Every setting of every process, typed; `load_settings` reads them from their sources."""

from streams.settings.loading import load_settings
from streams.settings.models import (
    ClickHouseSettings,
    EmbeddingSettings,
    KafkaSettings,
    LaneSettings,
    MetricsSettings,
    ModelSettings,
    QdrantSettings,
    Settings,
    WindowSettings,
)
from streams.settings.names import ENV_PREFIX, FILE_VARIABLE, SettingsError, variable
from streams.settings.printing import Shown, describe, without_credentials

__all__ = [
    "ENV_PREFIX",
    "FILE_VARIABLE",
    "ClickHouseSettings",
    "EmbeddingSettings",
    "KafkaSettings",
    "LaneSettings",
    "MetricsSettings",
    "ModelSettings",
    "QdrantSettings",
    "Settings",
    "SettingsError",
    "Shown",
    "WindowSettings",
    "describe",
    "load_settings",
    "variable",
    "without_credentials",
]
