"""How two statements relate, by their wording."""

from __future__ import annotations

import asyncio

import pytest

from agents.fact_processor import Relation
from agents.rules import relations
from agents.rules.facts.manners import BY_NAME, MANNERS
from agents.rules.processor import RuleProcessor
from schemas.pipeline import PipelineConfig

FACTS: list[tuple[Relation, str, str]] = [
    ("duplicate", "用户住在杭州", "用户目前住在杭州。"),
    ("duplicate", "用户住在上海浦东新区", "用户住在上海"),
    ("duplicate", "用户有一只叫团子的猫", "用户有一只猫"),
    ("duplicate", "用户的老板叫张伟", "用户的老板姓张"),
    ("duplicate", "User lives in Berlin", "The user lives in Berlin."),
    ("duplicate", "User is allergic to peanut", "User is allergic to peanuts"),
    ("duplicate", "User has no kids", "User has no children"),
    ("update", "用户住在杭州", "用户住在上海"),
    ("update", "用户住在上海", "用户住在上海浦东新区"),
    ("update", "用户的老板姓张", "用户的老板姓李"),
    ("update", "用户的老板姓张", "用户的老板叫张伟"),
    ("update", "用户32岁", "用户33岁"),
    ("update", "用户是程序员", "用户是产品经理"),
    ("update", "用户有一只猫", "用户有两只猫"),
    ("update", "用户有一只猫", "用户有一只叫团子的猫"),
    ("update", "用户的车是特斯拉", "用户的车是比亚迪"),
    ("update", "用户经常熬夜", "用户从不熬夜"),
    ("update", "User lives in Berlin", "User lives in Hamburg"),
    ("update", "User's boss is Anna", "User's boss is Tom"),
    ("update", "User has two kids", "User has three kids"),
    ("update", "User is married", "User is divorced"),
    ("conflict", "用户喜欢香菜", "用户不喜欢香菜"),
    ("conflict", "用户不吃香菜", "用户现在吃香菜了"),
    ("conflict", "用户吃素", "用户不再吃素"),
    ("conflict", "用户有一只猫", "用户不再养猫"),
    ("conflict", "用户有一只叫团子的猫", "用户不再养猫"),
    ("conflict", "用户不再养猫", "用户有一只猫"),
    ("conflict", "用户就职于腾讯", "用户不再就职于腾讯"),
    ("conflict", "用户对花生过敏", "用户没有过敏"),
    ("conflict", "用户会游泳", "用户不会游泳"),
    ("conflict", "用户有车", "用户没有车"),
    ("conflict", "User lives in Berlin", "User no longer lives in Berlin"),
    ("conflict", "User has no kids", "User has a daughter"),
    ("conflict", "User likes tea", "User dislikes drinking tea"),
    ("different", "用户住在杭州", "用户在杭州工作"),
    ("different", "用户在杭州工作", "用户就职于腾讯"),
    ("different", "用户住在杭州", "用户不再住在北京"),
    ("different", "用户的女儿叫朵朵", "用户的女儿叫团团"),
    ("different", "用户有一只叫团子的猫", "用户有一只叫小黑的猫"),
    ("different", "用户有一只猫", "用户有一条狗"),
    ("different", "用户对花生过敏", "用户对海鲜过敏"),
    ("different", "用户会说英语", "用户会说日语"),
    ("update", "用户的学校是四川大学", "用户的学校是复旦大学"),
    ("update", "用户是大三学生", "用户是准研究生"),
    ("update", "User is single", "User has a girlfriend"),
    ("update", "User has a girlfriend", "User's girlfriend is Eve"),
    ("duplicate", "User's girlfriend is Eve", "User has a girlfriend"),
    ("conflict", "User is single", "User's girlfriend is Eve"),
    ("conflict", "User's girlfriend is Eve", "User is single"),
    ("conflict", "User's boyfriend is Tom", "User broke up"),
    ("conflict", "User has a boyfriend", "User broke up with their boyfriend"),
    ("conflict", "User is divorced", "User's wife is Ann"),
    ("conflict", "用户的女朋友叫陈静", "用户分手了"),
    ("conflict", "用户的老婆叫小丽", "用户离异"),
    ("conflict", "用户就职于华为", "用户目前失业"),
    ("conflict", "用户就职于华为", "用户上个月退休了"),
    ("conflict", "用户目前失业", "用户就职于大疆"),
    ("conflict", "User works at Google", "User lost their job"),
    ("conflict", "User is a biology student", "User graduated today"),
    ("conflict", "用户有一只叫汤圆的橘猫", "用户不再养猫"),
    ("different", "User lost their job", "User works at Google"),
    ("different", "User works at Google", "User works from home"),
    ("different", "User's daughter is Eve", "User is single"),
    ("different", "User works at Google", "User got promoted last week"),
    ("update", "User has three kids", "User has four children"),
    ("different", "User works in Berlin", "User works at Siemens"),
    ("different", "User's name is Anna", "User is 32 years old"),
    ("different", "It rains in Berlin", "User lives in Berlin"),
]

PREFERENCES: list[tuple[Relation, str, str]] = [
    ("duplicate", "Prefers short replies", "偏好简短的回复风格"),
    ("duplicate", "偏好用英语交流", "Prefers answers in English"),
    ("duplicate", "喜欢茶", "喜欢喝茶"),
    ("duplicate", "Likes drinking tea", "Likes tea"),
    ("duplicate", "不喜欢茶", "不再喜欢茶"),
    ("duplicate", "Goes running every morning", "goes running every morning."),
    ("conflict", "不吃香菜", "现在吃香菜了"),
    ("update", "Does not smoke", "Smokes a lot"),
    ("update", "经常熬夜", "从不熬夜"),
    ("conflict", "偏好简短的回复风格", "偏好详细的回复风格"),
    ("conflict", "Prefers a formal tone", "偏好轻松随意的语气"),
    ("conflict", "Prefers bullet points", "Prefers paragraphs"),
    ("conflict", "偏好用中文交流", "偏好用英语交流"),
    ("conflict", "Prefers answers in English", "Prefers answers in French"),
    ("conflict", "喜欢茶", "不喜欢喝茶"),
    ("conflict", "Likes tea", "No longer likes tea"),
    ("conflict", "喜欢谈论政治", "不喜欢谈论政治"),
    ("conflict", "偏好早上写代码", "偏好晚上写代码"),
    ("conflict", "Prefers working in the morning", "Prefers working at night"),
    ("conflict", "偏好晚上被联系", "不喜欢晚上被打扰"),
    ("conflict", "不吃香菜", "喜欢香菜"),
    ("conflict", "Eats no pork", "Likes pork"),
    ("conflict", "最喜欢的食物是寿司", "不喜欢寿司"),
    ("conflict", "Prefers tea to coffee", "Prefers coffee to tea"),
    ("conflict", "更喜欢茶而不是咖啡", "更喜欢咖啡而不是茶"),
    ("conflict", "Prefers replies with emojis", "Prefers replies without emojis"),
    ("duplicate", "Prefers tea over coffee", "Prefers tea to coffee"),
    ("different", "Prefers tea to coffee", "Prefers tea to cocoa"),
    ("different", "不吃香菜", "不喜欢香菜"),
    ("different", "偏好简短的回复风格", "偏好直接说重点"),
    ("different", "偏好早上写代码", "偏好晚上看书"),
    ("different", "偏好使用VSCode", "偏好使用Vim"),
    ("different", "喜欢茶", "不喜欢咖啡"),
    ("different", "Prefers short replies", "Likes tea"),
]


@pytest.mark.parametrize(("expected", "known", "new"), FACTS)
def test_facts(expected: Relation, known: str, new: str) -> None:
    assert relations.facts(known, new) == expected


@pytest.mark.parametrize(("expected", "known", "new"), PREFERENCES)
def test_preferences(expected: Relation, known: str, new: str) -> None:
    assert relations.preferences(known, new) == expected


@pytest.mark.parametrize("text", sorted({text for _, known, new in FACTS for text in (known, new)}))
def test_a_fact_repeats_itself(text: str) -> None:
    assert relations.facts(text, f"{text}。") == "duplicate"


@pytest.mark.parametrize("manner", MANNERS, ids=lambda manner: manner.name)
def test_a_manner_is_known_in_both_languages_and_opposes_its_opposite(manner) -> None:
    assert relations.preferences(manner.texts["zh"], manner.texts["en"]) == "duplicate"
    if manner.opposite:
        assert relations.opposed(manner.texts["zh"], BY_NAME[manner.opposite].texts["zh"])


def test_the_processor_relates_either_kind() -> None:
    processor = RuleProcessor(PipelineConfig())
    fact = asyncio.run(processor.relate("fact", "用户住在杭州", "用户住在上海"))
    preference = asyncio.run(processor.relate("preference", "喜欢茶", "不喜欢茶"))
    assert (fact.relation, preference.relation) == ("update", "conflict")
    assert fact.calls == ()
