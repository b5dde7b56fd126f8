"""The domain stage: short facts, keywords or tags of the catalogue, and a failure that costs only itself."""

from __future__ import annotations

import pytest

from agents.domain import MAX_FACTS, MAX_KEYWORDS, MAX_TAGS, describe, failed_description, register, undescribed
from agents.fact_processor import FoundDomain
from agents.processor import StageFailed, StageUnavailable
from schemas.codec import encode
from schemas.flushes import BatchMessage, FlushBatch
from schemas.profiles import ProfileState
from schemas.stages import Candidates, Domain, Dropped, ModelCall, TagHit
from streams.errors import DependencyDown, RecordFailed
from tests.support.fakes import FakeRuntime, FakeTable, eventually, stream_of
from tests.support.records import KEY, flush_batch, flush_ref, signal_batch, turn

CALL = ModelCall(stage="domain", model="m", outcome="ok")
CATALOGUE = {"coffee": "Coffee", "machine_learning": "Machine Learning", "旅行": "旅行", "ai": "AI"}


class Describer:
    def __init__(self, facts: tuple[str, ...] = (), domain: tuple[str, ...] = (), **fields) -> None:
        self.found = FoundDomain(domain=Domain(facts=facts, domain=domain), **fields)
        self.batches: list[FlushBatch] = []
        self.failure: Exception | None = None

    async def describe(self, batch: FlushBatch) -> FoundDomain:
        self.batches.append(batch)
        if self.failure:
            raise self.failure
        return self.found


def batch(*messages: BatchMessage) -> FlushBatch:
    return FlushBatch(ref=flush_ref(0, max(len(messages) - 1, 0)), messages=messages)


def conversation(*texts: str) -> FlushBatch:
    return batch(*(turn("user", text, offset) for offset, text in enumerate(texts)))


async def keywords(*given: str, catalogue=None, talk: FlushBatch | None = None) -> Candidates:
    return await describe(talk or flush_batch(), Describer(domain=given), catalogue)


async def facts(*given: str) -> Candidates:
    return await describe(flush_batch(), Describer(facts=given), None)


def reasons(found: Candidates) -> list[tuple[str, str]]:
    assert {drop.stage for drop in found.dropped} <= {"domain"}
    return [(drop.reason, drop.detail) for drop in found.dropped]


async def test_facts_and_keywords_are_kept_in_their_order() -> None:
    earlier = Dropped(stage="domain", reason="invalid_item", detail="9")
    talk = batch(turn("user", "北京天气如何？"), turn("assistant", "北京今天晴天，温度25度。", 1))
    describer = Describer(
        ("北京今天天气晴朗", " 北京今日 温度25度 "), ("北京", " 天气 "), calls=(CALL,), dropped=(earlier,)
    )
    found = await describe(talk, describer, None)
    assert found.domain == Domain(facts=("北京今天天气晴朗", "北京今日 温度25度"), domain=("北京", "天气"))
    assert (found.flush, found.branch, found.status, found.hits) == (talk.ref, "domain", "ok", ())
    assert (found.calls, found.dropped, found.error) == ((CALL,), (earlier,), None)
    assert describer.batches == [talk]


@pytest.mark.parametrize("catalogue", [None, CATALOGUE])
async def test_nothing_found_is_empty(catalogue) -> None:
    found = await describe(flush_batch(), Describer(calls=(CALL,)), catalogue)
    assert (found.status, found.domain, found.hits, found.calls) == ("empty", Domain(), (), (CALL,))


@pytest.mark.parametrize(
    "fact",
    [
        "汉" * 29,
        " ".join(["word"] * 29),
        "User likes hiking in the mountains of Norway 🏔",
        "User lives in 杭州 with his wife and two cats",
    ],
)
async def test_a_fact_stays_below_thirty_words_or_chinese_characters(fact: str) -> None:
    assert (await facts(fact)).domain == Domain(facts=(fact,))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("汉" * 30, "fact_too_long"),
        (" ".join(["word"] * 30), "fact_too_long"),
        ("x" * 301, "fact_too_long"),
        (" \n", "empty_value"),
        ("。…", "empty_value"),
        ("👍", "empty_value"),
    ],
)
async def test_what_is_no_fact_is_counted(given: str, reason: str) -> None:
    found = await facts(given)
    assert (found.status, found.domain) == ("empty", Domain())
    assert reasons(found) == [(reason, " ".join(given.split())[:200])]


async def test_facts_are_given_once_and_not_without_end() -> None:
    given = [f"Fact number {number}" for number in range(MAX_FACTS + 1)]
    found = await facts(given[0], given[0].upper() + ".", *given[1:])
    assert found.domain is not None
    assert found.domain.facts == tuple(given[:MAX_FACTS])
    assert reasons(found) == [("repeated_in_flush", "FACT NUMBER 0."), ("too_many_facts", given[-1])]


@pytest.mark.parametrize("keyword", ["北京", "一二三四五六七八九十", "New York City", "iPhone 15", "C++", "2026年"])
async def test_a_keyword_has_at_most_three_words_or_ten_chinese_characters(keyword: str) -> None:
    assert (await keywords(keyword)).domain == Domain(domain=(keyword,))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("一二三四五六七八九十一", "keyword_too_long"),
        ("New York City subway", "keyword_too_long"),
        (" ", "empty_value"),
        ("👍", "empty_value"),
        ("——", "empty_value"),
    ],
)
async def test_what_is_no_keyword_is_counted(given: str, reason: str) -> None:
    assert reasons(await keywords(given)) == [(reason, given.strip())]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("北京", "北京市"),
        ("北京市", "北京"),
        ("coffee", "Coffees"),
        ("machine learning", "Machine-Learning"),
        ("Go", "go."),
    ],
)
async def test_a_near_repeat_of_a_keyword_is_one(first: str, second: str) -> None:
    found = await keywords(first, second)
    assert found.domain == Domain(domain=(first,))
    assert reasons(found) == [("repeated_in_flush", second)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("红茶", "绿茶"),
        ("2024年", "2025年"),
        ("iPhone 14", "iPhone 15"),
        ("英语四级考试", "英语六级考试"),
        ("Java", "JavaScript"),
    ],
)
async def test_what_differs_in_a_number_or_a_character_is_another_keyword(first: str, second: str) -> None:
    found = await keywords(first, second)
    assert (found.domain, found.dropped) == (Domain(domain=(first, second)), ())


async def test_keywords_do_not_come_without_end() -> None:
    given = [f"{chr(0x4E00 + 7 * number)}" for number in range(MAX_KEYWORDS + 2)]
    found = await keywords(*given)
    assert found.domain == Domain(domain=tuple(given[:MAX_KEYWORDS]))
    assert reasons(found) == [("too_many_keywords", word) for word in given[MAX_KEYWORDS:]]


async def test_with_a_catalogue_its_names_are_chosen_whatever_their_case() -> None:
    talk = conversation("I drink coffee", "and read on machine learning", "coffee again")
    found = await keywords(" MACHINE  learning", "COFFEE", "Tea", "coffee", catalogue=CATALOGUE, talk=talk)
    assert found.domain == Domain(domain=("Machine Learning", "Coffee"))
    assert found.hits == (
        TagHit(name="Machine Learning", evidence=("m1",)),
        TagHit(name="Coffee", evidence=("m0", "m2")),
    )
    assert reasons(found) == [("not_in_catalogue", "Tea"), ("repeated_in_flush", "Coffee")]


async def test_at_most_five_tags_are_chosen_and_the_first_ones_count() -> None:
    names = [f"tag{number}" for number in range(MAX_TAGS + 2)]
    found = await keywords("other", *names, catalogue={name: name.title() for name in names})
    assert MAX_TAGS == 5
    assert [hit.name for hit in found.hits] == ["Tag0", "Tag1", "Tag2", "Tag3", "Tag4"]
    assert reasons(found) == [
        ("not_in_catalogue", "other"),
        ("too_many_keywords", "Tag5"),
        ("too_many_keywords", "Tag6"),
    ]


async def test_names_of_the_catalogue_may_be_longer_and_nearer_than_keywords() -> None:
    catalogue = {"tools_for_the_home_garden": "Tools for the home garden", "tools": "Tools", "tool": "Tool"}
    found = await keywords(*catalogue.values(), catalogue=catalogue)
    assert found.domain == Domain(domain=tuple(catalogue.values()))


async def test_a_tag_that_nobody_names_fits_the_conversation_as_a_whole() -> None:
    talk = batch(
        turn("user", "what he said"), turn("assistant", "AI, I said", 1), turn("user", "", 2), turn("user", "?", 3)
    )
    found = await keywords("AI", catalogue=CATALOGUE, talk=talk)
    assert found.hits == (TagHit(name="AI", evidence=("m0", "m3")),), (
        "'said' does not name it, nor is 'AI, I said' theirs"
    )


async def test_without_a_message_of_the_user_no_tag_is_counted() -> None:
    talk = batch(turn("assistant", "coffee?"), turn("user", "", 1))
    found = await keywords("coffee", catalogue=CATALOGUE, talk=talk)
    assert (found.domain, found.hits) == (Domain(domain=("Coffee",)), ())
    assert reasons(found) == [("no_evidence", "Coffee")]


@pytest.mark.parametrize(
    ("failure", "calls"),
    [
        (StageUnavailable("busy", "429", calls=[CALL]), (CALL,)),
        (StageUnavailable("busy", "429"), ()),
        (DependencyDown("busy: 429"), ()),
    ],
)
async def test_a_call_that_fails_gives_nothing_and_is_counted(failure: Exception, calls: tuple[ModelCall, ...]) -> None:
    describer = Describer(("x",), ("y",))
    describer.failure = failure
    found = await describe(flush_batch(), describer, CATALOGUE)
    assert (found.branch, found.status, found.domain, found.hits) == ("domain", "failed", Domain(), ())
    assert (found.error, found.calls) == ("busy: 429", calls)
    assert found.dropped == (Dropped(stage="domain", reason="call_failed", detail="busy: 429"),)


async def test_an_answer_of_the_wrong_shape_is_an_error() -> None:
    describer = Describer()
    describer.failure = StageFailed("no_json", "prose", calls=[CALL])
    with pytest.raises(StageFailed, match="prose"):
        await describe(flush_batch(), describer, None)


def test_the_answer_to_a_wrong_shape_says_why() -> None:
    found = failed_description(flush_batch(), StageFailed("no_json", "prose", calls=[CALL]))
    assert (found.flush, found.branch, found.status) == (flush_ref(), "domain", "failed")
    assert (found.error, found.calls, found.domain) == ("no_json: prose", (CALL,), Domain())
    assert failed_description(flush_batch(), RecordFailed("internal_error", "bug")).calls == ()


async def answer(processor: Describer | None, value: bytes) -> tuple[FakeRuntime, list[Candidates]]:
    """Let the domain agent read a record and return its answers."""
    runtime = FakeRuntime(attempts=1)
    register(runtime, processor, FakeTable(ProfileState), CATALOGUE, 1_000)
    topic, consume = runtime.agents["domain"]
    assert topic == "flushes"
    await consume(stream_of([runtime.source.event(2, key=KEY, value=value)]))
    await eventually(lambda: runtime.source.acked[0] == [2])
    return runtime, runtime.sender.decoded("candidates", Candidates)


async def test_the_agent_describes_flushes_of_lane_memo_by_the_catalogue() -> None:
    _, (answered,) = await answer(Describer(domain=("coffee", "tea")), encode(conversation("coffee")))
    assert [hit.name for hit in answered.hits] == ["Coffee"]
    assert (await answer(Describer(), encode(signal_batch("coffee"))))[1] == []
    runtime, answers = await answer(Describer(), b"rubbish")
    assert (answers, runtime.sender.sent) == ([], []), "the summary parks it"


async def test_the_agent_without_a_processor_answers_that_there_is_nothing() -> None:
    _, answers = await answer(None, encode(flush_batch()))
    assert answers == [undescribed(flush_batch())]


async def test_the_agent_parks_what_has_the_wrong_shape_and_answers_that_it_failed() -> None:
    describer = Describer()
    describer.failure = StageFailed("no_json", "prose", calls=[CALL])
    runtime, (answered,) = await answer(describer, encode(flush_batch()))
    assert (answered.status, answered.error, answered.calls) == ("failed", "no_json: prose", (CALL,))
    assert [record.topic for record in runtime.sender.sent] == ["dead-letters", "candidates"]


async def test_the_agent_does_not_try_again_or_park_where_a_call_failed() -> None:
    describer = Describer()
    describer.failure = StageUnavailable("busy", "429", calls=[CALL])
    runtime, (answered,) = await answer(describer, encode(flush_batch()))
    assert (answered.status, answered.calls, len(describer.batches)) == ("failed", (CALL,), 1)
    assert [record.topic for record in runtime.sender.sent] == ["candidates"]


def test_where_nobody_wants_to_know_there_is_no_description() -> None:
    assert undescribed(flush_batch()) == Candidates(flush=flush_ref(), branch="domain", status="empty")
