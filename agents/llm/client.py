"""`ModelClient`: one call of a stage to an OpenAI-compatible server, with everything that can go wrong settled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Generic, TypeVar

import aiohttp
import msgspec

from agents.llm.answers import Answer, UnreadableAnswer, read_answer
from agents.llm.formats import AnswerFormat
from agents.llm.server import CompletionServer, Refused
from agents.processor import StageFailed, StageUnavailable
from schemas.stages import ModelCall
from streams.backoff import Backoff
from streams.errors import DependencyDown
from streams.settings import ModelSettings, without_credentials

T = TypeVar("T", bound=msgspec.Struct)

_MISCONFIGURED: Final = {
    401: "the model server does not accept the API key: check OPENAI_API_KEY or the setting model.api_key",
    403: "the API key may not use this model: check the setting model.name and the key's rights",
    404: "the model server does not know the model or the path: check the settings model.name and model.base_url",
    **dict.fromkeys(
        (301, 302, 303, 307, 308), "the model server redirects, which is not followed: check the setting model.base_url"
    ),
}
"""Answers that no record is to blame for: every record waits until somebody has mended the settings."""

_AWAY: Final = frozenset({"model_unreachable", "model_overloaded"})
"""Troubles of the server and not of a request: every record waits, however long it takes."""

_NOT_CONNECTED: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""What the HTTP client raises when no connection came about."""

_RETRIED: Final = frozenset((408, 409, 425, 429))
_PATIENCE: Final = 300.0
_DETAIL_LIMIT: Final = 200


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is asked.

    Attributes:
        system: the static part: the same for every call of the stage, so that servers can cache it.
        user: the payload.
        reminder: what is added when an answer could not be read.
        version: content hash of the templates.
    """

    system: str
    user: str
    reminder: str
    version: str


class Completed(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """An answer that could be read, and the calls it took."""

    answer: Answer[T]
    calls: tuple[ModelCall, ...]


class _Message(msgspec.Struct, frozen=True):
    content: str | None = None
    refusal: str | None = None


class _Choice(msgspec.Struct, frozen=True):
    message: _Message
    finish_reason: str | None = None


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Completion(msgspec.Struct, frozen=True):
    choices: tuple[_Choice, ...] = ()
    usage: _Usage | None = None


class _Trouble(msgspec.Struct, frozen=True):
    """Why a request gave no completion, though a later one may."""

    reason: str
    detail: str
    retry_after: float | None = None


class _Unusable(Exception):
    """A completion that holds no answer: outcome for counting, sentence for people, whether more room may help."""

    def __init__(self, outcome: str, detail: str, *, wants_room: bool = False) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = detail
        self.wants_room = wants_room


class ModelClient:
    """Calls one OpenAI-compatible server; shared by all stages, safe to use from many tasks of one loop.

    Args:
        settings: server, limits and timeouts.
        backoff: waits between the requests of a call.
        patience: the longest wait that the server may ask for, in seconds; one that asks for more is asked sooner.

    Attributes:
        answers: completions received so far.

    Raises:
        ValueError: when the key cannot be sent in a header.
    """

    def __init__(self, settings: ModelSettings, *, backoff: Backoff | None = None, patience: float = _PATIENCE) -> None:
        self._settings = settings
        self._backoff = backoff or Backoff()
        self._patience = patience
        self.answers = 0
        self._key = settings.api_key.get_secret_value().strip()
        if not (self._key.isascii() and self._key.isprintable()):
            raise ValueError("the API key has characters that a key cannot have: check OPENAI_API_KEY")
        self._server = CompletionServer(settings.base_url, self._key)
        self._in_flight = asyncio.Semaphore(settings.max_in_flight)
        self._in_flight_by_model: dict[str, asyncio.Semaphore] = {}
        self._unsupported: set[str] = set()
        if settings.structured_output == "none":
            self._unsupported.add("response_format")

    async def complete(
        self,
        prompt: Prompt,
        answer_format: AnswerFormat[T],
        *,
        model: str,
        temperature: float,
        max_tokens: int,
    ) -> Completed[T]:
        """Ask the model, and once more when it gave no readable answer.

        An empty answer and one that was cut off are asked again with twice the room, an unreadable one with a
        reminder of the form.

        Raises:
            StageUnavailable: the server answers late, with an error or with rubbish, after the last of the attempts.
            DependencyDown: it cannot be reached, is overloaded, or does not accept the settings.
            StageFailed: the server refuses the request (``model_rejected``), or the second answer is as useless as
                the first (``empty_answer``, ``answer_cut_off``, ``model_refused``, ``unreadable_answer``).
        """
        calls: list[ModelCall] = []
        request: dict[str, Any] = {
            "model": model,
            "messages": _messages(prompt),
            "temperature": temperature,
            "max_completion_tokens": max_tokens,
            "response_format": {
                "type": "json_schema",
                "json_schema": {
                    "name": answer_format.stage,
                    "strict": True,
                    "schema": answer_format.json_schema(),
                },
            },
        }
        while True:
            record = _Recorder(answer_format, model, prompt.version)
            completion = await self._request(request, record, calls)
            try:
                content = _content(completion)
                answer = await _read(content, answer_format)
            except _Unusable as problem:
                calls.append(record.call(problem.outcome, completion))
                if len(calls) > 1:
                    raise StageFailed(problem.outcome, problem.detail, calls) from problem
                if problem.wants_room:
                    request["max_completion_tokens"] = 2 * max_tokens
                elif problem.outcome == "unreadable_answer":
                    request["messages"] = _messages(prompt, prompt.reminder)
                continue
            calls.append(record.call("ok", completion))
            return Completed(answer=answer, calls=tuple(calls))

    async def close(self) -> None:
        """Close the connections."""
        await self._server.close()

    async def _request(self, request: Mapping[str, Any], record: _Recorder, calls: list[ModelCall]) -> _Completion:
        """Send a request until it is answered; waits are outside the limit of requests in flight."""
        while True:
            record.attempts += 1
            left_out = frozenset(self._unsupported)
            try:
                # The model's own limit first: who waits for it must not keep others from other models.
                async with self._limit_of(request["model"]), self._in_flight:
                    return await self._send(request, left_out)
            except Refused as error:
                trouble = self._status_trouble(error)
                if trouble is None:
                    if self._adapts_to(error, left_out):
                        continue
                    if error.status in _MISCONFIGURED:
                        raise DependencyDown(self._rejection(error)) from None
                    calls.append(record.call("model_rejected"))
                    raise StageFailed("model_rejected", self._rejection(error), calls) from None
            except (TimeoutError, OSError, aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
                trouble = self._connection_trouble(error)
            except (aiohttp.ClientError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                trouble = _Trouble("bad_response", self._clean(f"the model server's answer is no completion: {error}"))
            if record.attempts >= self._settings.attempts:
                if trouble.reason in _AWAY:
                    raise DependencyDown(f"{trouble.reason}: {trouble.detail}", trouble.retry_after) from None
                calls.append(record.call(trouble.reason))
                raise StageUnavailable(trouble.reason, trouble.detail, calls, trouble.retry_after) from None
            asked = min(trouble.retry_after or 0.0, self._patience)
            await asyncio.sleep(max(self._backoff.delay(record.attempts), asked))

    def _limit_of(self, model: str) -> AbstractAsyncContextManager[object]:
        if not self._settings.max_in_flight_per_model:
            return nullcontext()
        limit = asyncio.Semaphore(self._settings.max_in_flight_per_model)
        return self._in_flight_by_model.setdefault(model, limit)

    async def _send(self, request: Mapping[str, Any], left_out: frozenset[str]) -> _Completion:
        body = {name: value for name, value in request.items() if name not in left_out}
        if "max_completion_tokens" in left_out:
            body["max_tokens"] = request["max_completion_tokens"]
        async with asyncio.timeout(self._settings.timeout):  # of the whole: a server that trickles must end as well
            response = await self._server.post(body)
        completion = msgspec.json.decode(response, type=_Completion)
        self.answers += 1
        return completion

    def _adapts_to(self, error: Refused, left_out: frozenset[str]) -> bool:
        """Whether the server refused an optional parameter that this request had and the next ones leave out."""
        if error.status not in {400, 422}:
            return False
        said = f"{error.parameter} {error.message}".lower()
        for parameter, hints in _OPTIONAL.items():
            if parameter in left_out or not any(hint in said for hint in hints):
                continue
            if parameter == "response_format" and self._settings.structured_output == "schema":
                continue
            self._unsupported.add(parameter)
            return True
        return False

    def _connection_trouble(self, error: Exception) -> _Trouble:
        if isinstance(error, _NOT_CONNECTED):
            reason = "model_unreachable"
        elif isinstance(error, TimeoutError):
            return _Trouble("model_timeout", f"no answer within {self._settings.timeout:g} seconds")
        else:
            reason = "connection_lost"
        where = without_credentials(self._settings.base_url)
        return _Trouble(reason, self._clean(f"{where}: {str(error) or type(error).__name__}"))

    def _status_trouble(self, error: Refused) -> _Trouble | None:
        """Return what a retry may mend, or None when the request as such is refused."""
        status = error.status
        if status not in _RETRIED and status < 500:
            return None
        reason = "model_overloaded" if status in {429, 503} else "model_unavailable"
        detail = self._clean(f"the model server answers {status}: {error.message}")
        return _Trouble(reason, detail, retry_after(error.headers))

    def _rejection(self, error: Refused) -> str:
        sentence = _MISCONFIGURED.get(error.status, "the model server refuses the request")
        return self._clean(f"{sentence} ({error.status}: {error.message})", limit=2 * _DETAIL_LIMIT)

    def _clean(self, detail: str, limit: int = _DETAIL_LIMIT) -> str:
        """Return one short line without the key, which servers like to quote."""
        if self._key:
            detail = detail.replace(self._key, "***")
        return " ".join(detail.split())[:limit]


_OPTIONAL: Final[dict[str, tuple[str, ...]]] = {
    "response_format": ("response_format", "json_schema", "json schema", "structured output", "grammar"),
    "max_completion_tokens": ("max_completion_tokens",),
    "temperature": ("temperature",),
}
"""Parameters that not every server takes, and what its refusal then speaks of."""


class _Recorder:
    """Counts and times the requests of one call."""

    def __init__(self, answer_format: AnswerFormat[Any], model: str, version: str) -> None:
        self._stage = answer_format.stage
        self._model = model
        self._version = version
        self._started = time.monotonic()
        self.attempts = 0

    def call(self, outcome: str, completion: _Completion | None = None) -> ModelCall:
        usage = (completion.usage if completion else None) or _Usage()
        return ModelCall(
            stage=self._stage,
            model=self._model,
            outcome=outcome,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            attempts=self.attempts,
            duration_ms=round((time.monotonic() - self._started) * 1000, 3),
            prompt_version=self._version,
        )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks to wait: a number, or an HTTP date."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, OverflowError):
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - datetime.now(UTC)).total_seconds()
    return max(0.0, seconds) if seconds < float("inf") else None


def _messages(prompt: Prompt, reminder: str = "") -> list[dict[str, str]]:
    # One turn each: many chat templates refuse two turns of the same role in a row.
    user = f"{prompt.user}\n\n{reminder}" if reminder else prompt.user
    return [{"role": "system", "content": prompt.system}, {"role": "user", "content": user}]


def _content(completion: _Completion) -> str:
    if not completion.choices:
        raise _Unusable("empty_answer", "the model gave no answer", wants_room=True)
    choice = completion.choices[0]
    if choice.message.refusal or choice.finish_reason == "content_filter":
        raise _Unusable("model_refused", "the model refused to answer")
    if choice.finish_reason == "length":
        raise _Unusable("answer_cut_off", "the answer was cut off by the token limit", wants_room=True)
    if not choice.message.content or not choice.message.content.strip():
        raise _Unusable("empty_answer", "the model gave an empty answer", wants_room=True)
    return choice.message.content


async def _read(content: str, answer_format: AnswerFormat[T]) -> Answer[T]:
    try:
        return await read_answer(content, answer_format)
    except UnreadableAnswer as error:
        raise _Unusable("unreadable_answer", f"the model's answer cannot be read: {error}") from error
