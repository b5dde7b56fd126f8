"""`ModelClient` against a scripted server: every way in which a server can fail to answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import openai
import pytest

from agents.llm.client import Completed, ModelClient, Prompt, retry_after
from agents.llm.formats import BULLETS, BulletItem
from agents.processor import StageFailed, StageUnavailable
from benchmarks.model_server import ModelServer, Reply
from streams.backoff import Backoff
from streams.errors import DependencyDown
from streams.settings import ModelSettings

KEY = "sk-very-secret-key"
GOOD = {"bullets": [{"text": "likes tea", "messages": [1]}]}
PROMPT = Prompt(system="static", user="payload", reminder="JSON only", version="v1")
FAST = Backoff(first=0.001, limit=0.01)


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


def client(server: ModelServer, backoff: Backoff = FAST, patience: float = 30.0, **settings) -> ModelClient:
    values = {"api_key": KEY, "base_url": server.url, "name": "big", "attempts": 3, "timeout": 5.0, **settings}
    return ModelClient(ModelSettings(**values), backoff=backoff, patience=patience)


async def complete(model: ModelClient) -> Completed[BulletItem]:
    try:
        return await model.complete(PROMPT, BULLETS, model="big", temperature=0.2, max_tokens=100)
    finally:
        await model.close()


async def test_the_request_is_what_a_server_expects(server: ModelServer) -> None:
    server.say(GOOD)
    done = await complete(client(server))
    assert [item.text for item in done.answer.items] == ["likes tea"]
    (call,) = done.calls
    assert (call.stage, call.model, call.outcome, call.attempts) == ("summary", "big", "ok", 1)
    assert (call.prompt_tokens, call.completion_tokens, call.prompt_version) == (100, 10, "v1")
    assert call.duration_ms > 0
    (request,) = server.requests
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.body["messages"] == [
        {"role": "system", "content": "static"},
        {"role": "user", "content": "payload"},
    ]
    assert (request.model, request.body["temperature"], request.body["max_completion_tokens"]) == ("big", 0.2, 100)
    assert request.body["response_format"]["type"] == "json_schema"
    assert request.body["response_format"]["json_schema"]["strict"] is True


async def test_the_request_is_the_one_that_the_sdk_sends(server: ModelServer, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    server.say(GOOD, GOOD)
    await complete(client(server))
    async with openai.AsyncOpenAI(api_key=KEY, base_url=server.url, max_retries=0) as sdk:
        await sdk.chat.completions.create(**server.requests[0].body)
    ours, theirs = server.requests
    assert ours.body == theirs.body
    of_one_request = {"content-length", "accept-encoding", "connection", "x-stainless-retry-count"}
    expected = {name.lower(): value for name, value in theirs.headers.items()}
    expected = {name: value for name, value in expected.items() if name not in of_one_request}
    expected.pop("x-stainless-read-timeout", None)
    assert {name.lower(): value for name, value in ours.headers.items()}.items() >= expected.items()
    assert expected["openai-organization"] == "org-1"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_what_users_say_is_sent_nowhere_else(server: ModelServer, status: int) -> None:
    async with ModelServer() as elsewhere:
        server.say(Reply(status=status, headers={"Location": f"{elsewhere.url}/chat/completions"}))
        with pytest.raises(DependencyDown, match=r"redirects, which is not followed.*model\.base_url") as caught:
            await complete(client(server))
        assert elsewhere.url in str(caught.value)
        assert elsewhere.requests == []


async def test_the_environments_proxy_is_asked(server: ModelServer, monkeypatch) -> None:
    server.say(GOOD)
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
    monkeypatch.setenv("no_proxy", "localhost")
    elsewhere = client(server, base_url="http://model.invalid/v1")
    assert (await complete(elsewhere)).answer.items
    assert server.requests[0].headers["Host"] == "model.invalid"
    monkeypatch.setenv("no_proxy", "model.invalid")
    with pytest.raises(DependencyDown, match="model_unreachable"):
        await complete(client(server, base_url="http://model.invalid/v1"))


async def test_many_requests_are_in_flight_at_once(server: ModelServer) -> None:
    together = 150  # more than the connections that aiohttp opens by itself
    waiting = asyncio.Barrier(together)

    async def answer(_: object) -> Reply:
        await asyncio.wait_for(waiting.wait(), 20)
        return Reply(content=GOOD)

    server.script = answer
    model = client(server, max_in_flight=together, timeout=30.0)
    asked = [model.complete(PROMPT, BULLETS, model="big", temperature=0.2, max_tokens=100) for _ in range(together)]
    try:
        assert len(await asyncio.gather(*asked)) == together
    finally:
        await model.close()


async def test_servers_without_token_counts_are_fine(server: ModelServer) -> None:
    server.say(Reply(content=GOOD, usage=False))
    assert (await complete(client(server))).calls[0].prompt_tokens == 0


async def test_a_server_without_keys_needs_none(server: ModelServer) -> None:
    server.say(GOOD)
    assert (await complete(client(server, api_key=""))).answer.items


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_passing_troubles_are_tried_again(server: ModelServer, status: int) -> None:
    server.say(Reply(status=status), Reply(status=status), GOOD)
    done = await complete(client(server))
    assert [(call.outcome, call.attempts) for call in done.calls] == [("ok", 3)]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        pytest.param(Reply(status=500), "model_unavailable", id="500"),
        pytest.param(Reply(status=502), "model_unavailable", id="502"),
        pytest.param(Reply(drop=True), "connection_lost", id="dropped"),
        pytest.param(Reply(body=b"<html>oops</html>"), "bad_response", id="not JSON"),
        pytest.param(Reply(body=b'{"choices": "none"}'), "bad_response", id="not a completion"),
        pytest.param(Reply(body=b'{"choices": [{"mess'), "bad_response", id="cut body"),
        pytest.param(Reply(body=b"\xff\xfe\x00"), "bad_response", id="not text"),
        pytest.param(Reply(body=b"null"), "bad_response", id="null"),
        pytest.param(Reply(body=b"junk", headers={"Content-Encoding": "gzip"}), "connection_lost", id="bad gzip"),
    ],
)
async def test_lasting_troubles_are_unavailability(server: ModelServer, fault: Reply, reason: str) -> None:
    server.say(fault, fault, fault, GOOD)
    with pytest.raises(StageUnavailable) as caught:
        await complete(client(server))
    assert caught.value.reason == reason
    assert [(call.outcome, call.attempts) for call in caught.value.calls] == [(reason, 3)]
    assert len(server.requests) == 3


async def test_a_refused_connection_is_no_records_fault_and_is_waited_out(server: ModelServer) -> None:
    model = client(server)
    await server.close()
    with pytest.raises(DependencyDown, match="model_unreachable") as caught:
        await complete(model)
    assert server.url in str(caught.value)


@pytest.mark.parametrize("status", [429, 503])
async def test_an_overloaded_server_is_waited_for(server: ModelServer, status: int) -> None:
    fault = Reply(status=status)
    server.say(fault, fault, fault, GOOD)
    with pytest.raises(DependencyDown, match=f"model_overloaded: .*{status}"):
        await complete(client(server))
    assert len(server.requests) == 3


async def test_a_silent_server_times_out(server: ModelServer) -> None:
    never = asyncio.Event()
    server.script = lambda _: Reply(release=never)
    with pytest.raises(StageUnavailable) as caught:
        await complete(client(server, timeout=0.1, attempts=2))
    never.set()
    assert caught.value.reason == "model_timeout"
    assert caught.value.calls[0].attempts == 2


async def test_a_trickling_server_times_out_too(server: ModelServer) -> None:
    server.script = lambda _: Reply(content=GOOD, trickle=0.02)
    with pytest.raises(StageUnavailable) as caught:
        await complete(client(server, timeout=0.3, attempts=1))
    assert caught.value.reason == "model_timeout"


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_retry_after_is_waited_for_however_short_the_own_waits_are(server: ModelServer, status: int) -> None:
    server.say(Reply(status=status, headers={"Retry-After": "0.2"}), GOOD)
    done = await complete(client(server, Backoff(first=0.001, limit=0.001)))
    assert done.calls[0].duration_ms >= 200


async def test_retry_after_is_capped_and_handed_on(server: ModelServer) -> None:
    server.script = lambda _: Reply(status=503, headers={"Retry-After": "3600"})
    async with asyncio.timeout(5):
        with pytest.raises(DependencyDown) as caught:
            await complete(client(server, patience=0.1))
    assert caught.value.retry_after == 3600


def test_retry_after_reads_numbers_and_dates() -> None:
    assert retry_after({"retry-after": " 1.5 "}) == 1.5
    assert retry_after({"retry-after": "-3"}) == 0
    in_a_minute = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert retry_after({"retry-after": in_a_minute}) == pytest.approx(60, abs=2)
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    for unusable in ("", "soon", "inf", "nan"):
        assert not retry_after({"retry-after": unusable})
    assert retry_after({}) is None


@pytest.mark.parametrize(("status", "hint"), [(400, "refuses"), (413, "refuses"), (422, "refuses")])
async def test_rejections_fail_at_once_with_a_clear_sentence(server: ModelServer, status: int, hint: str) -> None:
    server.say(Reply(status=status, error=f"no entry for {KEY}"), GOOD)
    with pytest.raises(StageFailed) as caught:
        await complete(client(server))
    assert caught.value.reason == "model_rejected"
    assert hint in caught.value.detail
    assert str(status) in caught.value.detail
    assert KEY not in str(caught.value)
    assert [call.outcome for call in caught.value.calls] == ["model_rejected"]
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("useless", "reason", "larger"),
    [
        pytest.param(Reply(content=""), "empty_answer", True, id="empty"),
        pytest.param(Reply(content=" \n"), "empty_answer", True, id="blank"),
        pytest.param(Reply(content=None), "empty_answer", True, id="null"),
        pytest.param(Reply(body=b'{"choices": []}'), "empty_answer", True, id="no choices"),
        pytest.param(Reply(content=GOOD, finish_reason="length"), "answer_cut_off", True, id="length"),
        pytest.param(Reply(content=None, refusal="I cannot"), "model_refused", False, id="refusal"),
        pytest.param(Reply(content=GOOD, finish_reason="content_filter"), "model_refused", False, id="filtered"),
        pytest.param(Reply(content="Nothing found."), "unreadable_answer", False, id="prose"),
    ],
)
async def test_useless_answers_are_asked_for_once_more(
    server: ModelServer, useless: Reply, reason: str, larger: bool
) -> None:
    server.say(useless, GOOD)
    done = await complete(client(server))
    assert [call.outcome for call in done.calls] == [reason, "ok"]
    assert [request.body["max_completion_tokens"] for request in server.requests] == [100, 200 if larger else 100]
    asked = [request.user for request in server.requests]
    assert asked == ["payload", "payload\n\nJSON only" if reason == "unreadable_answer" else "payload"]

    server.say(useless, useless, GOOD)
    with pytest.raises(StageFailed) as caught:
        await complete(client(server))
    assert caught.value.reason == reason
    assert [call.outcome for call in caught.value.calls] == [reason, reason]
    assert len(server.requests) == 4


async def test_trouble_on_the_second_asking_keeps_the_first_call(server: ModelServer) -> None:
    server.say("prose", Reply(status=500))
    with pytest.raises(StageUnavailable) as caught:
        await complete(client(server, attempts=1))
    assert [call.outcome for call in caught.value.calls] == ["unreadable_answer", "model_unavailable"]


@pytest.mark.parametrize(
    ("parameter", "refusal", "instead"),
    [
        ("response_format", "This model does not support response_format json_schema", None),
        ("max_completion_tokens", "Unrecognized argument: max_completion_tokens", "max_tokens"),
        ("temperature", "'temperature' does not support 0.2 with this model", None),
    ],
)
@pytest.mark.parametrize("status", [400, 422])
async def test_parameters_that_a_server_does_not_take_are_left_out_from_then_on(
    server: ModelServer, parameter: str, refusal: str, instead: str | None, status: int
) -> None:
    def script(request):
        return Reply(status=status, error=refusal) if parameter in request.body else GOOD

    server.script = script
    model = client(server, attempts=1)
    for _ in range(2):
        assert (await model.complete(PROMPT, BULLETS, model="big", temperature=0.2, max_tokens=100)).answer.items
    await model.close()
    assert [parameter in request.body for request in server.requests] == [True, False, False]
    if instead:
        assert server.requests[-1].body[instead] == 100


async def test_requests_already_out_adapt_as_well(server: ModelServer) -> None:
    together = asyncio.Event()

    async def script(request):
        if "response_format" not in request.body:
            return GOOD
        if len(server.requests) == 4:
            together.set()
        await together.wait()
        return Reply(status=400, error="response_format is not supported")

    server.script = script
    model = client(server)
    asked = (model.complete(PROMPT, BULLETS, model="big", temperature=0, max_tokens=9) for _ in range(4))
    done = await asyncio.gather(*asked)
    await model.close()
    assert all(each.answer.items for each in done)


@pytest.mark.parametrize(("status", "hint"), [(401, "API key"), (403, "key"), (404, "model.name")])
async def test_wrong_settings_are_nobodys_fault_and_wait_for_mending(
    server: ModelServer, status: int, hint: str
) -> None:
    server.say(Reply(status=status, error=f"no entry for {KEY}"), GOOD)
    with pytest.raises(DependencyDown, match=hint) as caught:
        await complete(client(server))
    assert str(status) in str(caught.value)
    assert KEY not in str(caught.value)
    assert len(server.requests) == 1


async def test_structured_output_can_be_off_or_required(server: ModelServer) -> None:
    server.say(GOOD)
    await complete(client(server, structured_output="none"))
    assert "response_format" not in server.requests[0].body
    server.say(Reply(status=400, error="response_format is not supported"), GOOD)
    with pytest.raises(StageFailed, match="model_rejected"):
        await complete(client(server, structured_output="schema"))


async def test_the_limit_of_requests_in_flight_holds(server: ModelServer) -> None:
    gate = asyncio.Event()
    server.script = lambda _: Reply(content=GOOD, release=gate)
    model = client(server, max_in_flight=3)
    asked = [
        asyncio.create_task(model.complete(PROMPT, BULLETS, model="big", temperature=0, max_tokens=9))
        for _ in range(12)
    ]
    await server.wait_for(3)
    gate.set()
    await asyncio.gather(*asked)
    await model.close()
    assert server.peak == 3
    assert len(server.requests) == 12


async def test_each_model_has_its_own_limit_beside_the_one_over_all(server: ModelServer) -> None:
    gates = {"big": asyncio.Event(), "small": asyncio.Event()}
    server.script = lambda request: Reply(content=GOOD, release=gates[request.model])
    model = client(server, max_in_flight=3, max_in_flight_per_model=2)

    def ask(name: str, count: int) -> list[asyncio.Task[Completed[BulletItem]]]:
        return [
            asyncio.create_task(model.complete(PROMPT, BULLETS, model=name, temperature=0, max_tokens=9))
            for _ in range(count)
        ]

    big, small = ask("big", 6), ask("small", 6)
    await server.wait_for(3)
    assert sorted(request.model for request in server.requests) == ["big", "big", "small"], "the others are not kept"
    gates["small"].set()
    await asyncio.gather(*small)
    assert sum(request.model == "big" for request in server.requests) == 2
    gates["big"].set()
    await asyncio.gather(*big)
    await model.close()
    assert (server.peak, len(server.requests)) == (3, 12)


async def test_a_call_that_backs_off_makes_room_for_others(server: ModelServer) -> None:
    def script(request):
        return Reply(status=429, headers={"Retry-After": "30"}) if len(server.requests) == 1 else GOOD

    server.script = script
    model = client(server, Backoff(first=30, limit=30), max_in_flight=1)
    waiting = asyncio.create_task(model.complete(PROMPT, BULLETS, model="big", temperature=0, max_tokens=9))
    await server.wait_for(1)
    async with asyncio.timeout(5):
        done = await model.complete(PROMPT, BULLETS, model="big", temperature=0, max_tokens=9)
    assert done.answer.items
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await model.close()


async def test_a_cancelled_call_gives_its_place_back(server: ModelServer) -> None:
    gate = asyncio.Event()
    server.script = lambda _: GOOD if gate.is_set() else Reply(release=gate)
    model = client(server, max_in_flight=1)
    stuck = asyncio.create_task(model.complete(PROMPT, BULLETS, model="big", temperature=0, max_tokens=9))
    await server.wait_for(1)
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck
    gate.set()
    assert (await complete(model)).answer.items


async def test_the_key_is_in_no_log_and_no_error(server: ModelServer, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    errors = []
    for fault in (Reply(status=401, error=f"Incorrect API key provided: {KEY}"), Reply(status=500, error=KEY)):
        server.script = lambda _, fault=fault: fault
        with pytest.raises((DependencyDown, StageUnavailable)) as caught:
            await complete(client(server))
        errors.append(caught.getrepr(style="long", chain=True))
    logging.getLogger("agents.llm").debug("logging is on")
    assert caplog.records
    assert KEY not in caplog.text
    assert all(KEY not in str(error.reprcrash) for error in errors)
    model = client(server)
    assert KEY not in repr(model)
    assert KEY not in repr(vars(model)["_settings"])
    await model.close()


@pytest.mark.parametrize("key", ["schlüssel", "two\nlines"])
def test_a_key_that_cannot_be_sent_is_refused_at_once(key: str) -> None:
    with pytest.raises(ValueError, match="OPENAI_API_KEY") as caught:
        ModelClient(ModelSettings(api_key=key, name="big"))
    assert key not in str(caught.value)
