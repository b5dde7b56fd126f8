"""The checks of ``profilestream doctor``: is each service there, which version, and what to do when not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import msgspec

from streams.cli.common import CommandFailed
from streams.settings import Settings, variable, without_credentials

_LIMIT: Final = 15.0
"""Seconds that a check may take."""


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


async def run_checks(settings: Settings) -> list[Check]:
    """Check every service at the same time; each check ends within 15 seconds."""
    checks: dict[str, Callable[[Settings], Awaitable[str]]] = {
        "Kafka": _kafka,
        "ClickHouse": _clickhouse,
        "Qdrant": _qdrant,
        "embedding": _embedding,
        "model": _model,
        "pipeline file": _pipeline,
    }
    return list(await asyncio.gather(*(_run(name, check, settings) for name, check in checks.items())))


async def _run(name: str, check: Callable[[Settings], Awaitable[str]], settings: Settings) -> Check:
    try:
        async with asyncio.timeout(_LIMIT):
            return Check(check=name, ok=True, found=await check(settings))
    except _Wrong as wrong:
        return Check(check=name, ok=False, found=wrong.found, advice=wrong.advice)
    except TimeoutError:
        return Check(
            check=name,
            ok=False,
            found=f"gives no answer within {_LIMIT:.0f} s",
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
    from streams.kafka import KafkaUnavailable, admin
    from streams.topics import Topics, TopicsError, common_count, partition_counts

    kafka = settings.kafka
    topics = Topics.of(kafka)
    try:
        async with admin(kafka) as client:
            cluster = (await client.describe_cluster())["cluster_id"]
            existing = await partition_counts(client, topics)
        count = common_count(topics, existing)
    except (KafkaUnavailable, TopicsError) as error:
        found, _, advice = str(error).partition(": ")
        raise _Wrong(found.removeprefix("Kafka "), advice) from error
    missing = len(topics.all()) - len(existing)
    state = f"all topics with {count} partitions" if not missing else f"{missing} topics that the worker will create"
    return f"answers at {kafka.bootstrap_servers}, cluster {cluster}, {state}"


async def _clickhouse(settings: Settings) -> str:
    from sinks.errors import SinkRejected, SinkUnavailable
    from streams.stores import open_archive

    clickhouse = settings.clickhouse
    shown = without_credentials(clickhouse.url)
    try:
        async with open_archive(clickhouse) as archive:
            return f"version {await archive.ping()} at {shown}"
    except SinkUnavailable as error:
        raise _unreachable("clickhouse.url", shown) from error
    except SinkRejected as error:
        raise _Wrong(
            str(error),
            f"check clickhouse.user ({variable('clickhouse.user')}), clickhouse.password "
            f"({variable('clickhouse.password')}) and clickhouse.url ({variable('clickhouse.url')})",
        ) from error


async def _qdrant(settings: Settings) -> str:
    from qdrant_client import AsyncQdrantClient
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    qdrant = settings.qdrant
    shown = without_credentials(qdrant.url)
    url = urlsplit(qdrant.url)
    client = AsyncQdrantClient(
        url=qdrant.url,
        port=url.port or (443 if url.scheme == "https" else 80),
        api_key=qdrant.api_key.get_secret_value() or None,
        timeout=10,
        check_compatibility=False,
    )
    try:
        version = (await client.info()).version
        await client.get_collections()  # the version is told to anyone, this is not
    except UnexpectedResponse as error:
        raise _Wrong(
            f"refuses at {shown} with status {error.status_code}",
            f"check qdrant.api_key ({variable('qdrant.api_key')}) and qdrant.url ({variable('qdrant.url')})",
        ) from error
    except ResponseHandlingException as error:
        raise _unreachable("qdrant.url", shown) from error
    finally:
        await client.close()
    return f"version {version} at {shown}"


async def _embedding(settings: Settings) -> str:
    from sinks.errors import SinkRejected, SinkUnavailable
    from streams.stores import make_embedder

    embedder = make_embedder(settings.embedding)
    try:
        vector = await embedder.embed_query("hello")
    except (SinkUnavailable, SinkRejected) as error:
        found, _, advice = str(error).partition(": ")
        raise _Wrong(found, advice) from error
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
        raise _Wrong(
            str(error), f"`profilestream config check {settings.pipeline_file}` names every mistake"
        ) from error
    return f"{settings.pipeline_file} is right"


async def _model(settings: Settings) -> str:
    from streams.processors import uses_model

    model = settings.model
    if not uses_model(model):
        return (
            "rules decide; for a model set OPENAI_API_KEY and OPENAI_MODEL, or model.api_key and model.name"
            if model.processor == "auto"
            else "rules decide, as model.processor says"
        )

    from openai import APIConnectionError, APIStatusError, AsyncOpenAI

    where = without_credentials(model.base_url)
    key = model.api_key.get_secret_value()
    async with AsyncOpenAI(base_url=model.base_url, api_key=key or "none", max_retries=0, timeout=10.0) as client:
        try:
            names = {one.id async for one in client.models.list()}
        except APIConnectionError as error:
            raise _unreachable("model.base_url", where, start="") from error
        except APIStatusError as error:
            if error.status_code in {401, 403}:
                raise _Wrong(
                    f"{where} asks for a key, and model.api_key {'is refused' if key else 'is not set'}",
                    f"set OPENAI_API_KEY or {variable('model.api_key')}",
                ) from error
            if error.status_code == HTTPStatus.NOT_FOUND:
                return f"{where} answers, but does not list its models; {model.name} will be asked for"
            raise _Wrong(
                f"{where} answers with status {error.status_code}",
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
