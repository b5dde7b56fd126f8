"""The checks of ``profilestream doctor``: is each service there, which version, and what to do when not."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from streams.cli.common import CommandFailed
from streams.settings import Settings, variable, without_credentials

if TYPE_CHECKING:
    from streams.registry import Announcement
    from streams.topics import TopicState

_LIMIT: Final = 30.0
"""Seconds that a check may take."""

_MODEL_LIMIT: Final = 10.0
_EMBEDDING_LIMIT: Final = 60.0
"""Likewise where a model has to be loaded first."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one service.

    Attributes:
        check: its name.
        ok: whether a worker can use it.
        found: one sentence: what answered, or what is wrong.
        advice: what to do; empty when nothing is wrong.
    """

    check: str
    ok: bool
    found: str
    advice: str = ""


class _Wrong(Exception):
    """What a check found wrong, and what to do."""

    def __init__(self, found: str, advice: str) -> None:
        super().__init__(found)
        self.found = found
        self.advice = advice


async def run_checks(settings: Settings, up: Announcement | None = None) -> list[Check]:
    """Check every service at the same time, each for half a minute at the most; then the embedding.

    A model in this process keeps it so busy while it is loaded that answers to the other checks would come too late.

    Args:
        settings: of this process; they say where the services are.
        up: the `profilestream up` that these services are of, if they are: its worker has settings of its own.
    """
    checks: dict[str, Callable[[Settings], Awaitable[str]]] = {
        "Kafka": _kafka,
        "ClickHouse": _clickhouse,
        "Qdrant": _qdrant,
        "model": partial(_model, up=up),
        "pipeline file": _pipeline,
    }
    for module in ("streams.kafka", "sinks.clickhouse", "sinks.vectors"):
        with contextlib.suppress(ImportError):  # its check says what is missing
            importlib.import_module(module)  # takes a second in which no check could go on
    found = await asyncio.gather(*(_run(name, check, settings) for name, check in checks.items()))
    checks_of_up = [Check(check="profilestream up", ok=True, found=_worker_of(up))] if up is not None else []
    return [*checks_of_up, *found, await _run("embedding", _embedding, settings, limit=_EMBEDDING_LIMIT)]


def _worker_of(up: Announcement) -> str:
    from streams.cli.printing import local_time

    return (
        f"process {up.pid}, ready since {local_time(up.started_at)}; its worker's processor: "
        f"{up.processor or 'not known'}, metrics: {up.metrics or 'none'}; what was set where it was started is not "
        "among the settings above"
    )


async def _run(
    name: str, check: Callable[[Settings], Awaitable[str]], settings: Settings, *, limit: float = _LIMIT
) -> Check:
    try:
        async with asyncio.timeout(limit):
            return Check(check=name, ok=True, found=await check(settings))
    except _Wrong as wrong:
        return Check(check=name, ok=False, found=wrong.found, advice=wrong.advice)
    except TimeoutError:
        return Check(
            check=name,
            ok=False,
            found=f"gives no answer within {limit:.0f} s",
            advice="see whether it is overloaded, or behind a firewall",
        )
    except Exception as error:  # a client may raise anything, and the other checks are to be printed still
        logging.getLogger(__name__).info("check %s failed", name, exc_info=True)
        detail = " ".join(str(error).split())[:300]
        return Check(
            check=name,
            ok=False,
            found=f"{type(error).__name__}: {detail}",
            advice="see its own log; `profilestream -v doctor` shows where this came from",
        )


async def require_model(settings: Settings) -> None:
    """Check the model that the settings name.

    Raises:
        CommandFailed: when it cannot be used; the message says what to do.
    """
    found = await _run("model", _model, settings)
    if not found.ok:
        raise CommandFailed(f"the model cannot be used ({found.found}): {found.advice}")


async def _kafka(settings: Settings) -> str:
    from aiokafka.errors import KafkaError

    from streams.kafka import KafkaUnavailable, admin, unavailable
    from streams.topics import Topics, TopicsError, common_count, topic_states
    from streams.waiting import worker_count

    kafka = settings.kafka
    topics = Topics.of(kafka)
    try:
        async with admin(kafka) as client:
            cluster = (await client.describe_cluster())["cluster_id"]
            states = await topic_states(client, topics)
        count = common_count(topics, {name: state.partitions for name, state in states.items()})
        workers = await worker_count(kafka)
    except (KafkaUnavailable, KafkaError, TopicsError) as error:
        said = unavailable(kafka, error) if isinstance(error, KafkaError) else error
        found, _, advice = str(said).rpartition(": ")
        raise _Wrong(found.removeprefix("Kafka "), advice) from error
    _check_replicas(states, kafka.replication)
    missing = len(topics.all()) - len(states)
    state = f"all topics with {count} partitions" if not missing else f"{missing} topics that the worker will create"
    members = {None: "", 0: ", no worker running", 1: ", 1 worker running"}.get(workers, f", {workers} workers running")
    return f"answers at {kafka.bootstrap_servers}, cluster {cluster}, {state}{members}"


def _check_replicas(states: Mapping[str, TopicState], wanted: int) -> None:
    if leaderless := _names(states, lambda state: state.leaderless > 0):
        raise _Wrong(
            f"has partitions that can be neither written nor read, of {leaderless}",
            "start the brokers that hold their replicas",
        )
    if behind := _names(states, lambda state: state.behind > 0):
        raise _Wrong(
            f"has partitions with a replica that is not in step, of {behind}",
            "see whether every broker runs, and the log of those that hold them",
        )
    if few := _names(states, lambda state: state.replicas < wanted):
        raise _Wrong(
            f"keeps fewer replicas than the {wanted} of kafka.replication, of {few}",
            "give these topics more with kafka-reassign-partitions, or set kafka.replication "
            f"({variable('kafka.replication')}) to what is meant",
        )


def _names(states: Mapping[str, TopicState], wrong: Callable[[TopicState], bool]) -> str:
    return ", ".join(name for name, state in states.items() if wrong(state))


async def _clickhouse(settings: Settings) -> str:
    from sinks.errors import SinkRejected, SinkUnavailable
    from streams.stores import open_archive

    clickhouse = settings.clickhouse
    shown = without_credentials(clickhouse.url)
    try:
        async with open_archive(clickhouse) as archive:
            version = await archive.ping()
            missing = await archive.missing_migrations()
    except SinkUnavailable as error:
        raise _unreachable("clickhouse.url", shown) from error
    except SinkRejected as error:
        raise _Wrong(
            str(error),
            f"check clickhouse.user ({variable('clickhouse.user')}), clickhouse.password "
            f"({variable('clickhouse.password')}) and clickhouse.url ({variable('clickhouse.url')})",
        ) from error
    if missing and missing[0] != 1:
        raise _Wrong(
            f"version {version} at {shown} has tables of an older release: {len(missing)} migrations are missing",
            "run `profilestream migrate`, or start a worker of this release",
        )
    tables = "its tables are still to be made, by a worker or `profilestream migrate`" if missing else "all tables"
    return f"version {version} at {shown}, {tables}"


async def _qdrant(settings: Settings) -> str:
    from sinks.errors import SinkRejected, SinkUnavailable
    from streams.stores import open_vectors

    qdrant = settings.qdrant
    shown = without_credentials(qdrant.url)
    try:
        async with open_vectors(settings, create=False) as index:
            version = await index.ping()
            in_use = await index.in_use()  # the version is told to anyone, this is not
    except SinkUnavailable as error:
        raise _unreachable("qdrant.url", shown) from error
    except SinkRejected as error:
        raise _Wrong(
            str(error),
            f"check qdrant.api_key ({variable('qdrant.api_key')}) and qdrant.url ({variable('qdrant.url')})",
        ) from error
    if in_use is not None and in_use != index.collection:
        raise _Wrong(
            f"version {version} at {shown} has {in_use} in use as {index.alias}, and the embedding that is set writes "
            f"to {index.collection}",
            "run `profilestream reindex` to fill that and take it into use, or set embedding.* as before",
        )
    state = f"{in_use} in use as {index.alias}" if in_use else "its collection is still to be made, by a worker"
    return f"version {version} at {shown}, {state}"


async def _embedding(settings: Settings) -> str:
    from sinks.errors import EmbedderUnavailable, SinkRejected, SinkUnavailable
    from streams.stores import make_embedder

    embedder = make_embedder(settings.embedding)
    try:
        vector = await embedder.embed_query("hello")
    except EmbedderUnavailable as error:
        found, _, _ = str(error).rpartition(": ")
        raise _Wrong(
            found,
            f"start that server, or say where it is with embedding.base_url ({variable('embedding.base_url')}); "
            f"embedding.kind ({variable('embedding.kind')}) e5 needs none",
        ) from error
    except (SinkUnavailable, SinkRejected) as error:
        found, _, advice = str(error).rpartition(": ")
        raise _Wrong(found or advice, advice if found else "see the server's log") from error
    finally:
        await embedder.close()
    return f"{settings.embedding.model or settings.embedding.kind} gives {len(vector)} numbers"


async def _pipeline(settings: Settings) -> str:
    from streams.pipeline_file import PipelineFileError, load_pipeline

    if settings.pipeline_file is None:
        return "none is set: the shipped slots are used"
    try:
        load_pipeline(settings.pipeline_file)
    except PipelineFileError as error:
        first, *others = str(error).splitlines()
        found = f"{first} (and {len(others)} more)" if others else first
        raise _Wrong(found, f"`profilestream config check {settings.pipeline_file}` names every mistake") from error
    return f"{settings.pipeline_file} is right"


async def _model(settings: Settings, up: Announcement | None = None) -> str:
    from streams.processors import processor_name

    found = await _model_named(settings)
    if up is None or up.processor in {"", processor_name(settings.model)}:
        return found
    return f"the worker of `profilestream up` uses {up.processor}; by the settings of this shell, {found}"


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


async def _model_named(settings: Settings) -> str:
    from streams.processors import half_named, uses_model

    model = settings.model
    if not uses_model(model):
        if (missing := half_named(model)) is not None:
            raise _Wrong(f"rules decide, for {missing.split(':')[0]}", missing.split(": ", 1)[1])
        return (
            "rules decide; for a model set OPENAI_API_KEY and OPENAI_MODEL, or model.api_key and model.name"
            if model.processor == "auto"
            else "rules decide, as model.processor says"
        )

    from openai import APIConnectionError, APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient

    where = without_credentials(model.base_url)
    key = model.api_key.get_secret_value()
    http = DefaultAsyncHttpxClient(follow_redirects=False)
    async with AsyncOpenAI(base_url=model.base_url, api_key=key or "none", max_retries=0, http_client=http) as client:
        try:
            async with asyncio.timeout(_MODEL_LIMIT):  # the client's own is one of silence
                answer = (await client.models.with_raw_response.list()).http_response
            names = {one.id for one in msgspec.json.decode(answer.content, type=_Models).data}
        except TimeoutError as error:
            raise _Wrong(
                f"{where} gives no answer within {_MODEL_LIMIT:g} s", "see whether it is overloaded"
            ) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            kind = answer.headers.get("content-type", "of no type").partition(";")[0]
            raise _Wrong(
                f"{where} answers with something that is no list of models ({kind})",
                f"check model.base_url ({variable('model.base_url')}): it mostly ends with /v1",
            ) from error
        except APIConnectionError as error:
            raise _unreachable("model.base_url", where, start="") from error
        except APIStatusError as error:
            if error.status_code in {401, 403}:
                raise _Wrong(
                    f"{where} does not accept the key" if key else f"{where} asks for a key, and none is set",
                    f"{'check' if key else 'set'} OPENAI_API_KEY or {variable('model.api_key')}",
                ) from error
            if error.status_code == HTTPStatus.NOT_FOUND:
                return f"{where} answers, but does not list its models; {model.name} will be asked for"
            to = error.response.headers.get("location", "")
            raise _Wrong(
                f"{where} answers with status {error.status_code}"
                + (f", a redirect to {without_credentials(to)}, which is not followed" if to else ""),
                f"check model.base_url ({variable('model.base_url')}) and the server's log",
            ) from error
    wanted = {model.name, model.summary_name or model.name}
    if unknown := ", ".join(sorted(wanted - names)):
        return f"{where} answers, but does not list {unknown}: check model.name if calls fail"
    return f"{where} answers and has {', '.join(sorted(wanted))}"


def _unreachable(name: str, shown: str, start: str = ", for example with `profilestream up`") -> _Wrong:
    return _Wrong(
        f"does not answer at {shown}",
        f"start it{start}, or say where it is with {name} ({variable(name)})",
    )
