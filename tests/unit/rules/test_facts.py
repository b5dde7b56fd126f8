"""Facts and preferences that single messages give, and how they are set against the known ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import pytest

from agents.rules.processor import RuleProcessor
from schemas.facts import Fact, FactCategory, Preference, PreferenceCategory
from schemas.flushes import BatchMessage, FlushBatch, PreferenceSignal, Signals
from schemas.messages import Role
from schemas.pipeline import PipelineConfig
from schemas.stages import FactCandidate, PreferenceCandidate
from tests.unit.rules import cases_en, cases_facts, cases_zh
from tests.unit.rules.conftest import batch, message

NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)
PROCESSOR = RuleProcessor(PipelineConfig())

LABELLED = [*cases_facts.CHINESE.items(), *cases_facts.ENGLISH.items()]
EXAMPLE = "我在杭州工作，老板姓张，平时喜欢简短的回复"


def known_fact(text: str, fact_id: str = "known", category: FactCategory = "other") -> Fact:
    return Fact(
        fact_id=fact_id, text=text, category=category, confidence=0.9, importance=0.9, source_session=None,
        first_seen=NOW, last_confirmed=NOW, times_mentioned=1, evidence=("m0",), recorded_at=NOW, version=1,
    )  # fmt: skip


def known_preference(text: str, preference_id: str = "known", category: PreferenceCategory = "other") -> Preference:
    return Preference(
        preference_id=preference_id, text=text, category=category, strength=0.8, quotes=(), first_seen=NOW,
        last_confirmed=NOW, times_observed=1, evidence=("m0",), recorded_at=NOW, version=1,
    )  # fmt: skip


def facts(flush: FlushBatch | str, *known: Fact) -> tuple[FactCandidate, ...]:
    flush = batch([message(flush)]) if isinstance(flush, str) else flush
    return asyncio.run(PROCESSOR.extract_facts(flush, known)).facts


def preferences(flush: FlushBatch | str, *known: Preference) -> tuple[PreferenceCandidate, ...]:
    flush = batch([message(flush)]) if isinstance(flush, str) else flush
    return asyncio.run(PROCESSOR.extract_preferences(flush, known)).preferences


def texts(candidates: Sequence[FactCandidate] | Sequence[PreferenceCandidate]) -> list[str]:
    return [candidate.text for candidate in candidates]


@pytest.mark.parametrize(("content", "expected"), LABELLED, ids=[content for content, _ in LABELLED])
def test_a_message_gives_what_it_says(content: str, expected: list[str]) -> None:
    found = [f"{fact.category}: {fact.text}" for fact in facts(content)]
    found += [f"{wish.category} {wish.strength:g}: {wish.text}" for wish in preferences(content)]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("content", [*cases_zh.NOTHING, *cases_en.NOTHING])
def test_nothing_is_taken_from(content: str) -> None:
    assert texts(facts(content)) + texts(preferences(content)) == []


@pytest.mark.parametrize("content", [*cases_zh.STATEMENTS, *cases_en.STATEMENTS])
def test_what_fills_a_slot_is_told_too(content: str) -> None:
    assert texts(facts(content)) + texts(preferences(content))


class TestFacts:
    def test_a_plain_statement_cites_its_message(self) -> None:
        assert facts(EXAMPLE)[0] == FactCandidate(
            text="用户在杭州工作", category="location", confidence=0.9, evidence=("m1",)
        )

    @pytest.mark.parametrize("content", ["没有过敏", "我可能对花生过敏", "Maybe I'm allergic to peanuts."])
    def test_what_is_hedged_or_lacks_a_subject_is_less_sure(self, content: str) -> None:
        assert [fact.confidence for fact in facts(content)] == [0.7]

    @pytest.mark.parametrize("role", ["assistant", "system", "tool"])
    def test_only_the_user_is_read(self, role: Role) -> None:
        flush = batch([message(EXAMPLE, role=role)])
        assert texts(facts(flush)) + texts(preferences(flush)) == []

    def test_context_is_not_read(self) -> None:
        flush = batch([message("好的")], context=[message(EXAMPLE, message_id="m0")])
        assert texts(facts(flush)) + texts(preferences(flush)) == []

    def test_a_message_of_both_languages_tells_each_in_its_own(self) -> None:
        assert texts(facts("我住在Berlin。I have a cat.")) == ["用户住在Berlin", "User has a cat"]

    def test_the_same_fact_in_two_messages_cites_both(self) -> None:
        flush = batch([message("我有一只猫", message_id="a"), message("我养了一只猫", message_id="b")])
        assert [(fact.text, fact.evidence) for fact in facts(flush)] == [("用户有一只猫", ("a", "b"))]

    def test_the_last_of_two_places_stands(self) -> None:
        assert texts(facts("I live in Hamburg. I moved to Bremen yesterday.")) == ["User lives in Bremen"]

    @pytest.mark.parametrize("preferences", [(), ("explicit",)])
    def test_tastes_are_never_facts(self, preferences: tuple[PreferenceSignal, ...]) -> None:
        flush = batch([message("我在杭州工作，爱爬山，不吃香菜，最喜欢的季节是春天")])
        signals = Signals(facts=("location",), preferences=preferences)
        assert texts(facts(msgspec.structs.replace(flush, signals=signals))) == ["用户在杭州工作"]

    def test_a_repeated_fact_takes_the_known_text(self) -> None:
        known = known_fact("用户目前住在杭州。", category="location")
        (fact,) = facts("我住在杭州", known)
        assert (fact.text, fact.repeats, fact.conflicts_with) == (known.text, "known", None)

    @pytest.mark.parametrize(
        ("known", "content"),
        [
            ("用户住在北京", "我搬到了上海"),
            ("用户的老板姓张", "我老板姓李"),
            ("用户32岁", "我今年33岁"),
            ("用户有一只叫团子的猫", "我不养猫了"),
            ("User lives in Berlin", "I moved to Oslo."),
            ("User lives in Berlin", "I no longer live in Berlin."),
            ("User has a dog", "I no longer have a dog."),
            ("User works at Siemens", "I work at Bosch now."),
            ("User works at Siemens", "I left Siemens."),
            ("User works at Siemens", "I'm retired."),
            ("User lives in Berlin", "I left Berlin last year."),
            ("User is allergic to cats", "I'm not allergic to cats."),
            ("用户对花生过敏", "我对花生不过敏"),
            ("User is single", "My girlfriend is called Eve."),
            ("用户的学校是四川大学", "我考上了复旦大学"),
        ],
    )
    def test_a_contradicted_fact_is_named(self, known: str, content: str) -> None:
        unrelated = known_fact("用户有一个妹妹", "other")
        (fact,) = facts(content, unrelated, known_fact(known))
        assert (fact.conflicts_with, fact.repeats) == ("known", None)

    @pytest.mark.parametrize("content", ["I left Siemens.", "I'm not allergic to cats.", "我对花生不过敏"])
    def test_what_only_means_something_where_it_is_known_is_no_fact(self, content: str) -> None:
        assert facts(content, known_fact("User works at Bosch"), known_fact("User is allergic to dogs", "2")) == ()

    def test_what_is_left_is_not_told_where_the_new_is_said(self) -> None:
        (fact,) = facts("I left Berlin and live in Vienna now.", known_fact("User lives in Berlin"))
        assert (fact.text, fact.conflicts_with) == ("User lives in Vienna", "known")

    def test_what_is_taken_back_without_being_known_is_still_a_fact(self) -> None:
        (fact,) = facts("我不养猫了", known_fact("用户有一条狗"))
        assert (fact.text, fact.category, fact.conflicts_with) == ("用户不再养猫", "relationship", None)


class TestPreferences:
    def test_the_sentence_is_quoted(self) -> None:
        (wish,) = preferences("你好啊！以后回答简短点。谢谢。")
        assert wish == PreferenceCandidate(
            text="偏好简短的回复风格",
            category="communication_style",
            strength=0.8,
            quote="以后回答简短点。",
            evidence=("m1",),
        )

    def test_a_long_sentence_is_quoted_in_part(self) -> None:
        (wish,) = preferences(
            "I like jazz" + " and it has always been a comfort to me in the long winters here" * 3 + "."
        )
        assert len(wish.quote) == 100

    @pytest.mark.parametrize(
        ("known", "content"),
        [
            ("偏好详细的回复风格", "简短点"),
            ("Prefers short replies", "I prefer detailed answers."),
            ("偏好用英语交流", "以后用中文回答"),
            ("Prefers answers in English", "Please answer in French."),
            ("喜欢茶", "我不喜欢喝茶"),
            ("Dislikes olives", "I like olives."),
            ("偏好早上写代码", "我喜欢晚上写代码"),
            ("偏好列表格式", "不要用列表"),
            ("Likes talking about politics", "I don't want to talk about politics."),
            ("Likes tea", "I no longer like tea."),
            ("No longer likes tea", "I like tea again."),
            ("喜欢喝茶", "我不再喜欢喝茶了"),
            ("不喜欢加班", "我现在喜欢加班了"),
            ("不吃香菜", "我现在喜欢香菜了"),
            ("喜欢吃辣", "我现在不吃辣了"),
            ("不吃辣", "我现在能吃辣了"),
            ("Eats no pork", "I love pork now."),
            ("Favorite food is sushi", "I hate sushi."),
            ("最喜欢的食物是寿司", "我讨厌寿司"),
            ("Prefers tea to coffee", "I prefer coffee to tea."),
            ("Prefers replies without emojis", "Please use emojis."),
        ],
    )
    def test_the_opposite_of_a_known_one_is_named(self, known: str, content: str) -> None:
        (wish,) = preferences(content, known_preference("Prefers charts", "other"), known_preference(known))
        assert wish.opposes == "known"

    def test_the_same_again_opposes_nothing(self) -> None:
        (wish,) = preferences("简短点", known_preference("偏好简短的回复风格"))
        assert wish.opposes is None

    @pytest.mark.parametrize(
        ("content", "text"),
        [
            ("我经常熬夜", "经常熬夜"),
            ("I don't smoke.", "Does not smoke"),
            ("I go running every morning.", "Goes running every morning"),
        ],
    )
    def test_habits_are_preferences_only_where_facts_are_not_read(self, content: str, text: str) -> None:
        flush = batch([message(content)])
        read_once = FlushBatch(ref=flush.ref, messages=flush.messages, signals=Signals(preferences=("frequency",)))
        read_twice = FlushBatch(
            ref=flush.ref, messages=flush.messages, signals=Signals(facts=("state",), preferences=("frequency",))
        )
        assert texts(preferences(read_once)) == [text]
        assert texts(preferences(read_twice)) == []

    def test_of_opposites_in_one_message_the_later_stands(self) -> None:
        assert texts(preferences("简短点。不对，详细点。")) == ["偏好详细的回复风格"]

    def test_the_same_wish_twice_keeps_the_stronger_and_cites_both(self) -> None:
        flush = batch([message("以后都简短点", message_id="a"), message("简短点", message_id="b")])
        (wish,) = preferences(flush)
        assert (wish.strength, wish.evidence) == (0.8, ("a", "b"))


def test_a_long_message_is_read_like_a_short_one() -> None:
    content = "Nothing much happened. " * 1_000 + "I have a cat. Keep it short."
    assert texts(facts(content)) + texts(preferences(content)) == ["User has a cat", "Prefers short replies"]


@pytest.mark.parametrize(
    "content",
    ["", "我" * 5_000, "I like " * 800, "我喜欢、" * 800, "别" * 3_000, "please " * 1_000, "以后" * 2_000, "\ud83d"],
    ids=range(8),
)
def test_odd_text_is_survived_quickly(content: str) -> None:
    async def run() -> None:
        async with asyncio.timeout(5):
            await PROCESSOR.extract_facts(batch([message(content)]), ())
            await PROCESSOR.extract_preferences(batch([message(content)]), ())

    asyncio.run(run())


def test_messages_are_told_the_same_every_time() -> None:
    messages: list[BatchMessage] = [
        message(content, message_id=str(number)) for number, (content, _) in enumerate(LABELLED)
    ]
    other = RuleProcessor(PipelineConfig(language="zh"))
    assert facts(batch(messages)) == asyncio.run(other.extract_facts(batch(messages), ())).facts
    assert preferences(batch(messages)) == asyncio.run(other.extract_preferences(batch(messages), ())).preferences
