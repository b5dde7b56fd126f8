"""Short facts and keywords of conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from agents.rules.keywords import keywords
from agents.rules.processor import RuleProcessor
from schemas.flushes import BatchMessage
from schemas.pipeline import CatalogueTag, DomainConfig, PipelineConfig
from schemas.stages import Domain
from tests.unit.rules.conftest import batch, message

ON = PipelineConfig(domain=DomainConfig(enabled=True))


def describe(messages: Sequence[BatchMessage | str], config: PipelineConfig = ON) -> Domain:
    flush = batch([message(item) if isinstance(item, str) else item for item in messages])
    return asyncio.run(RuleProcessor(config).describe(flush)).domain


def catalogue(*names: str) -> PipelineConfig:
    return PipelineConfig(tag_catalogue=tuple(CatalogueTag(name=name) for name in names))


def test_nothing_is_described_unless_configured() -> None:
    assert describe(["我住在杭州，喜欢咖啡"], PipelineConfig()) == Domain()


class TestKeywords:
    def test_question_and_answer_give_what_they_are_about(self) -> None:
        weather = describe(["北京天气如何？", message("北京今天晴天，温度25度。", role="assistant")])
        assert weather == Domain(domain=("北京", "天气"))

    def test_the_most_mentioned_comes_first_then_the_first_mentioned(self) -> None:
        found = describe(["I went to a museum. The weather was fine.", "What a museum, and what wine!"]).domain
        assert found == ("museum", "weather", "wine")

    def test_what_the_user_likes_is_one(self) -> None:
        assert describe(["我喜欢刺绣"]).domain == ("刺绣",)
        assert describe(["I love embroidery."]).domain == ("embroidery",)

    def test_titles_and_names_are_some(self) -> None:
        assert describe(["我在看《红楼梦》，用Python写了个游戏"]).domain == ("红楼梦", "Python", "游戏")
        assert describe(["Last year we flew to New Zealand, and saw Auckland."]).domain == ("New Zealand", "Auckland")

    def test_the_users_name_is_none(self) -> None:
        assert describe(["Hi, my name is Emily Stone and I like jazz."]).domain == ("jazz",)

    def test_none_is_part_of_another(self) -> None:
        assert keywords(["跑步机 自驾 旅游 自驾游"], ["自驾游"], limit=8) == ("跑步", "自驾", "旅游")

    def test_there_are_no_more_than_asked_for(self) -> None:
        assert keywords(["电影 音乐 小说 书法 摄影"], limit=2) == ("电影", "音乐")

    @pytest.mark.parametrize("word", ["一二三四五六七八九十一", "one two three four"])
    def test_long_ones_are_left_out(self, word: str) -> None:
        assert keywords([word], [word], limit=8) == ()

    def test_tool_and_system_messages_do_not_count(self) -> None:
        assert describe([message("北京天气", role="tool"), message("上海美食", role="system")]).domain == ()


class TestCatalogue:
    def test_only_names_of_the_catalogue_are_chosen_the_most_mentioned_first(self) -> None:
        tags = catalogue("旅行", "咖啡", "滑雪")
        assert describe(["我喜欢旅行，也喝咖啡。", "咖啡很好，上海也很好。"], tags).domain == ("咖啡", "旅行")

    def test_names_are_matched_without_case_as_whole_words_however_they_are_spelled(self) -> None:
        tags = catalogue("road_trip", "Coffee", "art")
        assert describe(["A ROAD TRIP! We stopped for coffee at the start."], tags).domain == ("road_trip", "Coffee")

    def test_a_longer_name_is_not_a_mention_of_a_shorter(self) -> None:
        assert describe(["我买了咖啡机"], catalogue("咖啡", "咖啡机")).domain == ("咖啡机",)

    def test_at_most_five_are_chosen(self) -> None:
        names = ["a1", "b2", "c3", "d4", "e5", "f6"]
        assert describe([" ".join(names)], catalogue(*names)).domain == tuple(names[:5])

    def test_what_the_assistant_names_does_not_count(self) -> None:
        spoken = ["I had a quiet day.", message("Some coffee? Coffee helps. Or a hike!", role="assistant")]
        assert describe(spoken, catalogue("coffee", "hike")).domain == ()
        assert describe([*spoken, "Yes, a hike."], catalogue("coffee", "hike")).domain == ("hike",)

    @pytest.mark.parametrize("name", ["hike", "hikes", "hiking", "long hike"])
    @pytest.mark.parametrize("said", ["One long hike a week.", "Long hikes!", "I was long hiking."])
    def test_an_english_word_counts_in_all_its_forms(self, name: str, said: str) -> None:
        assert describe([said], catalogue(name)).domain == (name,)

    def test_what_only_looks_like_a_form_does_not_count(self) -> None:
        said = "It was even: we win, we care, and what is new is the plan."
        assert describe([said], catalogue("IT", "wine", "car", "news", "plane", "evening")).domain == ()

    @pytest.mark.parametrize(
        ("description", "said", "found"),
        [
            ("espresso, latte and beans", "Two lattes, please.", True),
            ("e.g. 拿铁、美式、手冲等", "来杯手冲", True),
            ("拿铁和美式", "来杯美式", True),
            ("The user talks about espresso, or orders one", "An espresso, please.", False),
            ("用户提到咖啡，或者喝了拿铁", "来杯拿铁", False),
            ("espresso", "An espresso, please.", False),
            ("", "An espresso, please.", False),
        ],
    )
    def test_what_a_description_lists_names_the_tag_too(self, description: str, said: str, found: bool) -> None:
        tags = PipelineConfig(tag_catalogue=(CatalogueTag(name="coffee", description=description),))
        assert describe([said], tags).domain == (("coffee",) if found else ())

    def test_a_name_counts_for_its_own_tag_where_another_lists_it(self) -> None:
        drinks = CatalogueTag(name="drinks", description="coffee, tea, juice")
        tags = PipelineConfig(tag_catalogue=(drinks, CatalogueTag(name="coffee", description="")))
        assert describe(["Coffee and juice, and tea."], tags).domain == ("drinks", "coffee")

    def test_signs_in_a_name_are_taken_literally(self) -> None:
        assert describe(["I write C++ and .NET"], catalogue("C++", ".NET", "C.")).domain == ("C++", ".NET")


class TestFacts:
    def test_facts_and_tastes_of_the_user_are_told(self) -> None:
        assert describe(["我住在杭州，喜欢咖啡", "I have a cat."]).facts == (
            "用户住在杭州",
            "用户喜欢咖啡",
            "User has a cat",
        )

    def test_what_the_assistant_says_of_itself_is_not_told(self) -> None:
        assert describe([message("我住在杭州，喜欢咖啡", role="assistant")]).facts == ()

    def test_long_ones_and_more_than_ten_are_left_out(self) -> None:
        likes = "、".join(f"{sport}球" for sport in "篮足排网台棒垒手冰水羽橄")
        found = describe([f"我的目标是{'很' * 20}流利地说英语", f"我喜欢{likes}"]).facts
        assert len(found) == 10
        assert all(len(fact) <= 30 for fact in found)
