"""How preferences other than manners are worded, in both languages, and the category of each."""

from __future__ import annotations

import re
from typing import Final

from agents.processor import SlotName
from agents.rules import slots
from agents.rules.chinese import parts as zh_parts
from agents.rules.chinese import wording as zh
from agents.rules.chinese import words as zh_words
from agents.rules.english import parts as en_parts
from agents.rules.english import wording as en
from agents.rules.english import words as en_words
from agents.rules.facts.phrasebook import Phrase, Phrasebook
from schemas.facts import PreferenceCategory

REPLY_LANGUAGE: Final[SlotName] = ("told", "reply_language")
"""The language to be answered in."""

_FAVORITE: Final[SlotName] = ("interest", "*")

PHRASES: Final = Phrasebook(
    (
        Phrase(REPLY_LANGUAGE, "zh", "偏好用{value}交流", wording=zh.tongue),
        Phrase(slots.QUIET_TIMES, "zh", "不喜欢{value}被打扰"),
        Phrase(slots.CONTACT_TIMES, "zh", "偏好{value}被联系"),
        Phrase(slots.TOOLS, "zh", "偏好使用{value}"),
        Phrase(slots.TOPICS, "zh", "喜欢谈论{value}", "不喜欢谈论{value}"),
        Phrase(slots.CHOICES, "zh", "更喜欢{value}", fits=rf".+{zh_parts.RATHER}.+", wording=zh.own),
        Phrase(slots.TIME_HABITS, "zh", "偏好{value}", wording=zh.own),
        Phrase(_FAVORITE, "zh", "最喜欢的{called}是{value}"),
        Phrase(slots.LIKES, "zh", "喜欢{value}", "不再喜欢{value}", wording=zh.own),
        Phrase(slots.DISLIKES, "zh", "不喜欢{value}", "不再讨厌{value}", wording=zh.own),
        Phrase(slots.HOBBIES, "zh", "喜欢{value}", "不再喜欢{value}", wording=zh.own),
        Phrase(REPLY_LANGUAGE, "en", "Prefers answers in {value}"),
        Phrase(slots.QUIET_TIMES, "en", "Dislikes being disturbed {value}", wording=en.small),
        Phrase(slots.CONTACT_TIMES, "en", "Prefers being contacted {value}", wording=en.small),
        Phrase(slots.TOOLS, "en", "Prefers using {value}"),
        Phrase(slots.TOPICS, "en", "Likes talking about {value}", "Dislikes talking about {value}"),
        Phrase(slots.CHOICES, "en", "Prefers {value}", fits=rf".+{en_parts.RATHER}.+", wording=en.theirs),
        Phrase(slots.TIME_HABITS, "en", "Prefers {value}", wording=en.theirs),
        Phrase(_FAVORITE, "en", "Favorite {called} is {value}"),
        Phrase(slots.LIKES, "en", "Likes {value}", "No longer likes {value}", wording=en.theirs),
        Phrase(slots.DISLIKES, "en", "Dislikes {value}", "No longer dislikes {value}", wording=en.theirs),
        Phrase(slots.HOBBIES, "en", "Likes {value}", "No longer likes {value}", wording=en.theirs),
    ),
    names={("interest", "zh"): zh_words.FAVORITES, ("interest", "en"): en_words.FAVORITES},
)  # fmt: skip
"""The wording of preferences."""

TOLD: Final = (
    slots.FAVORITES
    | {slots.LIKES, slots.DISLIKES, slots.HOBBIES, REPLY_LANGUAGE}
    | {slots.QUIET_TIMES, slots.CONTACT_TIMES, slots.TIME_HABITS}
    | {slots.CHOICES, slots.TOOLS, slots.TOPICS}
)
"""The slots that are preferences."""

_CONTENT_KINDS: Final = frozenset(("interest", kind) for kind in ("books", "movies", "music", "games", "tv_shows"))
_CATEGORIES: Final[dict[SlotName, PreferenceCategory]] = {
    REPLY_LANGUAGE: "language",
    slots.QUIET_TIMES: "time",
    slots.CONTACT_TIMES: "time",
    slots.TIME_HABITS: "time",
    slots.TOOLS: "tool",
    slots.TOPICS: "content",
}
_CONTENT: Final = re.compile(
    r"电影|影片|片$|传记|小说|散文|诗|书|漫画|动漫|动画|剧|综艺|纪录片|音乐|歌|曲|摇滚|爵士|游戏|新闻|历史|科幻|悬疑|推理|文学|哲学|话题|播客|相声|戏|《"
    r"|\b(?:movies?|films?|books?|novels?|poetry|poems?|fiction|sci-fi|comics?|manga|anime|cartoons?|series|shows?|documentar(?:y|ies)|music|songs?|jazz"
    r"|rock(?! climb)|hip[- ]hop|opera|games?|news|history|literature|philosophy|podcasts?|plays|musicals|reading)\b",
    re.IGNORECASE,
)


def category(slot: SlotName, value: str) -> PreferenceCategory:
    """Return the category: ``content`` for what is read, heard, watched and talked of."""
    if slot in _CATEGORIES:
        return _CATEGORIES[slot]
    return "content" if slot in _CONTENT_KINDS or _CONTENT.search(value) else "other"
