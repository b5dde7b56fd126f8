"""`load_settings`: the sources of settings, which one wins, and every mistake in one message.

Precedence, highest first:

1. values given in code (the command line),
2. environment variables (``PROFILESTREAM_KAFKA__BOOTSTRAP_SERVERS``); an empty one counts as not set,
3. the settings file: the one given, the one that ``PROFILESTREAM_SETTINGS`` names, or ``./profilestream.yaml``,
4. ``OPENAI_API_KEY``, ``OPENAI_BASE_URL`` and ``OPENAI_MODEL``, which other programs read as well,
5. the services that a running ``profilestream up`` announces (`streams.registry`),
6. defaults.
"""

from __future__ import annotations

import difflib
import os
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pydantic import SecretStr, ValidationError

from streams import registry
from streams.settings.file import DEFAULT_FILE, FILE_SETTINGS, read_settings_file
from streams.settings.models import Settings, setting_types
from streams.settings.names import (
    DATA_DIR_VARIABLE,
    ENV_PREFIX,
    FILE_VARIABLE,
    TEST_PREFIX,
    SettingsError,
    variable,
)
from streams.settings.printing import without_credentials
from streams.settings.values import Layer, Value

_LONGEST_QUOTED: Final = 200

_ADDRESSES: Final = {"kafka": "bootstrap_servers", "clickhouse": "url", "qdrant": "url", "embedding": "kind"}
"""The setting of each announced group that says which service it means."""


def load_settings(
    *,
    data_dir: Path | None = None,
    settings_file: Path | None = None,
    overrides: Mapping[str, object] | None = None,
    sources: Mapping[str, str] | None = None,
) -> Settings:
    """Read the settings from all sources.

    A group of a running ``profilestream up`` (its broker, say) is used as a whole or not at all: not when another
    source names the service itself.

    Args:
        data_dir: the folder of the ``up`` whose services are meant; by default any that runs for this user.
        settings_file: instead of the usual places.
        overrides: highest precedence; nested like the settings: ``{"kafka": {"partitions": 8}}``.
        sources: where some of these stand, by full name, such as an option of the command line; for messages.

    Raises:
        SettingsError: with a line for every unknown name and wrong value, in whichever source it stands.
    """
    problems: list[str] = []
    layers = [
        _overrides(overrides or {}, sources or {}),
        _environment(problems),
        _file(settings_file, problems),
    ]
    layers += [_openai(layers), _announced(layers, data_dir)]
    merged: Layer = {}
    for layer in reversed(layers):
        merged.update(layer)
    settings = _validate(merged, problems)
    if settings is not None and not problems:
        problems += _wrong_certificates(settings, merged)
    if problems or settings is None:
        raise SettingsError(problems)
    settings._sources.update({name: value.source for name, value in merged.items()})
    return settings


def _validate(merged: Layer, problems: list[str]) -> Settings | None:
    known = setting_types()
    nested: dict[str, object] = {}
    for name, value in merged.items():
        if name in Settings.model_fields and name not in known:
            problems.append(f"{value.source}: {name} is a group of settings, not one")
            continue
        if name not in known:
            problems.append(f"{value.source}: there is no setting {name!r}{_did_you_mean(name, list(known))}")
            continue
        group, _, inner = name.rpartition(".")
        if group:
            members = nested.setdefault(group, {})
            assert isinstance(members, dict)  # noqa: S101 - a group is no setting of its own
            members[inner] = value.value
        else:
            nested[name] = value.value
    problems += _missing_files(merged)
    try:
        return Settings.model_validate(nested)
    except ValidationError as error:
        problems += _explain(error, merged)
        return None


def _explain(error: ValidationError, merged: Layer) -> Iterator[str]:
    types = setting_types()
    for one in error.errors(include_url=False, include_context=False):
        name = ".".join(str(part) for part in one["loc"])
        reason = one["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
        reason = reason.replace("String should match pattern", "must match the pattern")
        if name not in merged:
            yield reason  # about several settings of a group; it names them
            continue
        shown = "" if types[name] is SecretStr else f" but is {_quoted(merged[name].value)}"
        yield f"{name} {reason}{shown} ({merged[name].source})"


def _quoted(value: object) -> str:
    try:
        text = without_credentials(str(value))
    except ValueError:  # a number of more digits than Python writes out
        return "a number that is far too large"
    return repr(text if len(text) <= _LONGEST_QUOTED else f"{text[:_LONGEST_QUOTED]}…")


def _missing_files(merged: Layer) -> Iterator[str]:
    for name in FILE_SETTINGS & merged.keys():
        path, source = merged[name]
        if isinstance(path, str | Path) and str(path) and not Path(path).is_file():
            yield f"{name}: there is no file {str(path)!r} ({source})"


def _wrong_certificates(settings: Settings, merged: Layer) -> Iterator[str]:
    file = settings.kafka.ssl_cafile
    if not file:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except ssl.SSLError:
        wrong = "holds no certificate in PEM format"
    except OSError as error:
        wrong = f"cannot be read: {error.strerror}"
    else:
        return
    source = merged["kafka.ssl_cafile"].source
    yield f"kafka.ssl_cafile: the file {file!r} {wrong} ({source}); name one with the authorities to trust"


def _did_you_mean(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f", did you mean {close[0]!r}?" if close else ""


def _overrides(values: Mapping[str, object], sources: Mapping[str, str]) -> Layer:
    full: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            full |= {f"{name}.{inner}": one for inner, one in value.items()}
        else:
            full[name] = value
    return {name: Value(value, sources.get(name, "given in code")) for name, value in full.items()}


def _environment(problems: list[str]) -> Layer:
    names = {variable(name): name for name in setting_types()}
    others = {FILE_VARIABLE, DATA_DIR_VARIABLE}
    layer: Layer = {}
    for key, text in sorted(os.environ.items()):
        if not key.startswith(ENV_PREFIX) or key in others or key.startswith(TEST_PREFIX):
            continue
        if key not in names:
            problems.append(f"environment variable {key} is no setting{_did_you_mean(key, [*names, *others])}")
        elif text:
            layer[names[key]] = Value(text, f"environment variable {key}")
    return layer


def _file(given: Path | None, problems: list[str]) -> Layer:
    path = given
    if path is None and (named := os.environ.get(FILE_VARIABLE)):
        path = Path(named).expanduser()
    if path is None:
        path = Path(DEFAULT_FILE)
        if not path.is_file():
            return {}
    return read_settings_file(path, problems)


def _openai(above: list[Layer]) -> Layer:
    """Read the variables of the ``openai`` package; an embedding server takes them when it is of that kind."""
    layer: Layer = {}
    kind = next((layer["embedding.kind"].value for layer in above if "embedding.kind" in layer), None)
    wanted = {
        "OPENAI_API_KEY": ["model.api_key"],
        "OPENAI_BASE_URL": ["model.base_url"],
        "OPENAI_MODEL": ["model.name"],
    }
    if kind == "openai":
        wanted["OPENAI_API_KEY"].append("embedding.api_key")
        wanted["OPENAI_BASE_URL"].append("embedding.base_url")
    for key, names in wanted.items():
        if text := os.environ.get(key):
            layer |= {name: Value(text, f"environment variable {key}") for name in names}
    return layer


def _announced(above: list[Layer], data_dir: Path | None) -> Layer:
    found = registry.find(data_dir)
    if found is None:
        return {}
    named_elsewhere = {
        group for group, address in _ADDRESSES.items() if any(f"{group}.{address}" in layer for layer in above)
    }
    return {
        f"{group}.{name}": Value(value, f"running profilestream up (process {found.pid})")
        for group, values in found.settings.items()
        if group not in named_elsewhere
        for name, value in values.items()
    }
