"""Settings as people may see them: every value and where it came from, without secrets."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from pydantic import SecretStr

from streams.settings.models import Settings, setting_types


class Shown(NamedTuple):
    """A setting as it may be printed."""

    name: str
    value: str
    source: str


def without_credentials(url: str) -> str:
    """Return an address with the user and password before its host, if any, hidden."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "***"
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc="***@" + parts.netloc.rpartition("@")[2]))


def describe(settings: Settings) -> list[Shown]:
    """Return every setting with its printable value and its source; of secrets only whether they are set."""
    return [Shown(name, _printable(settings, name), settings.source_of(name)) for name in setting_types()]


def _printable(settings: Settings, name: str) -> str:
    value: object = settings
    for part in name.split("."):
        value = getattr(value, part)
    if isinstance(value, SecretStr):
        return "set" if value.get_secret_value() else "not set"
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return without_credentials(str(value)) if name.endswith("url") else str(value)
