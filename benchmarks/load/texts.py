"""What users and assistants say under load: sentences made from patterns, in English and Chinese.

Statements tell something of their user that the rules understand; the rest is talk in which nobody finds anything.
"""

from __future__ import annotations

import random
from typing import Final, Literal

Language = Literal["en", "zh"]

_WORDS: Final[dict[Language, dict[str, tuple[str, ...]]]] = {
    "en": {
        "city": ("Lyon", "Bremen", "Oslo", "Porto", "Graz", "Turin", "Ghent", "Cork", "Leeds", "Malmo"),
        "thing": ("tea", "chess", "hiking", "jazz", "cooking", "swimming", "painting", "green olives", "old films"),
        "job": ("nurse", "baker", "teacher", "carpenter", "surveyor", "pilot"),
        "name": ("Ada", "Bob", "Cleo", "Dora", "Emil", "Fay"),
        "number": ("12", "20", "35", "48", "60"),
    },
    "zh": {
        "city": ("杭州", "成都", "苏州", "厦门", "青岛", "昆明"),
        "thing": ("咖啡", "爬山", "音乐", "做饭", "游泳", "下棋"),
        "job": ("老师", "护士", "工程师", "厨师", "会计"),
        "name": ("小陈", "小林", "小周", "小吴"),
        "number": ("三", "五", "八", "十二"),
    },
}

_STATEMENTS: Final[dict[Language, tuple[str, ...]]] = {
    "en": (
        "I live in {city} now.",
        "I moved to {city}.",
        "I like {thing}.",
        "I love {thing}.",
        "I don't like {thing} any more.",
        "I work as a {job}.",
        "My name is {name}.",
        "I am {number} years old.",
        "Please keep your answers short.",
        "I prefer long and detailed answers.",
    ),
    "zh": (
        "我住在{city}。",
        "我搬到了{city}。",
        "我喜欢{thing}。",
        "我不喜欢{thing}了。",
        "我是一名{job}。",
        "我叫{name}。",
        "以后回复简短一点。",
    ),
}

_TALK: Final[dict[Language, tuple[str, ...]]] = {
    "en": (
        "The train was late again, {number} minutes.",
        "What would go well with {thing}?",
        "Is there anything new about the weather in {city}?",
        "Thanks, that helps.",
        "The meeting took {number} minutes longer than planned.",
        "Could the list be sorted by price?",
        "The second part of the film was better than the first.",
        "How far is it from {city} to the coast?",
    ),
    "zh": (
        "火车又晚点了{number}分钟。",
        "{city}这几天的天气怎么样？",
        "好的，谢谢。",
        "会议比计划长了{number}分钟。",
        "这个列表能按价格排序吗？",
        "电影的第二部分比第一部分好看。",
    ),
}

_ANSWERS: Final[dict[Language, tuple[str, ...]]] = {
    "en": (
        "That sounds good, let us look at it step by step.",
        "Here are three possibilities, the first one is the cheapest.",
        "The forecast for {city} says rain in the morning and sun after noon.",
        "Of course, the list is below, sorted by price.",
        "It takes about {number} minutes by train.",
    ),
    "zh": (
        "好的，我们一步一步来看。",
        "这里有三种选择，第一种最便宜。",
        "{city}上午有雨，下午转晴。",
        "当然可以，列表在下面。",
        "坐火车大约{number}分钟。",
    ),
}


def user_text(language: Language, length: float, telling: bool, chance: random.Random) -> str:
    """Return a user's message of about `length` characters, with a statement about the user where it is `telling`."""
    return _text(language, length, [_sentence(_STATEMENTS, language, chance)] if telling else [], _TALK, chance)


def assistant_text(language: Language, length: float, chance: random.Random) -> str:
    """Return an assistant's message of about `length` characters."""
    return _text(language, length, [], _ANSWERS, chance)


def _text(
    language: Language,
    length: float,
    sentences: list[str],
    patterns: dict[Language, tuple[str, ...]],
    chance: random.Random,
) -> str:
    size = sum(map(len, sentences))
    while True:
        following = _sentence(patterns, language, chance)
        if sentences and size + len(following) / 2 > length:
            return ("" if language == "zh" else " ").join(sentences)
        sentences.append(following)
        size += len(following) + (language == "en")


def _sentence(patterns: dict[Language, tuple[str, ...]], language: Language, chance: random.Random) -> str:
    pattern = chance.choice(patterns[language])
    if "{" not in pattern:
        return pattern
    return pattern.format_map({name: chance.choice(words) for name, words in _WORDS[language].items()})
